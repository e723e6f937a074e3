"""Systems on the same questions: what changed between two, overall and by slice; of more, every two of them.

Missing scores count in no mean: a case without a score on one side is left out of the pairs and counted.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rag_zeval.cases.case import ALL, NO_SLICE
from rag_zeval.decisions.amounts import AMOUNTS, PERCENTILES, less_is_better
from rag_zeval.decisions.sides import Side
from rag_zeval.errors import InputError
from rag_zeval.results import Judged
from rag_zeval.statistics.bootstrap import DRAWS, BootstrapEstimate, mean_estimates, share_interval
from rag_zeval.statistics.discriminative_power import discriminative_power, holm, randomisation_p
from rag_zeval.statistics.paired_change import percentile_estimates, percentile_p, standing_out_p
from rag_zeval.statistics.weighted_correlations import Floats

RESAMPLES_PER_TEST = 400  # so that the smallest p is a twentieth of what Holm asks of the first of all tests


@dataclass(frozen=True)
class Coverage:
    """How many of the cases that either file has a side has a score for."""

    scored: int
    cases: int

    @property
    def share(self) -> float:
        return self.scored / self.cases


@dataclass(frozen=True)
class Difference:
    """What changed from A to B over the n pairs of a slice in which both have a score.

    slice_tag: ALL for all cases. first, second, change: means of A, of B and of B - A, each None without a pair; of
    a measure in PERCENTILES that percentile, and its change. sd: standard deviation of B - A, None for fewer than two
    pairs and for percentiles. p: of the paired randomisation test, two-sided, 1 without a pair. p_holm: the same after
    Holm's correction over the slices of the metric; None for all cases. labels: of how many people's labels the means
    are corrected by (`corrected`); None: they are the judge's. p_apart: of the one-sided test that the slice got worse
    than the other cases (`standing_out_p`); None where that is not tested.
    """

    slice_tag: str
    n: int
    first: BootstrapEstimate | None
    second: BootstrapEstimate | None
    change: BootstrapEstimate | None
    sd: float | None
    p: float
    p_holm: float | None = None
    labels: int | None = None
    p_apart: float | None = None


@dataclass(frozen=True)
class Changed:
    """A case that both sides have a score for, another one each."""

    first: Judged
    second: Judged
    change: float


@dataclass(frozen=True)
class Comparison:
    """Side A (`first`) and side B (`second`) by one metric.

    judges: what gave the scores of each, None where the file does not say. only_first, only_second: cases that one file
    alone has. lost: cases in both files that a side has no score for.
    bounds: the least and the largest that the change could be over all cases of either file, if each missing score
    were any number from 0 to 1 (Manski 1990, Nonparametric bounds on treatment effects, American Economic Review 80,
    319-323); None where nothing is missing or the metric has scores beyond 0 and 1. slices: none if all cases are of
    one. worse, better: the cases that changed, the largest change first. corrected: all cases and the slices again, by
    the scores that people would have given; empty without their labels (`rag_zeval.audit.corrected_comparison`).
    edited: cases that are left out, because their texts differ between A and B (see `Side`).
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
    edited: Mapping[str, Sequence[str]] = field(default_factory=dict)


def compare_sides(first: Side, second: Side, metric: str, draws: int = DRAWS, seed: int = 0) -> Comparison:
    """Compare two sides by a metric that both have.

    A case's slice is its tag in the first file, or in the second where the first has none. draws: of the bootstrap; of
    random signs there are more if so many slices and metrics are tested that Holm's correction asks for smaller p.

        comparison = compare_sides(read_side("old.jsonl"), read_side("new.jsonl"), "rag_zeval")
        comparison.overall.change  # B - A: BootstrapEstimate(value=-0.081, low=-0.112, high=-0.05)
    """
    ours, theirs = first.judged[metric], second.judged[metric]
    cases, scores = _scores([first, second], metric)
    tags = np.array([_tag(ours, case) or _tag(theirs, case) or NO_SLICE for case in cases], dtype=object)
    scored = ~np.isnan(scores)
    paired = scored[:, 0] & scored[:, 1]
    in_both = sum(case in theirs for case in ours)
    slices = list(dict.fromkeys(tags))
    slices = slices if len(slices) > 1 else []
    tests = (1 + len(slices)) * len(first.judged.keys() & second.judged.keys())
    sizes = draws, max(draws, RESAMPLES_PER_TEST * tests)
    low, percentile = less_is_better(metric), PERCENTILES.get(metric)
    overall = _difference(ALL, scores[paired], percentile, *sizes, seed)
    differences = []
    for tag in slices:
        within = tags == tag
        found = _difference(tag, scores[paired & within], percentile, *sizes, seed)
        if percentile is None:
            worse = (scores[:, 1] - scores[:, 0]) * (1 if low else -1)
            p_apart = standing_out_p(worse[paired & within], worse[paired & ~within], sizes[1], seed)
            found = replace(found, p_apart=p_apart)
        differences.append(found)
    adjusted = holm([difference.p for difference in differences])
    changed = [
        Changed(ours[case], theirs[case], float(b - a))
        for case, (a, b), both in zip(cases, scores, paired, strict=True)
        if both and a != b
    ]
    changed.sort(key=lambda one: -abs(one.change))  # ties in the file's order
    return Comparison(
        metric=metric,
        lower_is_better=low,
        judges=(_judge(ours), _judge(theirs)),
        first=Coverage(int(scored[:, 0].sum()), len(cases)),
        second=Coverage(int(scored[:, 1].sum()), len(cases)),
        only_first=len(ours) - in_both,
        only_second=len(theirs) - in_both,
        lost=in_both - int(paired.sum()),
        bounds=None if metric in AMOUNTS else _bounds(scores),
        overall=overall,
        slices=tuple(replace(one, p_holm=p) for one, p in zip(differences, adjusted, strict=True)),
        worse=tuple([one for one in changed if (one.change > 0) == low]),
        better=tuple([one for one in changed if (one.change < 0) == low]),
        edited=second.edited,
    )


