"""RAGChecker's meta-evaluation in the nano world: do the scores of two answers differ as their support does?

The pairs are those of nano_eval. The label is the difference of their true supports, which the world knows. In
RAGChecker's set people gave the labels.
"""

from collections.abc import Mapping

import numpy as np

from eval_benchmarks.bench_settings import RunSettings
from eval_benchmarks.benchmark import Benchmark, Metric
from eval_benchmarks.datasets import nano_eval
from eval_benchmarks.datasets.ragchecker_meta import KINDS, score_delta
from rag_zeval.scorers.score import Scored
from rag_zeval.statistics.bootstrap import Correlation


class NanoMeta(Benchmark):
    """The correlation of score differences with differences of true support, in [-1, 1].

    Metrics: pearson, spearman and kendall (tau-b).
    """

    name = "nano_meta"
    world = nano_eval.WORLD
    no_human = "its labels are the truth of a generated world"

    def __init__(self, pairs: nano_eval.NanoEval):
        self.examples, self.data_hash = [example for example, _ in pairs.pairs], pairs.data_hash
        self.labels = np.array([[second - first] for _, (first, second) in pairs.pairs])

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        deltas = np.array([score_delta(scored.get(example.id)) for example in self.examples])
        return [Metric(kind, Correlation(kind, deltas, self.labels), ~np.isnan(deltas)) for kind in KINDS]


def load(settings: RunSettings) -> tuple[NanoMeta, list[str]]:
    return NanoMeta(nano_eval.load(settings)[0]), []
