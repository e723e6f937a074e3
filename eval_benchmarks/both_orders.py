"""Position bias: the same pairs of answers judged again in the other order."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from eval_benchmarks.benchmark import Benchmark, Metric, mean_metric
from rag_zeval.scorers.score import Score, Scored
from rag_zeval.statistics.weighted_correlations import Floats

SUFFIX = "_both_orders"


class BothOrders(Benchmark):
    """A benchmark with two answers for each example, already scored, with the answers exchanged.

    Metrics:
    flip_rate: share of pairs whose decision (first answer, second or tie) is different in the other order.
    first_minus_second: score of the answer shown first minus that of the other, averaged over pairs and both orders. It
    is 0 if the place does not matter.
    Then the benchmark's own metrics, from each answer's mean score over both orders.

    A pair that lacks a score in one order is missing. Here every pair is an instance; WikiEval has two pairs of each
    row.
    """

    def __init__(self, benchmark: Benchmark, scored: Mapping[str, Scored]):
        self.name = benchmark.name + SUFFIX
        self.world = benchmark.world
        self.data_hash = hashlib.sha256(f"answers exchanged {benchmark.data_hash}".encode()).hexdigest()
        self.examples = [replace(e, id=_exchanged(e.id), answers=e.answers[::-1]) for e in benchmark.examples]
        self._benchmark, self._scored = benchmark, scored

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        ids = [example.id for example in self._benchmark.examples]
        orders = [(_values(self._scored.get(id_)), _values(scored.get(_exchanged(id_)))[::-1]) for id_ in ids]
        values = np.array(orders, dtype=float)  # (pairs, orders, answers); in both orders the same answer is first
        values[np.isnan(values).any(axis=(1, 2))] = np.nan
        first, second = (values[..., 0] - values[..., 1]).T  # score differences in each order
        flips = np.where(np.isnan(first), np.nan, np.sign(first) != np.sign(second))
        means = {
            id_: Scored(id_, tuple(map(Score, _known(pair))))
            for id_, pair in zip(ids, values.mean(axis=1), strict=True)
        }
        return [
            mean_metric("flip_rate", _known(flips)),
            mean_metric("first_minus_second", _known((first - second) / 2)),
            *self._benchmark.metrics(means),
        ]


def has_pairs(benchmark: Benchmark) -> bool:
    """Whether every example has two answers."""
    return all(len(example.answers) == 2 for example in benchmark.examples)


def _exchanged(id_: str) -> str:
    return f"{id_}-exchanged"


def _values(scored: Scored | None) -> tuple[float | None, ...]:
    return scored.values if scored else (None, None)


def _known(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
