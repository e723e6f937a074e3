"""Labelled claims and labelled answers as a benchmark: how well a scorer tells the supported from the unsupported.

Texts about one document are judged by one call, up to `Description.per_call` of them, and are drawn together in every
interval. A score of at least the threshold says "supported".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eval_benchmarks.bench_settings import RunSettings
from eval_benchmarks.benchmark import Benchmark, MeanOfMetrics, Metric, examples_hash
from eval_benchmarks.datasets.labelled.description import Description, read_description
from eval_benchmarks.datasets.labelled.spans import claims_of, overlap, unsupported_spans
from eval_benchmarks.datasets.labelled.texts import Document, LabelledText, Part, find_files, read_part
from rag_zeval.judge.example import Example
from rag_zeval.scorers.score import Scored
from rag_zeval.statistics.bootstrap import Clusters, Mask, Statistic
from rag_zeval.statistics.classification import (
    Auroc,
    Formula,
    OfSums,
    balanced_accuracy,
    best_threshold,
    confusion,
    f1,
    f1_unsupported,
    precision,
    recall,
)
from rag_zeval.statistics.weighted_correlations import Floats

# The metrics, by the names that result files and tables give them.
THRESHOLD = 0.5
TUNED = "_tuned"  # behind the name of a metric: at the threshold found on the dev part
MACRO, POOLED = "macro", "pooled"
BY_THRESHOLD: dict[str, Formula] = {"balanced_accuracy": balanced_accuracy, "f1_unsupported": f1_unsupported}
AUROC = "auroc"
OF_SPANS: dict[str, Formula] = {"span_f1": f1, "span_precision": precision, "span_recall": recall}


@dataclass(frozen=True, eq=False)
class Texts:
    """Labelled texts in columns (texts,): its example, place there, and numbers of its document and data set."""

    texts: list[LabelledText]
    examples: list[str]
    places: list[int]
    documents: Clusters
    data_sets: Clusters

    def supported(self, reading: int) -> Floats:
        """1, 0, or NaN for a text that the reading leaves out."""
        labels = (text.supported[reading] for text in self.texts)
        return np.array([math.nan if label is None else float(label) for label in labels])


class Labelled(Benchmark):
    """Labelled texts of a test part, and of a dev part if the set has one.

    Metrics, each named `[READING:][DATA SET/]METRIC`, with `macro/` and `pooled/` for the averages over data sets:
    balanced_accuracy and f1_unsupported at THRESHOLD and, with TUNED behind, at the threshold of the best balanced
    accuracy on the dev part of the data set; auroc; and where the set has spans and the scorer writes claims, span_f1,
    span_precision and span_recall by characters. Without a dev part the documents are dealt to two halves in turn, and
    the threshold of each half is that of the other.
    """

    absolute = True
    no_ceiling = "the data have one label for each text"

    def __init__(self, name: str, description: Description, test: Part, dev: Part | None):
        self.name, self._description = name, description
        self.published = description.values_in_print
        data_sets = sorted({text.document.data_set for part in (test, dev) if part for text in part.texts})
        self._data_sets = data_sets
        self._dev, dev_examples = _in_calls(dev.texts if dev else [], "dev-", data_sets, description.per_call)
        self._test, test_examples = _in_calls(test.texts, "", data_sets, description.per_call)
        self.examples = [*dev_examples, *test_examples]
        labels = [[text.supported, text.spans] for part in (self._dev, self._test) for text in part.texts]
        self.data_hash = examples_hash(self.examples, labels)
        self.about = tuple(self._lines())

    def _lines(self) -> Iterator[str]:
        """What a reader of the tables needs: the labels, their numbers, and where thresholds come from."""
        for number, reading in enumerate(self._description.readings):
            labels = self._test.supported(number)
            counts = f"{int(np.nansum(labels == 1))} supported and {int(np.nansum(labels == 0))} unsupported"
            name = f" ({reading.name})" if reading.name else ""
            documents = len(set(self._test.documents[~np.isnan(labels)].tolist()))
            yield f"{self.name}{name}: {counts} {self._description.texts} about {documents} documents; {reading.says}"
        tuned = (
            f"on its dev part ({len(self._dev.texts)} {self._description.texts})"
            if self._dev.texts
            else "on the other half of its documents, because it has no dev part"
        )
        yield f"{self.name}: intervals resample whole documents; thresholds are tuned {tuned}"

    @property
    def counts(self) -> tuple[int, int]:
        """How many texts of the dev part and of the test part are judged."""
        return len(self._dev.texts), len(self._test.texts)

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        rows = _Rows(scored)
        dev, test = rows.values(self._dev), rows.values(self._test)
        metrics: list[Metric] = []
        for number, reading in enumerate(self._description.readings):
            prefix = f"{reading.name}:" if reading.name else ""
            labels = self._test.supported(number)
            says_tuned = self._tuned(dev, self._dev.supported(number), test, labels)
            counted = ~np.isnan(labels)
            columns = {
                name + suffix: partial(_of_verdicts, formula, says, labels == 1, self._test.documents)
                for suffix, says in (("", np.where(np.isnan(test), math.nan, test >= THRESHOLD)), (TUNED, says_tuned))
                for name, formula in BY_THRESHOLD.items()
            }
            columns[AUROC] = partial(_auroc, test, labels == 1, self._test.documents)
            if (overlaps := rows.overlaps(self._test, number)) is not None:
                columns |= {
                    name: partial(_of_parts, formula, overlaps, self._test.documents)
                    for name, formula in OF_SPANS.items()
                }
            of_names = [self._averaged(prefix, name, column, counted) for name, column in columns.items()]
            # the metrics of a data set one after the other: they share their draws
            metrics += itertools.chain.from_iterable(zip(*of_names, strict=True))
        return metrics

    def _averaged(self, prefix: str, name: str, column: _Column, counted: Mask) -> Iterator[Metric]:
        """A metric's averages over data sets, then of each; where there is one data set, of that alone."""
        present = [at for at in range(len(self._data_sets)) if (counted & (self._test.data_sets == at)).any()]
        if len(present) < 2 and not self._description.averages:
            yield _metric(prefix + name, column, counted)
            return
        own = [counted & (self._test.data_sets == at) for at in present]
        for average in self._description.averages:
            if average == POOLED:
                yield _metric(f"{prefix}{POOLED}/{name}", column, counted)
            else:
                parts = [_within(name, column, counted, of_set) for of_set in own]
                scored = np.logical_or.reduce([part.scored for part in parts])
                yield Metric(f"{prefix}{MACRO}/{name}", MeanOfMetrics(tuple(parts)), scored)
        for at, of_set in zip(present, own, strict=True):
            yield _metric(f"{prefix}{self._data_sets[at]}/{name}", column, of_set)

    def _tuned(self, dev: Floats, dev_labels: Floats, test: Floats, labels: Floats) -> Floats:
        """Whether each text of the test part is supported at its data set's threshold; NaN where that is not known."""
        says = np.full(len(test), math.nan)
        for at in range(len(self._data_sets)):
            of_set = self._test.data_sets == at
            if len(dev):
                of_dev = (self._dev.data_sets == at) & ~np.isnan(dev) & ~np.isnan(dev_labels)
                _apply(best_threshold(dev[of_dev], dev_labels[of_dev] == 1), test, of_set, says)
                continue
            half = np.unique(self._test.documents[of_set], return_inverse=True)[1] % 2
            in_half = np.full(len(test), -1)
            in_half[of_set] = half
            for mine in (0, 1):
                others = (in_half == 1 - mine) & ~np.isnan(test) & ~np.isnan(labels)
                _apply(best_threshold(test[others], labels[others] == 1), test, in_half == mine, says)
        return says


