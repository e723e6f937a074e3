"""Compares systems on the same questions: two of them overall and by slice, or every pair of several systems.

A missing score is left out of every mean. A case without a score on one side is not compared, but counted. A question
for which no side has a ground truth is no case of a metric that needs one (`with_truth`).
"""

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rag_zeval.cases.case import ALL, slice_name
from rag_zeval.decisions.amounts import AMOUNTS, PERCENTILES, less_is_better
from rag_zeval.decisions.sides import Side
from rag_zeval.errors import InputError
from rag_zeval.judge.needs import NOUNS
from rag_zeval.results import Judged
from rag_zeval.scorers.registry import best_value, highest_value
from rag_zeval.statistics.bootstrap import DRAWS, BootstrapEstimate, are_outcomes, mean_estimate, share_interval
from rag_zeval.statistics.discriminative_power import discriminative_power, holm, randomisation_p
from rag_zeval.statistics.paired_change import percentile_estimates, percentile_p, standing_out_p
from rag_zeval.statistics.weighted_correlations import Floats

ABSENT = "not in the file"
NO_TRUTH = f"failed: no {NOUNS['truth']}"  # the status of an answer that cannot be scored for this reason alone
RESAMPLES_PER_TEST = 400  # the smallest possible p is then 1/20 of what Holm's first step requires
SEED = 0  # of the draws: the same files always give the same numbers
DECIMALS = 12  # of a score: the rest is rounding, such as in the mean of 0.2 and 0.4, which is not exactly 0.3


@dataclass(frozen=True)
class Coverage:
    """How many cases one side has a score for (`scored`), of those that any compared file has (`cases`).

    cases: 0 if all cases of the metric were edited, or have no ground truth. missing: for all cases, how many of those
    without a score have each status.
    """

    scored: int
    cases: int
    missing: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, judged: Mapping[str, Judged], cases: Collection[str]) -> "Coverage":
        """Return the coverage of one side. A case that its file lacks has the status ABSENT."""
        statuses = [judged[case].status if case in judged else ABSENT for case in cases if not _has_score(judged, case)]
        return cls(len(cases) - len(statuses), len(cases), dict(Counter(statuses)))

    @property
    def share(self) -> float:
        return self.scored / self.cases if self.cases else 0.0


@dataclass(frozen=True)
class Difference:
    """The change from A to B over the n cases of a slice that both have a score for.

    slice_tag: ALL for all cases. first, second, change: means of A, of B and of B - A; None if n is 0. For a metric in
    PERCENTILES, they are that percentile and its change. sd: standard deviation of B - A; None for fewer than two cases
    and for percentiles. p: two-sided p-value of the paired randomisation test; None if n is 0. p_holm: p after Holm's
    correction over the slices of the metric; None for all cases. p_apart: one-sided p-value that the slice got worse
    than the other cases (`standing_out_p`); None if this is not tested.
    labels: number of human labels by which the means are corrected; None if the means are the judge's. If they are
    corrected, n is this number, sd is None, and p is that of `corrected_difference`.
    """

    slice_tag: str
    n: int
    first: BootstrapEstimate | None
    second: BootstrapEstimate | None
    change: BootstrapEstimate | None
    sd: float | None
    p: float | None
    p_holm: float | None = None
    labels: int | None = None
    p_apart: float | None = None


@dataclass(frozen=True)
class Changed:
    """A case whose score differs between the sides. change: B - A."""

    first: Judged
    second: Judged
    change: float


@dataclass(frozen=True)
class Comparison:
    """The comparison of side A (`first`) and side B (`second`) by one metric.

    judges: the judge and prompt of each side; None if the file does not say. only_first, only_second: number of cases
    that only one file has. lost: number of cases in both files for which a side has no score.
    bounds: smallest and largest possible change over all cases of either file, if each missing score could be any
    number from 0 to 1 (Manski 1990, Nonparametric bounds on treatment effects, American Economic Review 80, 319-323).
    None if no score is missing, if a score is outside [0, 1], or for a metric whose values can be (AMOUNTS, `umbrela`).
    slices: the one that got worse most first; empty if all cases belong to one. slice_coverage: how many cases of each
    slice B has a score for. worse, better: the cases whose scores changed, largest change first.
    corrected: all cases and the slices again, by the scores that people would have given. Empty without human labels
    (`rag_zeval.audit.corrected_comparison`). unlabelled: lines on what no label stands for. edited: cases that are left
    out because their texts differ between A and B (see `Side`). without_truth: number of questions that are no cases of
    the metric (see `with_truth`).
    """

    metric: str
    lower_is_better: bool
    judges: tuple[str | None, str | None]
    first: Coverage
    second: Coverage
    only_first: int
    only_second: int
    lost: int
    bounds: tuple[float, float] | None
    overall: Difference
    slices: tuple[Difference, ...]
    worse: tuple[Changed, ...]
    better: tuple[Changed, ...]
    corrected: tuple[Difference, ...] = ()
    unlabelled: tuple[str, ...] = ()
    slice_coverage: Mapping[str, Coverage] = field(default_factory=dict)
    edited: Mapping[str, Sequence[str]] = field(default_factory=dict)
    without_truth: int = 0


