"""Statistics of the benchmarks: their values, and 95% percentile bootstrap intervals over instances.

A bootstrap draw is a vector of multiplicities: how often each instance was drawn. Every statistic is evaluated on all
draws at once from those multiplicities, so nothing is copied or sorted again for a draw. All annotator rows of an
instance are resampled together. So are the instances of a cluster, if a statistic has clusters.
"""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_zeval.errors import needed
from rag_zeval.statistics.weighted_correlations import WEIGHTED, Floats

Mask = NDArray[np.bool_]
Clusters = NDArray[np.int64]

CHUNK = 1_000  # draws evaluated together, so that temporary arrays stay in the cache
DRAWS = 10_000  # resamples of every interval; slower measures use a fixed share of them
WHOLE = 8_000_000  # most multiplicities that a statistic gets at once
HELD = 8 * WHOLE  # most multiplicities that are cached for all statistics, in a byte each
BLOCK = 1_000_000  # multiplicities drawn at a time, and passed on at a time if there are more than WHOLE
IN_CACHE = 100_000  # numbers processed at a time if each is used once: so many stay in the cache
LEAST_RUNS = 3  # fewest runs that have a consistency


class Statistic(ABC):
    """A number computed from instances, some of which may be left out (`keep`) or drawn several times.

    Draws are cached for each object: it is hashed by identity, not by its values.
    If a statistic has an attribute `clusters` (instances,), whole clusters are resampled. `weights` then has a column
    for each cluster with a kept instance, as `columns_of` numbers them (Cameron, Gelbach and Miller 2008, Review of
    Economics and Statistics 90(3), 414-427).
    """

    def point(self, keep: Mask) -> float:
        """Return the value on the kept instances; NaN if it is undefined."""
        return float(self.draws(keep, np.ones((1, resampled(self, keep))))[0])

    @abstractmethod
    def draws(self, keep: Mask, weights: Floats) -> Floats:
        """Return the value for each row of `weights` (draws, kept instances or clusters); NaN where it is undefined."""

    def instances(self, keep: Mask) -> Floats | None:
        """Return the numbers (kept instances,) whose mean is the value; None if it is not a mean over instances."""
        return None


def columns_of(statistic: Statistic, keep: Mask) -> Clusters:
    """Return for each kept instance the column of `weights` that says how often it is drawn, itself or its cluster."""
    clusters: Clusters | None = getattr(statistic, "clusters", None)
    if clusters is None:
        return np.arange(int(keep.sum()))
    return np.unique(clusters[keep], return_inverse=True)[1]


def resampled(statistic: Statistic, keep: Mask) -> int:
    """Return how many instances or clusters a bootstrap draw resamples. One alone shows no spread: no interval."""
    return int(columns_of(statistic, keep).max(initial=-1)) + 1


@dataclass(frozen=True, eq=False)
class Ratio(Statistic):
    """The sum of `top` ÷ the sum of `bottom`, both (instances,). If `bottom` is all ones, it is a mean."""

    top: Floats
    bottom: Floats

    def instances(self, keep: Mask) -> Floats | None:
        return self.top[keep] if (self.bottom[keep] == 1).all() else None

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return (weights @ self.top[keep]) / (weights @ self.bottom[keep])


@dataclass(frozen=True, eq=False)
class Correlation(Statistic):
    """The correlation between a scorer and its annotators. kind: "pearson", "spearman" or "kendall" (tau-b).

    `x` (instances,) holds the scorer's values, `y` (instances, annotators) the labels. Each label is a row of its own.

        scores, ratings = np.array([0.5, np.nan, 1.0, 0.2]), np.array([[3.5], [2.0], [5.0], [1.5]])
        correlation, scored = Correlation("spearman", scores, ratings), ~np.isnan(scores)
        correlation.point(scored), interval(correlation, scored, DRAWS, seed=0)
    """

    kind: str
    x: Floats
    y: Floats

    def point(self, keep: Mask) -> float:
        with needed("scipy", "a correlation"):
            from scipy import stats

        tests: dict[str, Any] = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
        x, y = np.repeat(self.x[keep], self.y.shape[1]), self.y[keep].ravel()
        if len(x) < 2:
            return float("nan")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a constant input: the value is NaN
            return float(tests[self.kind](x, y).statistic)

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        x, y = self.x[keep], self.y[keep]
        return np.concatenate(
            [WEIGHTED[self.kind](x, y, weights[i : i + CHUNK]) for i in range(0, len(weights), CHUNK)]
        )


