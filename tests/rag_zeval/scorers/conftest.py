"""Judges in this process, and small models, for the tests of scorers."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.judge.evaluator import Example
from rag_zeval.literal_judge import read_prompt
from rag_zeval.models.batched import BatchedModel
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.language_model import Reply, Request, Sampling
from rag_zeval.scorers.asking_scorer import AskingScorer
from rag_zeval.scorers.registry import MEASURES
from rag_zeval.scorers.score import Scored
from rag_zeval.scripted_judge import SPOILED


@pytest.fixture
def prompt_of() -> Any:
    return lambda body: read_prompt(body["messages"][0]["content"])[0]


class JudgeByPrompt(BatchedModel):
    """A judge in this process. Replies by prompt: a text, a Reply, or what a function makes of the inputs.

    rounds: of each batch, the prompts and inputs that were asked; temperatures: all that occurred.
    """

    name = identity = "judge"
    card: dict[str, str] = {}  # noqa: RUF012
    max_context = None
    batched = False

    def __init__(self, replies: dict[str, Any]) -> None:
        super().__init__()
        self.replies = replies
        self.rounds: list[list[tuple[str, dict[str, Any]]]] = []
        self.temperatures: set[float] = set()

    def count_tokens(self, messages: Any) -> None:
        return None

    def replies_to(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        self.rounds.append([read_prompt(request.messages[0]["content"]) for request in requests])
        for index, (request, (prompt, inputs)) in enumerate(zip(requests, self.rounds[-1], strict=True)):
            self.temperatures.add(request.sampling.temperature)
            said = self.replies[prompt]
            said = said(inputs) if callable(said) else said
            yield index, said if isinstance(said, Reply) else Reply(said, "ok", 3, 2, calls=1)

    @property
    def prompts(self) -> list[list[str]]:
        return [[prompt for prompt, _ in batch] for batch in self.rounds]

    def score(self, measure: str, example: Example) -> Scored:
        (scored,) = AskingScorer(MEASURES[measure], self, Sampling()).score([example])
        return scored


@pytest.fixture
def judge_by_prompt() -> type[JudgeByPrompt]:
    return JudgeByPrompt


class PlainJudge:
    """A judge in this process: it says what `reply(prompt, inputs)` gives (text or JSON), and notes what it was asked.

    spoil: what becomes of the reply to the question of that number.
    """

    name = identity = "plain"
    card: dict[str, str] = {}  # noqa: RUF012
    max_context = None
    batched = False
    at_once = 1

    def __init__(
        self, reply: Callable[[str, dict[str, Any]], Any], spoil: dict[int, Callable[[str], str]] | None = None
    ):
        self.reply, self.spoil = reply, spoil or {}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    @property
    def prompts(self) -> list[str]:
        return [prompt for prompt, _ in self.asked]

    def count_tokens(self, messages: Any) -> None:
        return None

    async def complete(self, request: Request) -> Reply:
        assert request.sampling.temperature == 0
        prompt, inputs = read_prompt(request.messages[0]["content"])
        said = self.reply(prompt, inputs)
        text = said if isinstance(said, str) else json.dumps(said)
        text = self.spoil.get(len(self.asked), str)(text)
        self.asked.append((prompt, inputs))
        return Reply(text, "ok", 1, 1, calls=1)


@pytest.fixture
def plain_judge() -> type[PlainJudge]:
    return PlainJudge


@pytest.fixture
def score_one(tmp_path: Path) -> Any:
    """Scores one example with a measure by name, behind one cache for the whole test."""

    def score(name: str, judge: PlainJudge, example: Example) -> Scored:
        backend = CachedBackend(judge, ReplyCache(tmp_path / "replies.sqlite"))
        (one,) = AskingScorer(MEASURES[name], backend, Sampling()).score([example])
        return one

    return score


@pytest.fixture
def check_faults() -> Any:
    """Spoils each reply in each way: the value is then the right one, or there is none, with a reason."""

    def check(name: str, reply: Callable[[str, dict[str, Any]], Any], example: Example) -> None:
        def run(spoil: dict[int, Callable[[str], str]]) -> tuple[Scored, int]:
            judge = PlainJudge(reply, spoil)
            (one,) = AskingScorer(MEASURES[name], judge, Sampling()).score([example])
            return one, len(judge.asked)

        right, calls = run({})
        assert None not in right.values
        for fault, at in [(fault, at) for fault in SPOILED for at in range(calls)]:
            one, _ = run({at: SPOILED[fault]})
            if fault in ("fenced", "prose", "single quotes"):
                assert one.values == right.values, (fault, at)
            else:
                assert fault == "nan" or one.values == (None,), (fault, at)  # a reply without numbers stays as it is
                assert one.values in ((None,), right.values), (fault, at)
            assert one.final and (one.scores[0].status == "ok") == (one.values[0] is not None)
            assert one.scores[0].status.removeprefix("failed: ")

    return check


@pytest.fixture(scope="session")
def write_bert() -> Callable[..., Path]:
    """Writes a tiny BERT into a folder: `parity/tiny_bert.py`, which the original's recorder uses too."""
    path = Path(__file__).parent / "parity" / "tiny_bert.py"
    spec = importlib.util.spec_from_file_location("tiny_bert", path)
    assert spec and spec.loader
    tiny_bert = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny_bert)
    write: Callable[..., Path] = tiny_bert.write_bert
    return write