def compare_sides(first: Side, second: Side, metric: str, draws: int = DRAWS) -> Comparison:
    """Compare two sides by a metric that both have.

    A case's slice is its tag in the first file; if it has none there, its tag in the second file. draws: number of
    bootstrap resamples. The tests use more if Holm's correction over many slices and metrics needs smaller p.

        comparison = compare_sides(read_side("old.jsonl"), read_side("new.jsonl"), "rag_zeval")
        comparison.overall.change  # B - A: BootstrapEstimate(value=-0.081, low=-0.112, high=-0.05)
    """
    (ours, theirs), without_truth = with_truth([first.judged[metric], second.judged[metric]])
    cases, scores = _scores([ours, theirs])
    tags = np.array([slice_name(_tag(ours, case) or _tag(theirs, case)) for case in cases], dtype=object)
    scored = ~np.isnan(scores)
    paired = scored[:, 0] & scored[:, 1]
    in_both = sum(case in theirs for case in ours)
    slices = list(dict.fromkeys(tags))
    slices = slices if len(slices) > 1 else []
    tests = (1 + len(slices)) * len(first.judged.keys() & second.judged.keys())
    sizes = draws, max(draws, RESAMPLES_PER_TEST * tests)
    low = less_is_better(metric)
    overall = _difference(ALL, scores[paired], metric, *sizes)
    differences = []
    for tag in slices:
        within = tags == tag
        found = _difference(tag, scores[paired & within], metric, *sizes)
        if metric not in PERCENTILES and found.n:
            worse = (scores[:, 1] - scores[:, 0]) * (1 if low else -1)
            p_apart = standing_out_p(worse[paired & within], worse[paired & ~within], sizes[1], SEED)
            found = replace(found, p_apart=p_apart)
        differences.append(found)
    better = -1 if low else 1
    differences.sort(key=lambda one: (one.change is None, better * one.change.value if one.change else 0.0))
    adjusted = holm([difference.p for difference in differences])
    changed = [
        Changed(ours[case], theirs[case], float(b - a))
        for case, (a, b), both in zip(cases, scores, paired, strict=True)
        if both and a != b
    ]
    changed.sort(key=lambda one: -abs(one.change))  # stable: ties keep the order of the ids
    return Comparison(
        metric=metric,
        lower_is_better=low,
        judges=(_judge(ours), _judge(theirs)),
        first=Coverage.of(ours, cases),
        second=Coverage.of(theirs, cases),
        only_first=len(ours) - in_both,
        only_second=len(theirs) - in_both,
        lost=in_both - int(paired.sum()),
        bounds=None if metric in AMOUNTS or best_value(metric) > 1 else _bounds(scores),
        overall=overall,
        slices=tuple(replace(one, p_holm=p) for one, p in zip(differences, adjusted, strict=True)),
        worse=tuple([one for one in changed if (one.change > 0) == low]),
        better=tuple([one for one in changed if (one.change < 0) == low]),
        slice_coverage={tag: Coverage(int(scored[tags == tag, 1].sum()), int((tags == tag).sum())) for tag in slices},
        edited=second.edited,
        without_truth=without_truth,
    )


def with_truth(judged: Sequence[Mapping[str, Judged]]) -> tuple[list[Mapping[str, Judged]], int]:
    """Return each side's judged answers by a metric without the questions that it cannot score, and their number.

    These are the questions whose status says that there is no ground truth, if no side has one: the documents do not
    answer them, so a missing score says nothing about the system.
    """
    every = [(case, one) for of_side in judged for case, one in of_side.items()]
    left_out = {case for case, one in every if one.status == NO_TRUTH}
    left_out -= {case for case, one in every if one.score is not None or "truth" in one.golden}
    return [{case: one for case, one in of_side.items() if case not in left_out} for of_side in judged], len(left_out)


def _has_score(judged: Mapping[str, Judged], case: str) -> bool:
    return case in judged and judged[case].score is not None


def _scores(judged: Sequence[Mapping[str, Judged]]) -> tuple[list[str], Floats]:
    """Return the cases that any side has, and their scores (cases, sides). A missing score is NaN.

    The cases are in the order of their ids, where 10 comes after 9. A file has them in the order in which the judge
    replied, and the draws of intervals and tests depend on the order.
    """
    cases = sorted({case for of_side in judged for case in of_side}, key=lambda case: (len(case), case))
    rows = [[of_side[case].score if case in of_side else None for of_side in judged] for case in cases]
    scores = np.array(rows, dtype=float).reshape(len(cases), len(judged))  # None becomes NaN
    return cases, scores.round(DECIMALS)