_Column = partial[tuple[Statistic, Mask]]  # takes rows; gives the statistic over them, and which of them have a value


def _apply(threshold: float | None, values: Floats, chosen: Mask, says: Floats) -> None:
    if threshold is not None:
        chosen = chosen & ~np.isnan(values)
        says[chosen] = values[chosen] >= threshold


def _of_verdicts(
    formula: Formula, says: Floats, supported: Mask, documents: Clusters, rows: Mask
) -> tuple[Statistic, Mask]:
    counts = confusion(says[rows] == 1, supported[rows])
    return OfSums(counts, formula, documents[rows]), ~np.isnan(says[rows])


def _auroc(values: Floats, supported: Mask, documents: Clusters, rows: Mask) -> tuple[Statistic, Mask]:
    return Auroc(values[rows], supported[rows], documents[rows]), ~np.isnan(values[rows])


def _of_parts(formula: Formula, parts: Floats, documents: Clusters, rows: Mask) -> tuple[Statistic, Mask]:
    return OfSums(parts[rows], formula, documents[rows]), ~np.isnan(parts[rows, 0])


def _metric(name: str, column: _Column, rows: Mask) -> Metric:
    return Metric(name, *column(rows))


def _within(name: str, column: _Column, counted: Mask, rows: Mask) -> Metric:
    """The metric of some of the counted texts, as one over all of them."""
    statistic, scored = column(counted)
    return Metric(name, statistic, scored & rows[counted])


