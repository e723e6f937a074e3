"""How a scorer asks a judge several things about one answer.

A scorer is a generator that reads from top to bottom: `claims = yield from ask(CLAIMS, read_claims, answer=answer)`,
then the next question with what came back. `asking_scorer.AskingScorer` runs the generators of many answers side by
side. Scorers of one family ask the same questions in the same words, so behind a cache
(`rag_zeval.models.cache.CachedBackend`) each is paid for once: no memory of their own is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from rag_zeval.judge.evaluator import Example
from rag_zeval.judge.prompt import Prompt, inputs_json
from rag_zeval.models.embeddings import Embedding, Vector, cosine
from rag_zeval.models.language_model import Reply
from rag_zeval.scorers.reading import Unreadable, read_json

T = TypeVar("T")


class Failed(Exception):
    """There is no score for this answer; the message, without "failed: ", says why."""


@dataclass(frozen=True)
class ScorerPrompt(Prompt):
    """A prompt of `scorers/prompts`."""

    folder: ClassVar[Path] = Path(__file__).parent / "prompts"


@dataclass(frozen=True)
class Ask:
    """One question to the judge; `trial` numbers repeated samples of it."""

    message: Mapping[str, str]
    temperature: float
    trial: int


@dataclass(frozen=True)
class Embed:
    """One text to embed."""

    text: str


Asks = Sequence[Ask | Embed]
Answers = Sequence[Reply | Embedding]
Steps = Generator[Asks, Answers, T]  # what a scorer is: yields questions, receives their answers in order, returns T


def ask_text(
    prompt: ScorerPrompt, read: Callable[[str], T], *, temperature: float = 0.0, trial: int = 0, **inputs: Any
) -> Steps[T]:
    """What `read` makes of the judge's reply to a prompt about `inputs` (they stand in it as one JSON object).

    Raises Failed when no reply came, when it was cut off, and when `read` raises Unreadable.
    """
    reply = yield from _reply(prompt, temperature, trial, inputs)
    if reply.status == "truncated":
        raise Failed(_cut_off(reply))
    try:
        return read(reply.text or "")
    except Unreadable as error:
        raise Failed(f"{prompt.name}: {error}") from error


def ask(
    prompt: ScorerPrompt, read: Callable[[Any], T], *, temperature: float = 0.0, trial: int = 0, **inputs: Any
) -> Steps[T]:
    """The same of a reply that holds JSON, which `read` gets as `reading.read_json` found it.

    A reply that was cut off counts if all its JSON is there.
    """
    reply = yield from _reply(prompt, temperature, trial, inputs)
    try:
        return read_json(reply.text or "", read)
    except Unreadable as error:
        raise Failed(_cut_off(reply) if reply.status == "truncated" else f"{prompt.name}: {error}") from error


def _reply(prompt: ScorerPrompt, temperature: float, trial: int, inputs: Mapping[str, Any]) -> Steps[Reply]:
    (reply,) = yield [Ask(prompt.message(inputs_json(inputs)), temperature, trial)]
    assert isinstance(reply, Reply)
    if reply.text is None:
        raise Failed(reply.status.removeprefix("failed: "))
    return reply


def _cut_off(reply: Reply) -> str:
    return f"reply cut off at {reply.completion_tokens} tokens"


def embed(text: str) -> Steps[Vector]:
    """The text's vector. Raises Failed when none came."""
    (found,) = yield [Embed(text)]
    assert isinstance(found, Embedding)
    if found.vector is None:
        raise Failed(f"embedding: {found.status.removeprefix('failed: ')}")
    return found.vector


def similarity(first: str, second: str) -> Steps[float]:
    """Cosine of two texts' vectors, in [-1, 1]. Raises Failed when there is none."""
    one, other = yield from together(embed(first), embed(second))
    return similarity_of(one, other)


def similarity_of(first: Vector, second: Vector) -> float:
    """The same of vectors. Raises Failed when one is zero or they differ in length."""
    value = cosine(first, second) if len(first) == len(second) else None
    if value is None:
        raise Failed("embedding: a vector is zero, or they differ in length")
    return value


def together(*steps: Steps[T]) -> Steps[list[T]]:
    """The results of steps that do not need each other, asked side by side; raises the first failure among them."""
    runs = [Run(each) for each in steps]
    while open_runs := [run for run in runs if run.asks]:
        answers = yield [question for run in open_runs for question in run.asks]
        for run in open_runs:
            own, answers = answers[: len(run.asks)], answers[len(run.asks) :]
            run.go_on(own)
    return [run.result() for run in runs]


class Run(Generic[T]):
    """Steps under way: `asks` is what they wait for, empty at the end."""

    def __init__(self, steps: Steps[T]):
        self._steps = steps
        self._result: list[T] = []
        self._came: dict[int, Reply | Embedding] = {}  # answers to `asks`, until all are there
        self.failure: Failed | None = None
        self.asks: Asks = []
        self.go_on(None)

    def receive(self, place: int, answer: Reply | Embedding) -> bool:
        """Take the answer to `asks[place]`; True if it was the last one awaited, and the steps went on."""
        self._came[place] = answer
        if len(self._came) < len(self.asks):
            return False
        answers, self._came = [self._came[at] for at in range(len(self.asks))], {}
        self.go_on(answers)
        return True

    def go_on(self, answers: Answers | None) -> None:
        """Hand the steps the answers to `asks`, in their order; None starts them."""
        try:
            self.asks = self._steps.send(answers)  # type: ignore[arg-type]  # None starts a generator
        except StopIteration as end:
            self._result, self.asks = [end.value], []
        except Failed as failure:
            self.give_up(failure)

    def give_up(self, failure: Failed) -> None:
        """End without a result, asking nothing more."""
        self.failure, self.asks = failure, []

    def result(self) -> T:
        """What the steps returned. Raises the Failed that ended them."""
        if self.failure is not None:
            raise self.failure
        return self._result[0]


@dataclass(frozen=True)
class Found:
    """A value and what it was made of (JSON)."""

    value: float
    parts: Mapping[str, Any]


@dataclass(frozen=True)
class Measure:
    """A scorer to be run by `AskingScorer`: `steps(example, answer)` asks with `prompts` and gives one answer's value.

    needs: fields of Example without which there is no value; only: what it judges, in words, and whether an example has
    it: a benchmark of which none does is left out. embeds: whether texts are embedded. Without prompts no judge is
    asked.
    """

    name: str
    steps: Callable[[Example, str], Steps[Found]]
    prompts: tuple[ScorerPrompt, ...] = ()
    needs: tuple[str, ...] = ()
    embeds: bool = False
    only: tuple[str, Callable[[Example], bool]] | None = None

    def lacks(self, example: Example) -> list[str]:
        """The needed fields that the example does not have."""
        return [need for need in self.needs if not getattr(example, need)]
