"""Runs a Measure over examples, many answers side by side, and counts what that costs."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from rag_zeval.judge.evaluator import Example
from rag_zeval.models.embeddings import Embedder, Embedding
from rag_zeval.models.language_model import Backend, Reply, Request, Sampling, known_total
from rag_zeval.scorers.asking import Ask, Embed, Failed, Found, Measure, Run
from rag_zeval.scorers.score import Score, Scored, paid_tokens

GROUP = 128  # examples asked about together: of a local model a batch, else the most that are under way at once
T = TypeVar("T")
Sent = TypeVar("Sent")


class AskingScorer:
    """A Measure by one judge (`backend`) and one model of sentences (`embedder`), each of which it may not need.

    sampling: the longest reply and the seed; the temperature is the measure's own, without top-p.
    timeout: seconds after which nothing further is asked for an example; a single reply has its own limit (`Endpoint`).
    `parts` of a row: "answers", for each answer what its value was made of ({} where there is none).
    """

    def __init__(
        self,
        measure: Measure,
        backend: Backend | None,
        sampling: Sampling,
        embedder: Embedder | None = None,
        timeout: float = float("inf"),
    ):
        self.measure, self.timeout = measure, timeout
        self.name = measure.name
        self._backend, self._embedder = backend, embedder
        self._sampling = replace(sampling, temperature=0.0, top_p=1.0)
        self.prompt_hash = " ".join(prompt.prompt_hash for prompt in measure.prompts) or None
        asked = f"{backend.identity} prompts {self.prompt_hash} {self._sampling}" if backend else ""
        self.identity = f"{measure.name} {asked} {embedder.identity if embedder and measure.embeds else ''}"
        self.group: int | None = GROUP if backend and backend.batched else None

    def score(self, examples: Iterable[Example]) -> Iterator[Scored]:
        work = _Work(self, iter(examples))
        while work.begin() or work.questions or work.texts or work.done:
            if work.questions:
                assert self._backend is not None, f"{self.name} asks a judge"
                requests = _Line(work, work.questions, self._request)
                for index, reply in self._backend.complete(requests):
                    work.receive(requests.taken.pop(index), reply)
                    yield from work.take_done()
            if work.texts:
                assert self._embedder is not None, f"{self.name} embeds texts"
                texts = _Line(work, work.texts, lambda one: one.text)
                for index, found in self._embedder.embed(texts):
                    work.receive(texts.taken.pop(index), found)
                    yield from work.take_done()
            yield from work.take_done()

    def _request(self, one: Ask) -> Request:
        return Request((dict(one.message),), replace(self._sampling, temperature=one.temperature), one.trial)


@dataclass
class _Row:
    """An example under way: its answers' runs, and what they have cost until now."""

    example: Example
    runs: list[Run[Found]]
    started: float = field(default_factory=time.monotonic)
    late: bool = False
    got: list[Reply | Embedding] = field(default_factory=list)

    def scored(self) -> Scored:
        scores, parts = [], []
        for run in self.runs:
            try:
                found = run.result()
                scores.append(Score(found.value))
                parts.append(dict(found.parts))
            except Failed as failure:
                scores.append(Score(None, f"failed: {failure}"))
                parts.append({})
        return Scored(
            self.example.id,
            tuple(scores),
            {"answers": parts},
            calls=sum(one.calls for one in self.got),
            prompt_tokens=known_total([_prompt_tokens(one) for one in self.got]),
            completion_tokens=known_total([one.completion_tokens for one in self.got if isinstance(one, Reply)]),
            final=not self.late and all(_came(one) for one in self.got),
            cached=sum(one.cached for one in self.got),
            retries=sum(one.retries for one in self.got),
            failures=sum(not _came(one) for one in self.got),
            seconds=round(sum(one.seconds for one in self.got), 3),
            paid_tokens=paid_tokens(self.got),
        )


def _came(one: Reply | Embedding) -> bool:
    return (one.text if isinstance(one, Reply) else one.vector) is not None


def _prompt_tokens(one: Reply | Embedding) -> int | None:
    return one.prompt_tokens if isinstance(one, Reply) else one.tokens


@dataclass(frozen=True)
class _Slot(Generic[T]):
    """Where the answer to a question belongs."""

    row: _Row
    run: Run[Found]
    place: int
    one: T


class _Work:
    """At most GROUP examples under way: `questions` and `texts` wait to be sent, `done` to be handed out."""

    def __init__(self, scorer: AskingScorer, examples: Iterator[Example]):
        self._scorer, self._examples = scorer, examples
        self._under_way = 0
        self.questions: deque[_Slot[Ask]] = deque()
        self.texts: deque[_Slot[Embed]] = deque()
        self.done: deque[Scored] = deque()

    def begin(self) -> bool:
        """Begin with one more example, if there is one and not too many are under way."""
        if self._under_way + len(self.done) >= GROUP or (example := next(self._examples, None)) is None:
            return False
        measure = self._scorer.measure
        if lacking := measure.lacks(example):
            score = Score(None, f"failed: the example has no {' and no '.join(lacking)}")
            self.done.append(Scored(example.id, (score,) * len(example.answers)))
        else:
            row = _Row(example, [Run(measure.steps(example, answer)) for answer in example.answers])
            self._under_way += 1
            for run in row.runs:
                self._queue(row, run)
            self._end_if_done(row)
        return True

    def receive(self, slot: _Slot[Any], answer: Reply | Embedding) -> None:
        """Hand an answer to the run that waits for it."""
        slot.row.got.append(answer)
        if slot.run.receive(slot.place, answer):
            if slot.run.asks and time.monotonic() - slot.row.started > self._scorer.timeout:
                slot.row.late = True
                slot.run.give_up(Failed(f"no score within {self._scorer.timeout:g} s"))
            self._queue(slot.row, slot.run)
            self._end_if_done(slot.row)

    def take_done(self) -> Iterator[Scored]:
        while self.done:
            yield self.done.popleft()

    def _queue(self, row: _Row, run: Run[Found]) -> None:
        for place, one in enumerate(run.asks):
            if isinstance(one, Ask):
                self.questions.append(_Slot(row, run, place, one))
            else:
                self.texts.append(_Slot(row, run, place, one))

    def _end_if_done(self, row: _Row) -> None:
        if not any(run.asks for run in row.runs):
            self._under_way -= 1
            self.done.append(row.scored())


class _Line(Generic[T, Sent]):
    """What waits to be sent to a model, in the form it takes; where nothing waits, further examples are begun.

    `taken`: where the answers belong, by the order of asking.
    """

    def __init__(self, work: _Work, waiting: deque[_Slot[T]], form: Callable[[T], Sent]):
        self._work, self._waiting, self._form = work, waiting, form
        self.taken: dict[int, _Slot[T]] = {}
        self._count = itertools.count()

    def __iter__(self) -> Iterator[Sent]:
        return self

    def __next__(self) -> Sent:
        while not self._waiting:
            if not self._work.begin():
                raise StopIteration
        slot = self._waiting.popleft()
        self.taken[next(self._count)] = slot
        return self._form(slot.one)
