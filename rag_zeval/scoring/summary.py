"""The summary of a run: scores for each metric and system, also by slice, and the run's costs and failures."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rag_zeval.cases.case import NO_SLICE
from rag_zeval.files import Row
from rag_zeval.results import Judged
from rag_zeval.scorers.registry import highest_value, lower_is_better
from rag_zeval.scoring.spending import Spending
from rag_zeval.statistics.bootstrap import score_interval
from rag_zeval.statuses import status_kinds
from rag_zeval.text import percent

STATUSES_SHOWN = 12  # failures may quote their replies, so there may be very many
Answer = tuple[str, int, float | None]  # its case, trial and score


@dataclass(frozen=True)
class Column:
    """The answers of one system, scored by one metric: all of them, or those of a slice.

    Attributes:
        metric: The scorer and the reference that it used.
        system: The RAG system that gave the answers.
        slice_tag: The slice; None if these are all answers.
        answers: Their number over all trials.
        scores: Those of all trials, without the missing ones, which never count as a number.
        mean: Over the answers with a score, of each answer's mean over its trials; None without a score.
        ci: 95% percentile bootstrap interval of the mean over cases; None with fewer than two scored cases.
        trial_sd: Standard deviation of the trials' means; None for one trial.
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
    """The scores and statuses of result rows.

        results = evaluate(frame, model="openai:gpt-4o-mini")
        results.summary.columns[0].mean

    Attributes:
        rows: Their number: one for each case, metric and trial.
        columns: One for each metric and system.
        slices: The same by slice, the worst first; empty if there is only one slice.
        cached: Cache hits.
        statuses: The number of rows of each kind of status.
    """

    rows: int
    columns: tuple[Column, ...]
    slices: tuple[Column, ...]
    cached: int
    statuses: dict[str, int]

    @property
    def scored(self) -> int:
        return sum(column.scored for column in self.columns)


def _column(metric: str, system: str, slice_tag: str | None, answers: Iterable[Answer]) -> Column:
    by_case: dict[str, list[float]] = defaultdict(list)
    by_trial: dict[int, list[float]] = defaultdict(list)
    count = 0
    for case, trial, score in answers:
        count += 1
        if score is not None:
            by_case[case].append(score)
            by_trial[trial].append(score)
    scores = [score for of_case in by_case.values() for score in of_case]
    of_answers, of_trials = ([statistics.fmean(some) for some in by.values()] for by in (by_case, by_trial))
    return Column(
        metric,
        system,
        slice_tag,
        answers=count,
        scores=tuple(scores),
        mean=statistics.fmean(of_answers) if of_answers else None,
        ci=score_interval([[score] for score in of_answers], highest_value(metric)),
        trial_sd=statistics.stdev(of_trials) if len(of_trials) > 1 else None,
    )


def slice_of(row: Row) -> str:
    """Return the slice that a result row belongs to."""
    return NO_SLICE if row["slice_tag"] is None else str(row["slice_tag"])


def summarize(rows: Iterable[Row]) -> Summary:
    """Summarize result rows. It iterates over them once and keeps none."""
    whole: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    sliced: dict[tuple[str, str, str], list[Answer]] = defaultdict(list)
    statuses: Counter[str] = Counter()
    count = cached = 0
    for row in rows:
        count, cached = count + 1, cached + row["cached"]
        statuses[row["status"]] += 1
        for system, score in zip(row["systems"], row["scores"], strict=True):
            answer = row["case"], row["trial"], score
            whole[row["metric"], system].append(answer)
            sliced[row["metric"], system, slice_of(row)].append(answer)
    slices = [_column(*place, answers) for place, answers in sliced.items()]
    several = len({column.slice_tag for column in slices}) > 1
    order = {place: at for at, place in enumerate(whole)}
    slices.sort(key=lambda c: (order[c.metric, c.system], c.mean is None, _goodness(c.metric, c.mean or 0.0)))
    columns = tuple(_column(*place, None, answers) for place, answers in whole.items())
    return Summary(count, columns, tuple(slices) if several else (), cached, _counts(statuses))


