"""What a run says at its end: a column for each metric and system, their slices, what it cost and what failed."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rag_zeval.cases.case import NO_SLICE
from rag_zeval.files import Row
from rag_zeval.results import Judged
from rag_zeval.scoring.spending import Spending
from rag_zeval.scoring.statuses import status_kinds
from rag_zeval.statistics.bootstrap import mean_interval

STATUSES_SHOWN = 12  # a reason may quote its reply, and so be one of many


@dataclass(frozen=True)
class Column:
    """The answers of one system by one metric, all or of a slice. A missing score is never a number.

    answers: over all trials, and the scores that they have; ci: 95% percentile bootstrap of the mean over cases, None
    with fewer than two scored; trial_sd: standard deviation of the trials' means, None for one trial.
    """

    metric: str
    system: str
    slice_tag: str | None
    answers: int
    scores: tuple[float, ...] = field(repr=False)
    mean: float | None
    ci: tuple[float, float] | None
    trial_sd: float | None

    @property
    def scored(self) -> int:
        return len(self.scores)

    @property
    def coverage(self) -> float:
        return self.scored / self.answers


@dataclass(frozen=True)
class Summary:
    """columns: of each metric and system; slices: the same by slice, worst first, if there are any; cached: replies."""

    rows: int
    columns: tuple[Column, ...]
    slices: tuple[Column, ...]
    cached: int
    statuses: dict[str, int]

    @property
    def scored(self) -> int:
        return sum(column.scored for column in self.columns)


@dataclass
class _Answers:
    """Scores of the answers of a column, by case and by trial."""

    count: int = 0
    by_case: dict[str, list[float]] = field(default_factory=dict)
    by_trial: dict[int, list[float]] = field(default_factory=dict)

    def add(self, case: str, trial: int, score: float | None) -> None:
        self.count += 1
        if score is not None:
            self.by_case.setdefault(case, []).append(score)
            self.by_trial.setdefault(trial, []).append(score)

    def column(self, metric: str, system: str, slice_tag: str | None) -> Column:
        scores = [score for of_case in self.by_case.values() for score in of_case]
        means = [statistics.fmean(trial) for trial in self.by_trial.values()]
        return Column(
            metric,
            system,
            slice_tag,
            answers=self.count,
            scores=tuple(scores),
            mean=statistics.fmean(scores) if scores else None,
            ci=mean_interval(list(self.by_case.values())) if len(self.by_case) > 1 else None,
            trial_sd=statistics.stdev(means) if len(means) > 1 else None,
        )


def slice_of(row: Row) -> str:
    """The slice that a result row belongs to."""
    return NO_SLICE if row["slice_tag"] is None else str(row["slice_tag"])


def summarize(rows: Iterable[Row]) -> Summary:
    """The summary of result rows, gone through once and not kept."""
    whole: dict[tuple[str, str], _Answers] = {}
    sliced: dict[tuple[str, str, str], _Answers] = {}
    statuses: Counter[str] = Counter()
    count = cached = 0
    for row in rows:
        count, cached = count + 1, cached + row["cached"]
        statuses[row["status"]] += 1
        for system, score in zip(row["systems"], row["scores"], strict=True):
            place = row["metric"], system
            for answers in (
                whole.setdefault(place, _Answers()),
                sliced.setdefault((*place, slice_of(row)), _Answers()),
            ):
                answers.add(row["case"], row["trial"], score)
    slices = [answers.column(*place) for place, answers in sliced.items()]
    several = len({column.slice_tag for column in slices}) > 1
    order = {place: at for at, place in enumerate(whole)}
    slices.sort(key=lambda c: (order[c.metric, c.system], c.mean is None, c.mean or 0.0))
    columns = tuple(answers.column(*place, None) for place, answers in whole.items())
    return Summary(count, columns, tuple(slices) if several else (), cached, _counts(statuses))


def columns_of(judged: Iterable[Judged]) -> list[Column]:
    """A column for each metric and system of answers that stand for all their trials."""
    whole: dict[tuple[str, str], _Answers] = {}
    for one in judged:
        whole.setdefault((one.metric, one.system), _Answers()).add(one.case, 0, one.score)
    return [answers.column(*place, None) for place, answers in whole.items()]


def _counts(statuses: Mapping[str, int]) -> dict[str, int]:
    """Rows by status: those with a score first, then failures, the frequent first; one for each kind of statuses."""
    counts: dict[str, int] = {}
    for kind in sorted(status_kinds(statuses), key=lambda kind: kind.first.startswith("failed")):
        others = kind.total - kind.same
        counts[f"{kind.first} (and {others} more like it)" if others else kind.first] = kind.total
    return counts


def frequent_statuses(summary: Summary) -> list[tuple[str, int]]:
    """`(status, rows)`, and at the end those of statuses that are not shown."""
    counts = list(summary.statuses.items())
    rest = sum(count for _, count in counts[STATUSES_SHOWN:])
    return [*counts[:STATUSES_SHOWN], *([("with other failures", rest)] if rest else [])]


def column_cells(column: Column) -> list[str]:
    """Mean, 95% interval, and how many answers have a score, as tables show them."""
    return [
        "none" if column.mean is None else f"{column.mean:.3f}",
        "none" if column.ci is None else f"{column.ci[0]:.3f} to {column.ci[1]:.3f}",
        f"{column.scored} of {column.answers} ({column.coverage:.1%})",
    ]


def cost_lines(summary: Summary, spending: Spending) -> list[tuple[str, str]]:
    """`(name, value)`: rows by status, and what all attempts cost together."""
    lines = [("rows", str(summary.rows))]
    lines += [(f"rows {status}", str(count)) for status, count in frequent_statuses(summary)]
    lines.append(("calls", f"{spending.calls}" + (f" ({summary.cached} from the cache)" if summary.cached else "")))
    exactness = spending.exactness
    if spending.untold and not spending.prompt_tokens:
        lines.append(("tokens", "unknown"))
    else:
        counts = f"{exactness}{spending.prompt_tokens} in, {exactness}{spending.completion_tokens} out"
        lines.append(("tokens paid for", counts))
    if spending.bounded:
        lines.append(("calls that did not report their tokens", str(spending.bounded)))
    if spending.dollars is not None:
        lines.append(("dollars", f"{exactness}{spending.dollars:.4f}"))
    if spending.unasked:
        lines.append(("rows not judged", str(spending.unasked)))
    return lines