class _Rows:
    """A trial's rows, each read once."""

    def __init__(self, scored: Mapping[str, Scored]):
        self._values: dict[str, tuple[float | None, ...]] = {}
        self._candidates: dict[str, list] = {}
        for row in scored.values():
            self._values[row.id] = row.values
            if trajectory := row.parts.get("trajectory"):
                self._candidates[row.id] = [candidate and claims_of(candidate) for candidate in trajectory]

    def values(self, part: Texts) -> Floats:
        """(texts,); NaN where there is none."""
        found = (
            self._values[id_][place] if id_ in self._values else None
            for id_, place in zip(part.examples, part.places, strict=True)
        )
        return np.array([math.nan if value is None else value for value in found])

    def overlaps(self, part: Texts, reading: int) -> Floats | None:
        """(texts, 3) of `spans.overlap`, NaN where no claims were read; None without spans or without any claims."""
        if not self._candidates or any(text.spans is None for text in part.texts):
            return None
        counts = np.full((len(part.texts), 3), math.nan)
        for at, (text, id_, place) in enumerate(zip(part.texts, part.examples, part.places, strict=True)):
            claims = self._candidates[id_][place] if id_ in self._candidates else None
            if claims is not None and text.spans is not None:
                counts[at] = overlap(unsupported_spans(text.text, claims), text.spans[reading])
        return counts


def _in_calls(
    texts: Sequence[LabelledText], prefix: str, data_sets: Sequence[str], per_call: int
) -> tuple[Texts, list[Example]]:
    """The texts by document, and the examples: a document's texts are dealt evenly to as few calls as hold them."""
    by_document: dict[Document, list[LabelledText]] = {}
    for text in texts:
        by_document.setdefault(text.document, []).append(text)
    ordered: list[LabelledText] = []
    examples: list[Example] = []
    ids: list[str] = []
    places: list[int] = []
    documents: list[int] = []
    for number, (document, own) in enumerate(by_document.items()):
        calls = math.ceil(len(own) / per_call)
        bounds = [len(own) * call // calls for call in range(calls + 1)]
        for call, (start, end) in enumerate(itertools.pairwise(bounds)):
            id_ = f"{prefix}{number}-{call}"
            answers = tuple(text.text for text in own[start:end])
            examples.append(Example(id_, document.question, document.text, answers, chunks=(document.text,)))
            ordered += own[start:end]
            ids += [id_] * (end - start)
            places += range(end - start)
            documents += [number] * (end - start)
    at = {name: place for place, name in enumerate(data_sets)}
    of_sets = [at[text.document.data_set] for text in ordered]
    columns: list[NDArray[np.int64]] = [np.array(column, dtype=np.int64) for column in (documents, of_sets)]
    return Texts(ordered, ids, places, *columns), examples


def load(name: str, settings: RunSettings) -> tuple[Labelled | None, list[str]]:
    """The benchmark, if its data are there, and a line for what is missing or left out."""
    description, data_dir = read_description(name), Path(settings.data_dir)
    needed = [description.test.files, *([description.sources] if description.sources else [])]
    if absent := [pattern for pattern in needed if not any(data_dir.glob(pattern))]:
        return None, [f"{name}: data_dir/{absent[0]} is missing; {description.how_to_get}"]
    lines = []
    dev = description.dev
    if dev is not None and not find_files(data_dir, dev):
        lines.append(f"{name}, its dev part: data_dir/{dev.files} is missing; {description.how_to_get}")
        dev = None
    test = read_part(description, description.test, data_dir)
    benchmark = Labelled(Path(name).stem, description, test, read_part(description, dev, data_dir) if dev else None)
    lines += [f"{name}: {count} {description.texts}: {reason}" for reason, count in test.left_out.items()]
    return benchmark, lines
