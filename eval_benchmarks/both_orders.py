"""Position bias: the same pairs of answers judged again in the other order."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from eval_benchmarks.benchmark import Benchmark, Metric, mean_metric
from rag_zeval.scorers.score import Score, Scored

SUFFIX = "_both_orders"
Values = tuple[float, float]


class BothOrders(Benchmark):
    """A benchmark of two answers an example, after it was scored: its examples have the answers exchanged.

    Metrics: `flip_rate`, the share of pairs where the decision (first answer, second or tie) is another one in the
    other order; `first_minus_second`, the mean over pairs and both orders of the score of the answer shown first minus
    that of the other, 0 where the place does not matter; then the benchmark's own metrics of each answer's mean score
    over both orders. A pair that lacks a score in one order is missing. Here every pair is an instance: WikiEval has
    two of each row.
    """

    def __init__(self, benchmark: Benchmark, scored: Mapping[str, Scored]):
        self.name = benchmark.name + SUFFIX
        self.world = benchmark.world
        self.data_hash = hashlib.sha256(f"answers exchanged {benchmark.data_hash}".encode()).hexdigest()
        self.examples = [replace(e, id=_exchanged(e.id), answers=e.answers[::-1]) for e in benchmark.examples]
        self._benchmark, self._scored = benchmark, scored

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        ids = [example.id for example in self._benchmark.examples]
        pairs = [_in_both(self._scored.get(id_), scored.get(_exchanged(id_))) for id_ in ids]
        means = {
            id_: Scored(id_, tuple(map(Score, np.mean(pair, axis=0).tolist() if pair else (None, None))))
            for id_, pair in zip(ids, pairs, strict=True)
        }
        return [
            mean_metric("flip_rate", [pair and _flips(*pair) for pair in pairs]),
            mean_metric("first_minus_second", [pair and _first_minus_second(*pair) for pair in pairs]),
            *self._benchmark.metrics(means),
        ]


def has_pairs(benchmark: Benchmark) -> bool:
    """Whether every example has two answers."""
    return all(len(example.answers) == 2 for example in benchmark.examples)


def _exchanged(id_: str) -> str:
    return f"{id_}-exchanged"


def _in_both(scored: Scored | None, exchanged: Scored | None) -> tuple[Values, Values] | None:
    """The scores of the two answers in the first order and in the other, both times the same answer first."""
    if scored is None or exchanged is None:
        return None
    (a, b), (b_again, a_again) = scored.values, exchanged.values
    if a is None or b is None or a_again is None or b_again is None:
        return None
    return (a, b), (a_again, b_again)


def _flips(shown_first: Values, shown_second: Values) -> float:
    return float(np.sign(shown_first[0] - shown_first[1]) != np.sign(shown_second[0] - shown_second[1]))


def _first_minus_second(shown_first: Values, shown_second: Values) -> float:
    return ((shown_first[0] - shown_first[1]) + (shown_second[1] - shown_second[0])) / 2
