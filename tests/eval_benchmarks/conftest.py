from __future__ import annotations

import importlib.util
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from eval_benchmarks.inputs import MEASURES
from eval_benchmarks.literal_judge import literal_reply, read_prompt
from eval_benchmarks.scorers import Scored
from eval_benchmarks.scorers.asking_scorer import AskingScorer
from eval_benchmarks.scripted_judge import SPOILED, ScriptedJudge
from rag_zeval import world
from rag_zeval.cache import CachedBackend, ReplyCache
from rag_zeval.evaluator import Example
from rag_zeval.llm import Reply, Request, Sampling, in_rounds
from rag_zeval.prompt import INPUTS, find_variant

VOCABULARY = [f"word{i}" for i in range(60)]


def labelled_rows(instances: int, words: int) -> list[dict[str, Any]]:
    """Rows in the form of human_labeled_data.json: two annotators for each instance."""
    rng = random.Random(5)
    rows = []
    for number in range(instances):
        truth, first, second = (" ".join(rng.choices(VOCABULARY, k=words)) for _ in range(3))
        for _ in range(2):
            rows.append(
                {
                    "instance_id": number,
                    "query": f"question {number}",
                    "gt_answer": truth,
                    "model1": {"response": first},
                    "model2": {"response": second},
                    "correctness_label": rng.randint(-2, 2),
                }
            )
    return rows


