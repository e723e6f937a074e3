"""RAGChecker meta-evaluation: does a scorer prefer the answer that people found more correct?

There are 280 instances, each with two answers and two annotators (560 rows, not averaged; Ru et al. 2024,
arXiv:2408.08067). delta = score(model2) - score(model1) is compared with the label in -2..2 (positive: model2 is
better). The reference is the ground-truth answer.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eval_benchmarks.bench_settings import RunSettings
from eval_benchmarks.benchmark import FETCH, Benchmark, Metric
from rag_zeval.errors import InputError
from rag_zeval.files import NUMBER_OR_NONE, FieldTypes, Maybe, Row, check_object, file_sha256, read_json
from rag_zeval.judge.example import Example
from rag_zeval.scorers.score import Score, Scored, Scorer
from rag_zeval.statistics.bootstrap import Correlation

FOLDER = "ragchecker_meta"
LABELLED, SHIPPED = "human_labeled_data.json", "baseline_ragchecker.json"
ANNOTATORS = 2
KINDS = ("pearson", "spearman", "kendall")
MODELS = ("model1", "model2")
SHIPPED_FIELDS: FieldTypes = {"instance_id": int, **dict.fromkeys(MODELS, dict)}
LABELLED_FIELDS: FieldTypes = {**SHIPPED_FIELDS, "gt_answer": str, "query": str, "correctness_label": int}


class RagcheckerMeta(Benchmark):
    """The benchmark in `data_dir/ragchecker_meta`.

    labels: (instances, annotators), from -2 to 2. Raises InputError if the data do not fit.
    """

    name = "ragchecker_meta"

    def __init__(self, data_dir: Path):
        path = data_dir / FOLDER / LABELLED
        self.data_hash = file_sha256(path)
        self.examples, labels = _read_labelled(path)
        self.labels = np.array([labels[example.id] for example in self.examples], dtype=float)
        shipped = data_dir / FOLDER / SHIPPED
        self.shipped = (ShippedRagchecker(shipped, self.examples),) if shipped.is_file() else ()
        everything = np.ones(len(self.examples), dtype=bool)
        # the first label against the second: the check of the annotators in the benchmark's paper (Table 2)
        agreements = [Correlation(kind, self.labels[:, 0], self.labels[:, 1:]) for kind in KINDS]
        self.human = tuple(Metric(agreement.kind, agreement, everything) for agreement in agreements)

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        """Return the three correlations on the scored instances, then with a missing delta set to the median delta.

        The second is what the benchmark's authors do. It is named `<kind>_missing_as_median`.
        """
        deltas = self.deltas(scored)
        there = ~np.isnan(deltas)
        filled = np.where(there, deltas, np.median(deltas[there]) if there.any() else np.nan)
        main = [Correlation(kind, deltas, self.labels) for kind in KINDS]
        median = main if there.all() else [Correlation(kind, filled, self.labels) for kind in KINDS]
        return [Metric(correlation.kind, correlation, there) for correlation in main] + [
            Metric(f"{correlation.kind}_missing_as_median", correlation, ~np.isnan(filled)) for correlation in median
        ]

    def deltas(self, scored: Mapping[str, Scored]) -> NDArray[np.float64]:
        """Return the score of the second answer minus that of the first (instances,), on the labels' scale.

        NaN where a score is missing.
        """
        return normalised(np.array([score_delta(scored.get(example.id)) for example in self.examples]))


def load(settings: RunSettings) -> tuple[RagcheckerMeta | None, list[str]]:
    data_dir = Path(settings.data_dir)
    labelled, shipped = (data_dir / FOLDER / name for name in (LABELLED, SHIPPED))
    if not labelled.is_file():
        return None, [f"ragchecker_meta (Table 2, every scorer): data_dir/{FOLDER}/{LABELLED} is missing; {FETCH}"]
    missing = (
        f"ragchecker_meta, the row of RAGChecker's shipped scores: data_dir/{FOLDER}/{SHIPPED} is missing; {FETCH}"
    )
    return RagcheckerMeta(data_dir), [] if shipped.is_file() else [missing]


class ShippedRagchecker(Scorer):
    """RAGChecker's own claim precision of each answer, from its authors' data (their field `correctness_label`)."""

    name = "ragchecker_shipped"
    needs = ()  # the scores come with the data

    def __init__(self, path: Path, examples: list[Example]):
        self.identity = file_sha256(path)
        self._scores: dict[str, tuple[Score, ...]] = {}
        answers = {example.id: example.answers for example in examples}
        for place, row in _rows(path, SHIPPED_FIELDS):
            id_ = str(row["instance_id"])
            if tuple(row[model].get("response") for model in MODELS) != answers.get(id_):
                raise InputError(
                    f"{place}: field 'response': these are not the answers of instance {id_} in {LABELLED}"
                )
            self._scores[id_] = tuple(_shipped_score(place, row[model]) for model in MODELS)

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        absent = (Score(None, "failed: not in the shipped file"),) * 2
        for example in examples:
            yield Scored(example.id, self._scores.get(example.id, absent))


def _shipped_score(place: str, model: Row) -> Score:
    scores = check_object(place, model, {"ragchecker": dict})["ragchecker"]
    score = check_object(place, scores, {"correctness_label": Maybe(NUMBER_OR_NONE)}).get("correctness_label")
    if score is None or not math.isfinite(score):
        return Score(None, "failed: no shipped score")
    return Score(float(score))


def _rows(path: Path, required: FieldTypes) -> Iterator[tuple[str, Row]]:
    """Yield `(place, row)` for each object of the list in a file. The place names file and row, from 0."""
    for number, row in enumerate(read_json(path, list, has_nan=True)):
        place = f"{path}: row {number}"
        yield place, check_object(place, row, required)


def _read_labelled(path: Path) -> tuple[list[Example], dict[str, list[int]]]:
    """Return the instances in the order of the file, and the labels of each in the order of its annotators' rows.

    Raises InputError if the data do not fit.
    """
    examples: dict[str, Example] = {}
    labels: dict[str, list[int]] = {}
    for place, row in _rows(path, LABELLED_FIELDS):
        id_, truth, label = str(row["instance_id"]), row["gt_answer"], row["correctness_label"]
        answers = tuple(
            check_object(f"{place}: {model}", row[model], {"response": str})["response"] for model in MODELS
        )
        example = Example(id_, row["query"], truth, answers, truth=truth)
        if examples.setdefault(id_, example) != example:
            raise InputError(f"{place}: field 'instance_id': {id_} has different texts in an earlier row")
        if abs(label) > 2:
            raise InputError(f"{place}: field 'correctness_label' must be -2 to 2, found {label}")
        labels.setdefault(id_, []).append(label)
    for id_, own in labels.items():
        if len(own) != ANNOTATORS:
            raise InputError(f"{path}: field 'instance_id': {id_} has {len(own)} rows, expected {ANNOTATORS}")
    if not examples:
        raise InputError(f"{path}:1: the list is empty")
    return list(examples.values()), labels


def normalised(deltas: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rescale deltas linearly to -2..2, with the formula and the order of operations of the benchmark's own script.

    This changes a correlation only by rounding: some deltas that differ in their last bits become ties, as in that
    script. Deltas that are all the same stay as they are.
    """
    there = deltas[~np.isnan(deltas)]
    if not len(there) or there.max() == there.min():
        return deltas
    return ((deltas - there.min()) / (there.max() - there.min()) - 0.5) * 4


def score_delta(scored: Scored | None) -> float:
    """Return the score of the second answer minus that of the first; NaN if one is missing."""
    first, second = scored.values if scored else (None, None)
    return float("nan") if first is None or second is None else second - first
