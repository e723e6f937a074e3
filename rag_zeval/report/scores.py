"""The data of a report's figures: summary columns by metric, system and slice, and the axis of each metric."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rag_zeval.files import Row
from rag_zeval.results import judge_of
from rag_zeval.scorers.registry import lower_is_better
from rag_zeval.scoring.summary import Column, slice_of, summarize
from rag_zeval.text import content_hash

BINS = 10  # of a histogram
LEVELS = 5  # colours of scores, from orange to blue


@dataclass(frozen=True)
class Scale:
    """The axis of a metric: from 0 to 1, or longer if scores lie outside. It also says which end is better."""

    low: float
    high: float
    lower_is_better: bool

    def share(self, value: float) -> float:
        """Return where a value lies on the axis, in [0, 1]."""
        return (value - self.low) / (self.high - self.low)

    def level(self, share: float) -> int:
        """Return the colour of a place on the axis, from 0 (worst) to LEVELS - 1. share: the place, in [0, 1]."""
        return min(LEVELS - 1, int((1 - share if self.lower_is_better else share) * LEVELS))

    def histogram(self, scores: Sequence[float]) -> list[int]:
        """Count the scores in each of BINS equal parts of the axis. The last part includes the end of the axis."""
        counts = [0] * BINS
        for score in scores:
            counts[min(BINS - 1, int(self.share(score) * BINS))] += 1
        return counts


class ScoreTable:
    """The summary of result rows, for look-ups by metric, system and slice.

    cases: number of cases; an id with two questions counts twice. metrics, systems, slices: names in the order of their
    first appearance. scales: the axis of each metric. made_by: the judges and how they were asked. partly: `(metric,
    system, cases, all cases)` where a metric has rows of a system for some of the cases only. It iterates over the rows
    twice, and keeps none.
    """

    def __init__(self, rows: Iterable[Row]):
        self.summary = summarize(rows)
        self._columns = {
            (column.metric, column.system, column.slice_tag): column
            for column in (*self.summary.columns, *self.summary.slices)
        }
        cases: set[tuple[str, str]] = set()
        ids: dict[tuple[str, str], set[str]] = defaultdict(set)
        slices: dict[str, None] = {}
        made_by: dict[str, None] = {}
        for row in rows:
            cases.add((row["case"], content_hash(row["question"].split())))
            for system in row["systems"]:
                ids[row["metric"], system].add(row["case"])
            slices[slice_of(row)] = made_by[judge_of(row)] = None
        self.cases, self.slices, self.made_by = len(cases), list(slices), list(filter(None, made_by))
        every = len(set().union(*ids.values()))
        self.partly = [(*place, len(of), every) for place, of in ids.items() if len(of) < every]
        self.metrics = list(dict.fromkeys(column.metric for column in self.summary.columns))
        self.systems = list(dict.fromkeys(column.system for column in self.summary.columns))
        self.scales = {metric: self._scale(metric) for metric in self.metrics}

    def column(self, metric: str, system: str, slice_tag: str | None = None) -> Column | None:
        """Return the column of all cases or of a slice.

        None if the metric was not asked about any such answer of the system. If there is only one slice, it has no
        column of its own.
        """
        return self._columns.get((metric, system, slice_tag))

    def _scale(self, metric: str) -> Scale:
        scores = [score for system in self.systems if (of := self.column(metric, system)) for score in of.scores]
        return Scale(min([0.0, *scores]), max([1.0, *scores]), lower_is_better(metric))

    def worst_slices(self, metric: str) -> list[tuple[str, list[Column | None]]]:
        """Return each slice with the columns of all systems: by their worst mean, those without a mean last."""
        slices = [(tag, [self.column(metric, system, tag) for system in self.systems]) for tag in self.slices]
        sign = -1 if lower_is_better(metric) else 1

        def worst(of_slice: tuple[str, list[Column | None]]) -> float:
            return min((sign * one.mean for one in of_slice[1] if one and one.mean is not None), default=math.inf)

        return sorted(slices, key=worst)