def _goodness(metric: str, score: float) -> float:
    """Return a number that is larger for better scores."""
    return -score if lower_is_better(metric) else score


def logged_numbers(judged: Iterable[Judged]) -> dict[str, float | None]:
    """Return mean, interval and coverage of each metric and system, by names such as `METRIC/SYSTEM/mean`, for a log.

    judged: answers whose scores are means over trials. A missing mean or interval is None.
    """
    whole: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for one in judged:
        whole[one.metric, one.system].append((one.case, 0, one.score))
    numbers: dict[str, float | None] = {}
    for place, answers in whole.items():
        column = _column(*place, None, answers)
        low, high = column.ci or (None, None)
        values = {"mean": column.mean, "low": low, "high": high, "coverage": column.coverage}
        numbers |= {"/".join((*place, name)): value for name, value in values.items()}
    return numbers


def _counts(statuses: Mapping[str, int]) -> dict[str, int]:
    """Count rows by kind of status: those with a score first, then failures, the frequent first."""
    counts: dict[str, int] = {}
    for kind in sorted(status_kinds(statuses), key=lambda kind: kind.first.startswith("failed")):
        others = kind.total - kind.same
        counts[f"{kind.first} (and {others} more like it)" if others else kind.first] = kind.total
    return counts


def frequent_statuses(summary: Summary) -> list[tuple[str, int]]:
    """Return `(status, rows)` for the most frequent statuses, and last the number of all other rows."""
    counts = list(summary.statuses.items())
    rest = sum(count for _, count in counts[STATUSES_SHOWN:])
    return [*counts[:STATUSES_SHOWN], *([("with other failures", rest)] if rest else [])]


def column_cells(column: Column) -> list[str]:
    """Return the cells of a table: mean, 95% interval, and how many answers have a score, with a share if not all."""
    share = f" ({percent(column.coverage)})" if column.coverage < 1 else ""
    return [
        "none" if column.mean is None else f"{column.mean:.3f}",
        "none" if column.ci is None else f"{column.ci[0]:.3f} to {column.ci[1]:.3f}",
        f"{column.scored} of {column.answers}{share}",
    ]


def passes(metric: str, score: float, threshold: float) -> bool:
    """Whether a score is at least as good as a threshold."""
    return score <= threshold if lower_is_better(metric) else score >= threshold


def passing_cell(column: Column, thresholds: Mapping[str, float]) -> str:
    """Return how many of the scored answers pass their metric's threshold; empty for a metric without one."""
    if not column.scores or column.metric not in thresholds:
        return ""
    threshold = thresholds[column.metric]
    count = sum(passes(column.metric, score, threshold) for score in column.scores)
    return f"{count} of {column.scored} ({count / column.scored:.1%}) pass {threshold:g}"


def cost_lines(summary: Summary, spending: Spending) -> list[tuple[str, str]]:
    """Return `(name, value)` lines: how many rows have each status, and what all attempts cost together."""
    lines = [("rows", str(summary.rows))]
    lines += [(f"rows {status}", str(count)) for status, count in frequent_statuses(summary)]
    before = f" ({spending.earlier_calls} in earlier runs)" if spending.earlier_calls else ""
    cached = f", and {summary.cached} from the cache" if summary.cached else ""
    lines.append(("calls", f"{spending.calls}{before}{cached}"))
    exactness = spending.exactness
    counts = f"{exactness}{spending.prompt_tokens} in, {exactness}{spending.completion_tokens} out"
    lines.append(("tokens", "unknown" if spending.untold and not spending.prompt_tokens else counts))
    if spending.embedded:
        lines.append(("tokens embedded", str(spending.embedded)))
    if spending.bounded:
        lines.append(("calls that did not report their tokens", str(spending.bounded)))
    if spending.dollars is not None:
        before = f" ({spending.earlier_dollars:.4f} in earlier runs)" if spending.earlier_calls else ""
        lines.append(("dollars", f"{spending.dollars_exactness}{spending.dollars:.4f}{before}"))
        lines += [(f"tokens of {judge}, which has no price", "not in dollars") for judge in spending.unpriced]
    if spending.unasked:
        lines.append(("rows not judged", str(spending.unasked)))
    return lines