def clusters_of(names: Sequence[str]) -> tuple[list[str], Clusters]:
    """Return the different names in order, and the index among them of each name, (names,).

    NumPy's own `unique` gives every text the room of the longest, which one long id would make too much.

        >>> clusters_of(["b", "a", "b"])
        (['a', 'b'], array([1, 0, 1]))
    """
    different = sorted(set(names))
    place = {name: at for at, name in enumerate(different)}
    return different, np.array([place[name] for name in names], dtype=np.int64)


def mean(values: Sequence[float | None]) -> tuple[Ratio, Mask]:
    """Return the mean of the values that are not None, as a statistic, and the mask (instances,) of those values.

    statistic, scored = mean([0.5, None, 1.0])
    statistic.point(scored)  # 0.75
    interval(statistic, scored, DRAWS, seed=0)
    """
    scored = np.array([value is not None for value in values], dtype=bool)
    return Ratio(np.array([value or 0.0 for value in values]), np.ones(len(values))), scored


def consistency(values: Sequence[float]) -> float | None:
    """Return one number for a scorer's values on one question over runs of a system; None for fewer than three runs.

    It is mean ÷ (1 + standard deviation), where the deviation divides by n. It is in [0, 1] for values in [0, 1], and
    the mean itself if all values are equal.
    Source: the consistency-adjusted index of open-rag-eval 0.3.0 (its evaluators/consistency_evaluator.py).
    """
    return float(np.mean(values) / (1 + np.std(values))) if len(values) >= LEAST_RUNS else None


def multiplicities(n: int, draws: int, seed: int) -> Floats:
    """Return how often each of n instances is in each bootstrap sample of size n, as an array (draws, n)."""
    return _held(n, draws, seed).astype(np.float64)


@lru_cache(maxsize=4)
def _held(n: int, draws: int, seed: int) -> NDArray[np.uint8]:
    """Return the same in one byte each: 256 draws of one among 256 or more instances have a chance below 1e-500."""
    alike = np.ones(n, dtype=np.int64)
    return np.concatenate([block.astype(np.uint8) for block in _blocks(alike, draws, seed)])


