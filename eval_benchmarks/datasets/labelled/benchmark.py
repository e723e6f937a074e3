"""Labelled claims and answers as a benchmark: how well a scorer tells supported from unsupported texts.

One call judges up to `Description.per_call` texts about the same document. Intervals resample whole documents. A score
of at least the threshold says "supported".
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eval_benchmarks.bench_settings import RunSettings
from eval_benchmarks.benchmark import Benchmark, MeanOfMetrics, Metric, examples_hash
from eval_benchmarks.datasets.labelled.description import MACRO, Description, read_description
from eval_benchmarks.datasets.labelled.spans import Claim, overlap, unsupported_spans
from eval_benchmarks.datasets.labelled.texts import Document, LabelledText, find_files, read_split
from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.scorers.score import Scored
from rag_zeval.statistics.bootstrap import Mask, Statistic
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
from rag_zeval.text import counted

# The names of the metrics in result files and tables.
THRESHOLD = 0.5
TUNED = "_tuned"  # suffix of a metric's name: at the tuned threshold
BY_THRESHOLD: dict[str, Formula] = {"balanced_accuracy": balanced_accuracy, "f1_unsupported": f1_unsupported}
AUROC = "auroc"
OF_SPANS: dict[str, Formula] = {"span_f1": f1, "span_precision": precision, "span_recall": recall}


Place = tuple[str, int]  # of a text: example id, and position among its answers
Values = Mapping[Place, float | None]  # scores
Claims = Mapping[Place, list[Claim] | None]  # None if the scorer writes no claims, or if they could not be read


class Split:
    """The texts of a test or dev part, in the order in which they are judged.

    places: for each text its example, and its position there. documents, data_sets: (texts,), the number of each text's
    document, and the name of its data set.
    A document's texts are spread evenly over as few calls as can hold them. Each call is an example.
    """

    def __init__(self, texts: Sequence[LabelledText], prefix: str, per_call: int):
        by_document: dict[Document, list[LabelledText]] = {}
        for text in texts:
            by_document.setdefault(text.document, []).append(text)
        self.texts = [text for own in by_document.values() for text in own]
        self.examples: list[Example] = []
        self.places: list[Place] = []
        for number, (document, own) in enumerate(by_document.items()):
            calls = math.ceil(len(own) / per_call)
            bounds = [len(own) * call // calls for call in range(calls + 1)]
            for call, (start, end) in enumerate(itertools.pairwise(bounds)):
                id_, answers = f"{prefix}{number}-{call}", tuple(text.text for text in own[start:end])
                self.examples.append(Example(id_, document.question, document.text, answers, chunks=(document.text,)))
                self.places += [(id_, place) for place in range(len(answers))]
        sizes = [len(own) for own in by_document.values()]
        self.documents = np.repeat(np.arange(len(sizes)), sizes)
        self.data_sets = np.array([text.document.data_set for text in self.texts], dtype=object)

    def supported(self, reading: int) -> Floats:
        """Return for each text 1 or 0 (texts,); NaN if the reading leaves it out."""
        labels = (text.supported[reading] for text in self.texts)
        return np.array([math.nan if label is None else float(label) for label in labels])

    def values(self, known: Values) -> Floats:
        """Return the scores (texts,); NaN where there is none."""
        found = map(known.get, self.places)
        return np.array([math.nan if value is None else value for value in found])

    def overlaps(self, known: Claims, reading: int) -> Floats:
        """Return (texts, 3) of `spans.overlap`; NaN if the text has no spans, or if its claims were not read."""
        counts = np.full((len(self.texts), 3), math.nan)
        for at, (text, place) in enumerate(zip(self.texts, self.places, strict=True)):
            claims = known.get(place)
            if claims is not None and text.spans is not None:
                counts[at] = overlap(unsupported_spans(text.text, claims), text.spans[reading])
        return counts


@dataclass(frozen=True, eq=False)
class MetricColumn:
    """A metric of texts.

    statistic: makes the statistic over the chosen texts. scored: (texts,), which of all texts have a value.
    """

    name: str
    statistic: Callable[[Mask], Statistic]
    scored: Mask

    def metric(self, place: str, rows: Mask) -> Metric:
        """Return the metric over these texts alone. place: the beginning of its name."""
        return Metric(f"{place}{self.name}", self.statistic(rows), self.scored[rows])


class Labelled(Benchmark):
    """The labelled texts of a test part, and of a dev part if the set has one.

    Metrics are named `[READING:][DATA SET/]METRIC`, with `macro/` and `pooled/` for the averages over data sets.
    `macro/` is over those with both supported and unsupported texts.
    balanced_accuracy, f1_unsupported: at THRESHOLD, and with the suffix TUNED at a tuned threshold.
    auroc: without a threshold.
    span_f1, span_precision, span_recall: by characters, if the set has spans and the scorer writes claims.

    The tuned threshold is that of the best balanced accuracy on the dev part of the data set. Without a dev part, the
    documents are dealt to two halves in turn, and each half gets the threshold of the other.
    """

    absolute = True
    no_human = "the data have one label for each text"

    def __init__(self, name: str, description: Description, test: list[LabelledText], dev: list[LabelledText]):
        self.name, self._description = name, description
        self.published = description.published
        self.dev = Split(dev, "dev-", description.per_call)
        self.test = Split(test, "", description.per_call)
        self.examples = [*self.dev.examples, *self.test.examples]
        labels = [[text.supported, text.spans] for split in (self.dev, self.test) for text in split.texts]
        self.data_hash = examples_hash(self.examples, labels)
        self.about = tuple(self._lines())

    def _lines(self) -> Iterator[str]:
        """Yield what a reader of the tables needs: the labels, their numbers, and how thresholds are tuned."""
        for number, reading in enumerate(self._description.readings):
            labels = self.test.supported(number)
            counts = f"{int(np.nansum(labels == 1))} supported and {int(np.nansum(labels == 0))} unsupported"
            name = f" ({reading.name})" if reading.name else ""
            documents = counted(len(set(self.test.documents[~np.isnan(labels)].tolist())), "document")
            yield f"{self.name}{name}: {counts} {self._description.texts} about {documents}; {reading.says}"
            one_class = {*self.test.data_sets[~np.isnan(labels) & ~self._of_two_classes(number)]}
            if one_class and MACRO in self._description.averages:
                left_out = ", ".join(sorted(one_class))
                yield f"{self.name}{name}: left out of {MACRO}, because all their labels are the same: {left_out}"
        tuned = (
            f"on its dev part ({len(self.dev.texts)} {self._description.texts})"
            if self.dev.texts
            else "on the other half of its documents, because it has no dev part"
        )
        yield f"{self.name}: intervals resample whole documents; thresholds are tuned {tuned}"
        if self.dev.texts and (lacking := sorted({*self.test.data_sets} - {*self.dev.data_sets})):
            yield f"{self.name}: no tuned threshold for {', '.join(lacking)}: the dev part has no text of them"

    def scores(self, scored: Mapping[str, Scored]) -> Floats:
        """Return the scores (texts,) of the test part; NaN where there is none."""
        return self.test.values(_read_once(scored)[0])

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        values, claims = _read_once(scored)
        metrics: list[Metric] = []
        for number, reading in enumerate(self._description.readings):
            prefix = f"{reading.name}:" if reading.name else ""
            counted = ~np.isnan(self.test.supported(number))
            if not counted.any():  # a small file may hold no text with a label of this reading
                continue
            averaged = counted & self._of_two_classes(number)
            columns = self._columns(values, claims, number)
            of_names = [self._averaged(prefix, column, counted, averaged) for column in columns]
            # all metrics of a data set together, because they share their draws
            metrics += itertools.chain.from_iterable(zip(*of_names, strict=True))
        return metrics

    def _columns(self, known: Values, claims: Claims, reading: int) -> Iterator[MetricColumn]:
        values, labels, documents = self.test.values(known), self.test.supported(reading), self.test.documents

        def of_sums(name: str, parts: Floats, formula: Formula, scored: Mask) -> MetricColumn:
            return MetricColumn(name, lambda rows: OfSums(parts[rows], formula, documents[rows]), scored)

        there = ~np.isnan(values)
        says_tuned = self._tuned(known, reading)
        for suffix, says in (("", np.where(there, values >= THRESHOLD, math.nan)), (TUNED, says_tuned)):
            counts = confusion(says == 1, labels == 1)
            for name, formula in BY_THRESHOLD.items():
                yield of_sums(name + suffix, counts, formula, ~np.isnan(says))
        yield MetricColumn(AUROC, lambda rows: Auroc(values[rows], labels[rows] == 1, documents[rows]), there)
        has_spans = all(text.spans is not None for text in self.test.texts)
        if has_spans and any(of_text is not None for of_text in claims.values()):
            overlaps = self.test.overlaps(claims, reading)
            for name, formula in OF_SPANS.items():
                yield of_sums(name, overlaps, formula, ~np.isnan(overlaps[:, 0]))

    def _averaged(self, prefix: str, column: MetricColumn, counted: Mask, averaged: Mask) -> Iterator[Metric]:
        """Yield a metric's averages over data sets, then its value for each data set.

        counted: (texts,), which have a label. averaged: which of them the macro average is over; there is none without
        any. A set that has one data set, and whose description names no averages, gets only one value.
        """
        data_sets = self.test.data_sets
        own = {name: counted & (data_sets == name) for name in sorted({*data_sets[counted]})}
        if len(own) < 2 and not self._description.averages:
            yield column.metric(prefix, counted)
            return
        for average in self._description.averages:
            rows = averaged if average == MACRO else counted
            if not rows.any():
                continue
            whole = column.metric(f"{prefix}{average}/", rows)
            if average == MACRO:
                parts = [Metric(name, whole.statistic, whole.scored & of_set[rows]) for name, of_set in own.items()]
                whole = Metric(whole.name, MeanOfMetrics(tuple(parts)), whole.scored)
            yield whole
        for name, of_set in own.items():
            yield column.metric(f"{prefix}{name}/", of_set)

    def _of_two_classes(self, reading: int) -> Mask:
        """Return which texts (texts,) are of a data set with both supported and unsupported texts.

        In a data set with one class, balanced accuracy and AUROC are undefined. So the macro average leaves it out.
        """
        labels, data_sets = self.test.supported(reading), self.test.data_sets
        both = {*data_sets[labels == 1]} & {*data_sets[labels == 0]}
        return np.array([name in both for name in data_sets], dtype=bool)

    def _tuned(self, known: Values, reading: int) -> Floats:
        """Return which texts of the test part reach the tuned threshold of their data set (texts,): 1 or 0.

        NaN where the score or the threshold is missing.
        """
        test = self.test.values(known)
        says = np.full(len(test), math.nan)
        for split, tuned_on, applied_to in self._tuning():
            values, labels = split.values(known)[tuned_on], split.supported(reading)[tuned_on]
            both = ~np.isnan(values) & ~np.isnan(labels)
            threshold = best_threshold(values[both], labels[both] == 1)
            if threshold is not None:
                chosen = applied_to & ~np.isnan(test)
                says[chosen] = test[chosen] >= threshold
        return says

    def _tuning(self) -> Iterator[tuple[Split, Mask, Mask]]:
        """Yield a split, which of its texts a threshold is tuned on, and which texts of the test part it is for."""
        for name in {*self.test.data_sets}:
            of_set = self.test.data_sets == name
            if self.dev.texts:
                yield self.dev, self.dev.data_sets == name, of_set
                continue
            every_other = np.isin(self.test.documents, np.unique(self.test.documents[of_set])[1::2])
            first, second = of_set & ~every_other, of_set & every_other
            yield self.test, second, first
            yield self.test, first, second


def _read_once(scored: Mapping[str, Scored]) -> tuple[Values, Claims]:
    """Return the scores and claims of all texts in a trial's rows.

    Every access to a row reads it from its file, so it is read only once here.
    """
    values: dict[Place, float | None] = {}
    claims: dict[Place, list[Claim] | None] = {}
    for row in scored.values():
        candidates = row.parts.get("trajectory") or [None] * len(row.scores)
        for at, (value, candidate) in enumerate(zip(row.values, candidates, strict=True)):
            said = candidate["atomic_claims"] if candidate else None
            values[row.id, at] = value
            claims[row.id, at] = said and [(claim["claim"], claim["is_supported"]) for claim in said]
    return values, claims


def load(name: str, settings: RunSettings) -> tuple[Labelled | None, list[str]]:
    """Load the benchmark (None if its data are missing), with a line for everything missing or left out."""
    description, data_dir = read_description(name), Path(settings.data_dir)
    needed = [description.test.files, *([description.sources] if description.sources else [])]
    if absent := [pattern for pattern in needed if not find_files(data_dir, pattern)]:
        return None, [f"{name}: {Path('data_dir', absent[0])} is missing; {description.how_to_get}"]
    lines = []
    dev = description.dev
    if dev is not None and not find_files(data_dir, dev.files):
        lines.append(f"{name}, its dev part: {Path('data_dir', dev.files)} is missing; {description.how_to_get}")
        dev = None
    shared = {*find_files(data_dir, description.test.files)} & {*find_files(data_dir, dev.files)} if dev else set()
    if dev and shared and not description.test.excludes(dev):
        raise InputError(f"{name}: {min(shared)} is of both test and dev: its rows would tune their own threshold")
    test, left_out = read_split(description, description.test, data_dir)
    held_out = read_split(description, dev, data_dir)[0] if dev else []
    lines += [f"{name}: {count} {description.texts}: {reason}" for reason, count in left_out.items()]
    return Labelled(Path(name).stem, description, test, held_out), lines
