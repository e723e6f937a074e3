"""Runs a Measure over examples, many side by side, and counts what that costs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rag_zeval.judge.evaluator import Example
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.embeddings import Embedder
from rag_zeval.models.language_model import Backend, Sampling
from rag_zeval.scorers.asking import Failed, Found, Judge, Measure
from rag_zeval.scorers.score import Score, Scored, costs


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
        self.group: int | None = backend.at_once if backend and backend.batched else None

    def score(self, examples: Iterable[Example]) -> Iterator[Scored]:
        model = self._backend or self._embedder
        for _, scored in as_finished(self._score, examples, model.at_once if model else 1):
            yield scored

    async def _score(self, example: Example) -> Scored:
        if lacking := self.measure.lacks(example):
            score = Score(None, f"failed: the example has no {' and no '.join(lacking)}")
            return Scored(example.id, (score,) * len(example.answers))
        judge = Judge(self._backend, self._embedder, self._sampling, self.timeout)
        values = await asyncio.gather(*(self._value(judge, example, answer) for answer in example.answers))
        scored = Scored(
            example.id,
            tuple(Score(None, f"failed: {v}") if isinstance(v, Failed) else Score(v.value) for v in values),
            {"answers": [{} if isinstance(v, Failed) else dict(v.parts) for v in values]},
            **costs(judge.answers),
        )
        return replace(scored, final=False) if judge.late else scored

    async def _value(self, judge: Judge, example: Example, answer: str) -> Found | Failed:
        try:
            return await self.measure.steps(judge, example, answer)
        except Failed as failure:
            return failure