def _judge(judged: Mapping[str, Judged]) -> str | None:
    return " and ".join(sorted({one.judge for one in judged.values() if one.judge})) or None


def _tag(judged: Mapping[str, Judged], case: str) -> str | None:
    return judged[case].slice_tag if case in judged else None


def estimate(scores: Sequence[float] | Floats, metric: str, draws: int = DRAWS) -> BootstrapEstimate:
    """Return the mean of one system's scores, or the percentile of a metric in PERCENTILES, with its 95% interval.

    There must be at least one score. The interval is a bootstrap over cases. For a mean of scores that are all 0 or 1
    it is Wilson's, which has a width even if all scores are the same. Seconds and dollars are no shares.
    """
    values = np.array(scores, dtype=float)
    if metric in PERCENTILES:
        return percentile_estimates(np.column_stack([values, values]), PERCENTILES[metric], draws, SEED)[0]
    if metric not in AMOUNTS and highest_value(metric) == 1 and len(values) > 1 and are_outcomes(values):
        return BootstrapEstimate(float(values.mean()), *share_interval(int(values.sum()), len(values)))
    return mean_estimate(values, draws, SEED)


def _difference(slice_tag: str, scores: Floats, metric: str, draws: int, resamples: int) -> Difference:
    """Compare the two columns of `scores` (pairs, 2), none of which is missing."""
    n, change = len(scores), scores[:, 1] - scores[:, 0]
    if not n:
        return Difference(slice_tag, 0, None, None, None, None, None)
    if metric in PERCENTILES:
        p = percentile_p(scores, PERCENTILES[metric], resamples, SEED)
        before, after, apart = percentile_estimates(scores, PERCENTILES[metric], draws, SEED)
        return Difference(slice_tag, n, before, after, apart, None, p)
    before, after = (estimate(side, metric, draws) for side in scores.T)
    apart = mean_estimate(change, draws, SEED)
    sd = float(change.std(ddof=1)) if n > 1 else None
    return Difference(slice_tag, n, before, after, apart, sd, randomisation_p(change, resamples, SEED))


def _bounds(scores: Floats) -> tuple[float, float] | None:
    missing = np.isnan(scores)
    if not missing.any() or (scores < 0).any() or (scores > 1).any():
        return None
    least, most = np.where(missing, 0.0, scores), np.where(missing, 1.0, scores)
    return float((least[:, 1] - most[:, 0]).mean()), float((most[:, 1] - least[:, 0]).mean())


@dataclass(frozen=True)
class SystemMean:
    """A system's mean over its `scored` cases; None if there are none.

    cases: number of cases that any file has. judge: judge and prompt; None if the file does not say.
    """

    name: str
    scored: int
    cases: int
    mean: BootstrapEstimate | None
    judge: str | None


@dataclass(frozen=True)
class SystemPair:
    """The difference between two systems.

    change: mean of `second` minus mean of `first`, over the n cases that both have a score for. p_holm: two-sided
    p-value of the paired randomisation test, after Holm's correction over all pairs. Both are None if n is 0.
    """

    first: str
    second: str
    n: int
    change: BootstrapEstimate | None
    p_holm: float | None


@dataclass(frozen=True)
class Pairwise:
    """All systems and their pairs by one metric.

    power: share of pairs told apart (see `discriminative_power`). without_truth: as in `Comparison`.
    """

    metric: str
    lower_is_better: bool
    systems: tuple[SystemMean, ...]
    pairs: tuple[SystemPair, ...]
    power: float
    without_truth: int


def compare_pairwise(sides: Sequence[Side], metric: str) -> Pairwise:
    """Compare every pair of sides by a metric that all of them have. No two sides may have the same name.

    Raises InputError for a metric in PERCENTILES: only means are compared.
    """
    if metric in PERCENTILES:
        raise InputError(f"{metric} compares two files, got {len(sides)}: name two")
    judged, without_truth = with_truth([side.judged[metric] for side in sides])
    cases, scores = _scores(judged)
    values = {side.name: scores[:, at] for at, side in enumerate(sides)}
    power, tested = discriminative_power({name: one.tolist() for name, one in values.items()})
    systems, pairs = [], []
    for side, one in zip(sides, values.values(), strict=True):
        there = one[~np.isnan(one)]
        mean = estimate(there, metric) if len(there) else None
        systems.append(SystemMean(side.name, len(there), len(cases), mean, _judge(side.judged[metric])))
    for (first, second), pair in zip(itertools.combinations(values, 2), tested, strict=True):
        change = values[second] - values[first]
        change = change[~np.isnan(change)]
        apart = mean_estimate(change, DRAWS, SEED) if len(change) else None
        pairs.append(SystemPair(first, second, pair.questions, apart, pair.p))
    return Pairwise(metric, less_is_better(metric), tuple(systems), tuple(pairs), power, without_truth)