def _scores(sides: Sequence[Side], metric: str) -> tuple[list[str], Floats]:
    """The cases that any side has, and their scores (cases, sides), NaN where one is missing."""
    judged = [side.judged[metric] for side in sides]
    cases = list(dict.fromkeys(case for of_side in judged for case in of_side))
    rows = [[of_side[case].score if case in of_side else None for of_side in judged] for case in cases]
    return cases, np.array(rows, dtype=float)  # None becomes NaN


def _judge(judged: Mapping[str, Judged]) -> str | None:
    return " and ".join(sorted({one.judge for one in judged.values() if one.judge})) or None


def _tag(judged: Mapping[str, Judged], case: str) -> str | None:
    return judged[case].slice_tag if case in judged else None


def estimate(scores: Sequence[float], metric: str, draws: int = DRAWS, seed: int = 0) -> BootstrapEstimate:
    """What a metric says of one system, with its 95% interval: the mean of its scores, at least one, or a percentile.

    By bootstrap over cases; of scores that are all 0 or 1 Wilson's, which has a width also where all are the same.
    """
    values = np.array(scores, dtype=float)
    if metric in PERCENTILES:
        return percentile_estimates(np.column_stack([values, values]), PERCENTILES[metric], draws, seed)[0]
    if np.isin(values, (0.0, 1.0)).all():
        return BootstrapEstimate(float(values.mean()), *share_interval(int(values.sum()), len(values)))
    return mean_estimates(values[:, None], draws, seed)[0]


def _difference(
    slice_tag: str, scores: Floats, percentile: float | None, draws: int, resamples: int, seed: int
) -> Difference:
    """Of scores (pairs, 2), none of them missing."""
    n, change = len(scores), scores[:, 1] - scores[:, 0]
    if not n:
        return Difference(slice_tag, 0, None, None, None, None, 1.0)
    if percentile is not None:
        p = percentile_p(scores, percentile, resamples, seed)
        before, after, apart = percentile_estimates(scores, percentile, draws, seed)
        return Difference(slice_tag, n, before, after, apart, None, p)
    means = mean_estimates(np.column_stack([scores, change]), draws, seed)
    sd = float(change.std(ddof=1)) if n > 1 else None
    return Difference(slice_tag, n, means[0], means[1], means[2], sd, randomisation_p(change, resamples, seed))


def _bounds(scores: Floats) -> tuple[float, float] | None:
    missing = np.isnan(scores)
    if not missing.any() or (scores < 0).any() or (scores > 1).any():
        return None
    least, most = np.where(missing, 0.0, scores), np.where(missing, 1.0, scores)
    return float((least[:, 1] - most[:, 0]).mean()), float((most[:, 1] - least[:, 0]).mean())


@dataclass(frozen=True)
class SystemMean:
    """A system's mean over the `scored` of all `cases` that any file has; None without a score."""

    name: str
    scored: int
    cases: int
    mean: BootstrapEstimate | None


@dataclass(frozen=True)
class SystemPair:
    """Mean of `second` minus mean of `first` over the n cases that both have a score for; None without any.

    p_holm: of the paired randomisation test, two-sided, after Holm's correction over all pairs.
    """

    first: str
    second: str
    n: int
    change: BootstrapEstimate | None
    p_holm: float


@dataclass(frozen=True)
class Pairwise:
    """All systems by one metric. power: the share of pairs told apart (see `discriminative_power`)."""

    metric: str
    systems: tuple[SystemMean, ...]
    pairs: tuple[SystemPair, ...]
    power: float


def compare_pairwise(sides: Sequence[Side], metric: str, draws: int = DRAWS, seed: int = 0) -> Pairwise:
    """Compare every two of the sides, whose names differ, by a metric that all have. draws: of the bootstrap.

    Raises InputError for a percentile: only means are compared so.
    """
    if metric in PERCENTILES:
        raise InputError(f"{metric} compares two files, got {len(sides)}: name two")
    cases, scores = _scores(sides, metric)
    values = {side.name: scores[:, at] for at, side in enumerate(sides)}
    power, tested = discriminative_power({name: one.tolist() for name, one in values.items()}, seed=seed)
    systems = [
        SystemMean(name, int((~np.isnan(one)).sum()), len(cases), _mean(one, draws, seed))
        for name, one in values.items()
    ]
    pairs = [
        SystemPair(first, second, pair.questions, _mean(values[second] - values[first], draws, seed), pair.p)
        for (first, second), pair in zip(itertools.combinations(values, 2), tested, strict=True)
    ]
    return Pairwise(metric, tuple(systems), tuple(pairs), power)


def _mean(values: Floats, draws: int, seed: int) -> BootstrapEstimate | None:
    there = values[~np.isnan(values)]
    return mean_estimates(there[:, None], draws, seed)[0] if len(there) else None