def shipped_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in the form of baseline_ragchecker.json for the same instances."""
    rng = random.Random(6)
    return [
        {
            "instance_id": row["instance_id"],
            **{m: {**row[m], "ragchecker": {"correctness_label": rng.random()}} for m in ("model1", "model2")},
        }
        for row in rows[::2]
    ]


@pytest.fixture
def write_ragchecker(tmp_path: Path) -> Any:
    """Writes the two RAGChecker files into a data folder, after `change(rows)`; the folder."""

    def write(instances: int = 12, words: int = 8, change: Any = None, shipped: bool = True) -> Path:
        folder = tmp_path / "data" / "ragchecker_meta"
        folder.mkdir(parents=True, exist_ok=True)
        rows = labelled_rows(instances, words)
        if shipped:
            (folder / "baseline_ragchecker.json").write_text(json.dumps(shipped_rows(rows)))
        if change:
            change(rows)
        (folder / "human_labeled_data.json").write_text(json.dumps(rows))
        return tmp_path / "data"

    return write


@pytest.fixture
def write_wikieval(tmp_path: Path) -> Any:
    """Appends rows to data/wikieval/<name>; the data folder."""

    def write(*rows: dict[str, Any], name: str = "rows.jsonl") -> Path:
        path = tmp_path / "data" / "wikieval" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / "data"

    return write


class NanoJudge:
    """Judges the nano world as a scripted judge's replies; the model's name says how.

    perfect: the truth; yes: everything is supported; fenced: the truth inside a Markdown fence; prose: no JSON;
    refusing: HTTP 400.
    """

    def __init__(self, truth: dict[str, Any], server: ScriptedJudge) -> None:
        self.truth, self.server = truth, server
        self.as_perfect: set[str] = set()
        server.replies = self.reply

    @property
    def asked(self) -> Counter[str]:
        return Counter(request["model"] for request in self.server.requests)

    def spec(self, model: str) -> str:
        return self.server.spec(model)

    def reply(self, body: dict[str, Any]) -> str | dict[str, Any]:
        model = "perfect" if body["model"] in self.as_perfect else body["model"]
        if model == "refusing":
            return {"status": 400, "body": {"error": {"message": "not today"}}}
        before, after = find_variant("compact").template.split(INPUTS)
        inputs = json.loads(body["messages"][0]["content"][len(before) : -len(after) or None])
        facts = self.truth[inputs["reference"]]
        text = json.dumps([self.judged(id_, text, facts, model) for id_, text in inputs["candidates"].items()])
        return {"fenced": SPOILED["fenced"](text), "prose": "They are all fine."}.get(model, text)

    def judged(self, id_: str, text: str, facts: Any, model: str) -> dict[str, Any]:
        sentences = [f"{part.rstrip('.')}." for part in text.split(". ")]
        claims = [
            {
                "claim": claim,
                "is_supported": model == "yes" or world.claim_is_true(claim, facts) is True,
                "grounding_evidence": ["quoted"],
                "analysis": "so",
            }
            for claim in sentences
        ]
        return {"id": id_, "atomic_claims": claims}


NANO = {"n": 12, "seed_ranked": 1, "seed_pairs": 2}


@pytest.fixture
def judge_server(scripted_judge: ScriptedJudge) -> NanoJudge:
    ranked = [
        example
        for k, seed in ((4, NANO["seed_ranked"]), (2, NANO["seed_pairs"]))
        for example in world.ranked_examples("test", NANO["n"], k, seed)
    ]
    return NanoJudge({example.question.passage: example.question.facts for example in ranked}, scripted_judge)


@pytest.fixture
def nano_words() -> list[str]:
    """The command line words of a nano_eval on the examples that `judge_server` knows."""
    return [
        "benchmarks=[nano_eval]",
        "nano_eval.variant=compact",
        *(f"nano_eval.{key}={value}" for key, value in NANO.items()),
    ]


@pytest.fixture
def literal_judge(scripted_judge: ScriptedJudge) -> ScriptedJudge:
    scripted_judge.replies = literal_reply
    return scripted_judge


@pytest.fixture
def prompt_of() -> Any:
    return lambda body: read_prompt(body["messages"][0]["content"])[0]


class JudgeByPrompt:
    """A judge in this process. Replies by prompt: a text, a Reply, or what a function makes of the inputs.

    rounds: of each batch, the prompts and inputs that were asked; temperatures: all that occurred.
    """

    name = identity = "judge"
    card: dict[str, str] = {}  # noqa: RUF012
    max_context = None
    batched = False

    def __init__(self, replies: dict[str, Any]) -> None:
        self.replies = replies
        self.rounds: list[list[tuple[str, dict[str, Any]]]] = []
        self.temperatures: set[float] = set()

    def count_tokens(self, messages: Any) -> None:
        return None

    def complete(self, requests: Iterable[Request]) -> Iterator[tuple[int, Reply]]:
        for batch in in_rounds(requests):
            self.rounds.append([read_prompt(request.messages[0]["content"]) for _, request in batch])
            for (index, request), (prompt, inputs) in zip(batch, self.rounds[-1], strict=True):
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

    def complete(self, requests: Iterable[Request]) -> Iterator[tuple[int, Reply]]:
        for index, request in enumerate(requests):
            assert request.sampling.temperature == 0
            prompt, inputs = read_prompt(request.messages[0]["content"])
            said = self.reply(prompt, inputs)
            text = said if isinstance(said, str) else json.dumps(said)
            text = self.spoil.get(len(self.asked), str)(text)
            self.asked.append((prompt, inputs))
            yield index, Reply(text, "ok", 1, 1, calls=1)


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


BERT = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
ROBERTA = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>", "eos_token": "</s>"}
WORDS = [*"the cat sat on a mat dog .".split(), *VOCABULARY]


@pytest.fixture
def write_nli() -> Any:
    """Writes a small sequence classifier with random weights, a BERT or a RoBERTa; the folder."""

    def write(folder: Path, labels: Sequence[str], roberta: bool = False, window: int = 16) -> Path:
        import torch
        from tokenizers import Tokenizer, models, pre_tokenizers, processors
        from transformers import (
            BertConfig,
            BertForSequenceClassification,
            PreTrainedTokenizerFast,
            RobertaConfig,
            RobertaForSequenceClassification,
        )

        torch.manual_seed(0)
        marks = ROBERTA if roberta else BERT
        vocabulary = {word: at for at, word in enumerate([*dict.fromkeys(marks.values()), *WORDS])}
        cls, sep = marks["cls_token"], marks["sep_token"]
        plain = Tokenizer(models.WordLevel(vocabulary, unk_token=marks["unk_token"]))
        plain.pre_tokenizer = pre_tokenizers.Whitespace()
        plain.post_processor = processors.TemplateProcessing(
            single=f"{cls} $A {sep}",
            pair=f"{cls} $A {sep} {sep} $B {sep}" if roberta else f"{cls} $A {sep} $B:1 {sep}:1",
            special_tokens=[(mark, vocabulary[mark]) for mark in (cls, sep)],
        )
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, model_max_length=window, **marks)
        tokenizer.save_pretrained(folder)
        config = (RobertaConfig if roberta else BertConfig)(
            vocab_size=len(vocabulary),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=window + 2 * roberta,  # a RoBERTa counts from 2
            initializer_range=1.0,
            id2label=dict(enumerate(labels)),
            label2id={label: at for at, label in enumerate(labels)},
        )
        (RobertaForSequenceClassification if roberta else BertForSequenceClassification)(config).save_pretrained(folder)
        return folder

    return write


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