def _parts(n: int, draws: int, seed: int) -> Iterator[Floats]:
    """Yield the rows of `multiplicities(n, draws, seed)`, in parts that fit into memory."""
    if n * draws > HELD:
        yield from _blocks(np.ones(n, dtype=np.int64), draws, seed)
        return
    rows = draws if n * draws <= WHOLE else max(1, BLOCK // n)
    for start in range(0, draws, rows):
        yield _held(n, draws, seed)[start : start + rows].astype(np.float64)


def _blocks(alike: NDArray[np.int64], draws: int, seed: int) -> Iterator[Floats]:
    """Yield how often each kind of instance is in each sample, in parts of at most BLOCK numbers (but at least a draw).

    alike: the number of instances of each kind. Each sample has as many instances as there are in all.
    """
    n, rows = int(alike.sum()), max(1, BLOCK // len(alike))
    random = np.random.default_rng(seed)
    for start in range(0, draws, rows):
        yield random.multinomial(n, alike / n, size=min(rows, draws - start)).astype(np.float64)


def drawn(statistic: Statistic, keep: Mask, draws: int, seed: int) -> Floats:
    """Return the statistic for each bootstrap draw (draws,) of the kept instances or clusters, at least one.

    The result is cached, so an interval and all tests share it. Statistics with equally many instances get the same
    draws.
    """
    return _drawn(statistic, keep.tobytes(), draws, seed)


@lru_cache(maxsize=256)
def _drawn(statistic: Statistic, kept: bytes, draws: int, seed: int) -> Floats:
    keep = np.frombuffer(kept, dtype=bool)
    # map releases each part before it takes the next
    return np.concatenate([*map(partial(statistic.draws, keep), _parts(resampled(statistic, keep), draws, seed))])


def interval(statistic: Statistic, scored: Mask, draws: int, seed: int) -> tuple[float, float] | None:
    """Return the 95% percentile interval of a statistic over the scored instances, from so many draws.

    None for fewer than two instances or clusters, and if the statistic is undefined.
    """
    return percentiles(drawn(statistic, scored, draws, seed)) if resampled(statistic, scored) > 1 else None


def mean_interval(groups: Sequence[Sequence[float]], seed: int = 0) -> tuple[float, float] | None:
    """Return the 95% percentile bootstrap interval of the mean of all values; None for fewer than two groups.

    Whole groups are resampled: Efron and Tibshirani 1993, chapter 13, with DRAWS resamples of as many groups as there
    are. Groups with equal sum and length are drawn as one kind. Shares of a few claims have few distinct values, so
    10,000 groups take no longer than 100.

        mean_interval([[1.0, 0.5], [0.0]])  # two questions, one of them with two answers

    Args:
        groups: Values that belong together, such as those of one question; no group may be empty.
        seed: The seed of the random draws.
    """
    if len(groups) < 2:
        return None
    totals = np.array([(sum(group), len(group)) for group in groups], dtype=np.float64)
    kinds, alike = np.unique(totals, axis=0, return_counts=True)
    mean_of_all, keep = Ratio(kinds[:, 0], kinds[:, 1]), np.ones(len(kinds), dtype=bool)
    return percentiles(np.concatenate([mean_of_all.draws(keep, weights) for weights in _blocks(alike, DRAWS, seed)]))


def score_interval(groups: Sequence[Sequence[float]], highest: float = 1.0) -> tuple[float, float] | None:
    """Return the 95% interval of the mean of all scores in these groups, as `mean_interval` does.

    If all scores are 0 or 1, it is that of a share (`grouped_share_interval`), which has a width even if all scores are
    the same. highest: the highest possible score. If it is not 1, no mean is a share.
    """
    if highest == 1 and len(groups) > 1 and are_outcomes(np.concatenate(groups)):
        return grouped_share_interval([[score == 1 for score in group] for group in groups])
    return mean_interval(groups)


def are_outcomes(scores: Floats) -> bool:
    """Whether all scores (n,) are 0 or 1, so that their mean is a share. True for n = 0."""
    return bool(np.isin(scores, (0.0, 1.0)).all())


@dataclass(frozen=True)
class BootstrapEstimate:
    """A value and its 95% interval, whose ends are None if it has none: a single case shows no spread."""

    value: float
    low: float | None
    high: float | None


def mean_estimate(values: Floats, draws: int, seed: int) -> BootstrapEstimate:
    """Return the mean of values (n,), at least one, with its 95% percentile bootstrap interval; one alone has none.

    The result differs from `mean_interval` only by the random numbers: here a draw is a list of instances, which is
    many times as fast for thousands of different values.
    """
    n = len(values)
    if n == 1:
        return BootstrapEstimate(float(values[0]), None, None)
    random, rows = np.random.default_rng(seed), max(1, IN_CACHE // n)
    sizes = (min(rows, draws - start) for start in range(0, draws, rows))
    means = np.concatenate([values.take(random.integers(n, size=(size, n))).mean(1) for size in sizes])
    low, high = np.percentile(means, [2.5, 97.5])
    return BootstrapEstimate(float(values.mean()), float(low), float(high))


def share_interval(hits: int, n: int) -> tuple[float, float]:
    """Return the 95% interval of the share of `hits` among n outcomes, at least one (Wilson 1927, JASA 22, 209-212).

    Unlike a bootstrap interval, it has a width even if all outcomes are the same.
    """
    return _wilson(hits / n, n)


def grouped_share_interval(groups: Sequence[Sequence[bool]]) -> tuple[float, float]:
    """Return the 95% interval of the share of true outcomes, if the outcomes of a group depend on each other.

    It is Wilson's, but n is the number of independent outcomes that would show the share as exactly as these groups do
    (Dean and Pagano 2015, Journal of Survey Statistics and Methodology 3, 484-503). If all outcomes are the same, or if
    there is one group, it is the number of groups. There must be at least one group, and none may be empty.

        grouped_share_interval([[True, True], [False]])  # two questions, one of them with two answers
    """
    hits, sizes = np.array([(sum(group), len(group)) for group in groups], dtype=np.float64).T
    n, share = float(sizes.sum()), float(hits.sum() / sizes.sum())
    variance = float(((hits - share * sizes) ** 2).sum()) / n**2
    if share in (0.0, 1.0) or len(groups) == 1:
        return _wilson(share, len(groups))
    return _wilson(share, min(n, share * (1 - share) / variance) if variance else n)


def _wilson(share: float, n: float) -> tuple[float, float]:
    z = NormalDist().inv_cdf(0.975)
    shift = z / (2 * n)

    def low(of: float) -> float:  # exactly 0 for 0
        return (of + z * shift - z * math.sqrt(of * (1 - of) / n + shift**2)) / (1 + 2 * z * shift)

    return low(share), 1 - low(1 - share)


def low_share_p(hits: int, n: int, share: float) -> float:
    """Return the p-value of so few hits among n outcomes, at least one, if each is a hit with the probability `share`.

    It is that of the one-sided exact binomial test (Clopper and Pearson 1934, Biometrika 26, 404-413).
    """
    with needed("scipy", "the test of a share"):
        from scipy.stats import binomtest

    return float(binomtest(hits, n, share, alternative="less").pvalue)


def paired_interval(
    first: Statistic, second: Statistic, both: Mask, draws: int, seed: int
) -> tuple[float, float] | None:
    """Return the 95% percentile interval of `second` minus `first`, on the same draws of the instances both scored.

    None for fewer than two such instances or clusters, and if the difference is undefined.

        ours, theirs = (Correlation("pearson", scores, ratings) for scores in (our_scores, their_scores))
        paired_interval(theirs, ours, ~np.isnan(our_scores + their_scores), DRAWS, seed=0)  # ours minus theirs
    """
    if resampled(first, both) < 2:
        return None
    return percentiles(drawn(second, both, draws, seed) - drawn(first, both, draws, seed))


def hierarchical_interval(
    first: Sequence[Statistic], second: Sequence[Statistic], keep: Mask, draws: int, seed: int
) -> tuple[float, float] | None:
    """Return the 95% percentile interval of the difference that `hierarchical_draws` draws.

    None for fewer than two instances or clusters, and if the difference is undefined.
    """
    return percentiles(hierarchical_draws(first, second, keep, draws, seed)) if resampled(second[0], keep) > 1 else None


def hierarchical_draws(
    first: Sequence[Statistic], second: Sequence[Statistic], keep: Mask, draws: int, seed: int
) -> Floats:
    """Draw the mean of `second` minus the mean of `first`, over training seeds and instances; returns (draws,).

    Each statistic is the metric of one trained model. A group has the models of one recipe, which differ in their
    training seed. An empty `first` counts as 0. keep (instances,): the instances that every model scored. A draw
    resamples the seeds of each group separately, and the instances for all models together. So groups are paired by
    instance. With one model in each group, it is the draw of `paired_interval`.

    Sources: Owen 2007, The pigeonhole bootstrap, Annals of Applied Statistics 1(2), 386-411 (both factors of a crossed
    design are resampled); Davison and Hinkley 1997, Bootstrap Methods and their Application, section 3.8. S seeds show
    only (S-1)/S of the variance between seeds. If that variance dominates, the interval is too narrow. If there is no
    other variance, the interval of three seeds covers the truth in 3 cases of 4. So look at each seed's own value, too.
    """

    def over(models: Sequence[Statistic], seed_of_models: int) -> Floats:
        values = [drawn(model, keep, draws, seed) for model in models]
        return mean_over_seeds(values, seed_of_models) if values else np.zeros(draws)

    return over(second, seed + 1) - over(first, seed + 2)


def mean_over_seeds(values: Sequence[Floats], seed: int) -> Floats:
    """Return the mean (draws,) over models that are drawn with replacement in each draw.

    values: for each model its value in each draw (draws,). It may be NaN in a draw that does not take the model.
    """
    stacked = np.stack(values, axis=1)
    times = multiplicities(len(values), len(stacked), seed)
    with np.errstate(invalid="ignore"):
        return np.where(times > 0, times * stacked, 0.0).sum(1) / len(values)


def percentiles(values: Floats) -> tuple[float, float] | None:
    """Return the 2.5th and the 97.5th percentile of the values that are defined; None if none is."""
    defined = values[~np.isnan(values)]  # a draw of one instance repeated has no correlation
    if not len(defined):
        return None
    low, high = np.percentile(defined, [2.5, 97.5])
    return float(low), float(high)
