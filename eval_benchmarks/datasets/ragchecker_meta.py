"""RAGChecker meta-evaluation: does a scorer prefer the answer that people found more correct?

280 instances, each with two answers and two annotators (560 rows, not averaged; Ru et al. 2024, arXiv:2408.08067).
delta = score(model2) - score(model1), against the label in -2..2 (positive: model2 is better). The reference is the
ground-truth answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig

from eval_benchmarks.benchmark import Metric, field, read_json_list
from rag_zeval.errors import InputError
from rag_zeval.files import file_sha256
from rag_zeval.judge.evaluator import Example
from rag_zeval.scorers.score import Score, Scored, Scorer
from rag_zeval.statistics.bootstrap import Correlation

FOLDER = "ragchecker_meta"
LABELLED, SHIPPED = "human_labeled_data.json", "baseline_ragchecker.json"
ANNOTATORS = 2
KINDS = ("pearson", "spearman", "kendall")


class RagcheckerMeta:
    """The benchmark in `data_dir/ragchecker_meta`; `labels` is (instances, annotators), from -2 to 2.

    Raises InputError for data that do not fit.
    """

    name = "ragchecker_meta"
    world: str | None = None
    no_ceiling: str | None = None

    def __init__(self, data_dir: Path):
        path = data_dir / FOLDER / LABELLED
        self.data_hash = file_sha256(path)
        self.examples, labels = _read_labelled(path)
        self.labels = np.array([labels[example.id] for example in self.examples], dtype=float)
        shipped = data_dir / FOLDER / SHIPPED
        self.shipped: tuple[Scorer, ...] = (ShippedRagchecker(shipped, self.examples),) if shipped.is_file() else ()
        everything = np.ones(len(self.examples), dtype=bool)
        self.human: tuple[Metric, ...] = tuple(Metric(kind, self._agreement(kind), everything) for kind in KINDS)

    def _agreement(self, kind: str) -> Correlation:
        """An instance's first label against its second: the annotators' check of the benchmark's paper (Table 2)."""
        return Correlation(kind, self.labels[:, 0], self.labels[:, 1:])

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        """The three correlations on the scored instances, then with a missing delta set to the median delta.

        The second is the convention of the benchmark's authors, named `<kind>_missing_as_median`.
        """
        deltas = self.deltas(scored)
        there = ~np.isnan(deltas)
        filled = np.where(there, deltas, np.median(deltas[there]) if there.any() else np.nan)
        main = [Correlation(kind, deltas, self.labels) for kind in KINDS]
        median = main if there.all() else [Correlation(kind, filled, self.labels) for kind in KINDS]
        return [Metric(one.kind, one, there) for one in main] + [
            Metric(f"{one.kind}_missing_as_median", one, ~np.isnan(filled)) for one in median
        ]

    def deltas(self, scored: Mapping[str, Scored]) -> NDArray[np.float64]:
        """Score of the second answer minus that of the first (instances,), on the labels' scale; NaN where missing."""
        return normalised(np.array([_delta(scored.get(example.id)) for example in self.examples]))


def load(config: DictConfig) -> tuple[RagcheckerMeta | None, list[str]]:
    """The benchmark, if its data are there, and a line for what cannot be printed for want of data."""
    data_dir = Path(config.data_dir)
    folder = data_dir / FOLDER
    if not (folder / LABELLED).is_file():
        return None, [f"ragchecker_meta (Table 2, every scorer): {folder / LABELLED} is not there"]
    shipped = f"ragchecker_meta, the row of RAGChecker's shipped scores: {folder / SHIPPED} is not there"
    return RagcheckerMeta(data_dir), [] if (folder / SHIPPED).is_file() else [shipped]


class ShippedRagchecker:
    """RAGChecker's own claim precision of each answer, as its authors ship it (their field `correctness_label`)."""

    name = "ragchecker_shipped"
    group: int | None = None

    def __init__(self, path: Path, examples: list[Example]):
        self.identity = file_sha256(path)
        self._scores: dict[str, tuple[Score, ...]] = {}
        answers = {example.id: example.answers for example in examples}
        for number, row in enumerate(read_json_list(path)):
            where = f"{path}: row {number}"
            id_ = str(field(where, row, "instance_id", int))
            models = [field(where, row, model, dict) for model in ("model1", "model2")]
            if tuple(m.get("response") for m in models) != answers.get(id_):
                raise InputError(
                    f"{where}: field 'response': these are not the answers of instance {id_} in {LABELLED}"
                )
            self._scores[id_] = tuple(_shipped_score(where, model) for model in models)

    def score(self, examples: Iterable[Example]) -> Iterator[Scored]:
        absent = (Score(None, "failed: not in the shipped file"),) * 2
        for example in examples:
            yield Scored(example.id, self._scores.get(example.id, absent))


def _shipped_score(where: str, model: dict[str, Any]) -> Score:
    scores = field(where, model, "ragchecker", dict)
    if scores.get("correctness_label") is None:
        return Score(None, "failed: no shipped score")
    value = float(field(where, scores, "correctness_label", (int, float)))
    return Score(None, "failed: shipped as NaN") if math.isnan(value) else Score(value)


def _read_labelled(path: Path) -> tuple[list[Example], dict[str, list[int]]]:
    examples: dict[str, Example] = {}
    labels: dict[str, list[int]] = {}
    for number, row in enumerate(read_json_list(path)):
        where = f"{path}: row {number}"
        id_ = str(field(where, row, "instance_id", int))
        answers = tuple(
            field(f"{where}: {model}", field(where, row, model, dict), "response", str)
            for model in ("model1", "model2")
        )
        truth = field(where, row, "gt_answer", str)
        example = Example(id_, field(where, row, "query", str), truth, answers, truth=truth)
        if examples.setdefault(id_, example) != example:
            raise InputError(f"{where}: field 'instance_id': {id_} stands for other texts in an earlier row")
        label = field(where, row, "correctness_label", int)
        if abs(label) > 2:
            raise InputError(f"{where}: field 'correctness_label' must be -2 to 2, found {label}")
        labels.setdefault(id_, []).append(label)
    for id_, given in labels.items():
        if len(given) != ANNOTATORS:
            raise InputError(f"{path}: field 'instance_id': {id_} has {len(given)} rows, expected {ANNOTATORS}")
    if not examples:
        raise InputError(f"{path}:1: the list is empty")
    return list(examples.values()), labels


def normalised(deltas: NDArray[np.float64]) -> NDArray[np.float64]:
    """Deltas moved linearly onto -2..2, by the formula and in the order of operations of the benchmark's own script.

    That changes a correlation only by rounding: some deltas that differ in their last bits become ties, as there.
    """
    there = deltas[~np.isnan(deltas)]
    if not len(there) or there.max() == there.min():
        return deltas
    return ((deltas - there.min()) / (there.max() - there.min()) - 0.5) * 4


def _delta(scored: Scored | None) -> float:
    first, second = scored.values if scored else (None, None)
    return float("nan") if first is None or second is None else second - first
