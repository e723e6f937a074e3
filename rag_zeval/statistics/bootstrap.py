"""Point values, and 95% percentile bootstrap intervals over instances, of the statistics the benchmarks print.

A bootstrap draw is a vector of multiplicities: how often each instance was drawn. Every statistic is evaluated on all
draws at once from those multiplicities, so nothing is copied or sorted again for a draw. All annotator rows of an
instance are drawn together; so are the instances of a cluster, where a statistic has clusters.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_zeval.errors import needed
from rag_zeval.statistics.weighted_correlations import WEIGHTED, Floats

Mask = NDArray[np.bool_]
Clusters = NDArray[np.int64]

CHUNK = 1_000  # draws evaluated together: keeps the temporaries in cache
DRAWS = 10_000  # of an interval, everywhere: slower measures take a fixed share of them
WHOLE = 8_000_000  # multiplicities that a statistic gets at once
HELD = 8 * WHOLE  # those kept for all statistics, in a byte each, to bound memory
BLOCK = 1_000_000  # those made at a time, and handed on at a time where they are more than WHOLE
IN_CACHE = 100_000  # numbers worked on at a time where they are used once: these stay in the cache
LEAST_RUNS = 3  # from which one can speak of consistency


class Statistic(ABC):
    """A number computed from instances, some of which may be left out (`keep`) or drawn several times.

    Draws are kept by the object: it is hashed as itself, not by its values.
    One that has an attribute `clusters` (instances,) is drawn by clusters: `weights` then has a column for each cluster
    with a kept instance, as `columns_of` numbers them (Cameron, Gelbach and Miller 2008, Review of Economics and
    Statistics 90(3), 414-427, on resampling whole clusters).
    """

    def point(self, keep: Mask) -> float:
        """The value on the kept instances; NaN where it is undefined."""
        columns = int(columns_of(self, keep).max(initial=-1)) + 1
        return float(self.draws(keep, np.ones((1, columns)))[0])

    @abstractmethod
    def draws(self, keep: Mask, weights: Floats) -> Floats:
        """The value at each row of `weights` (draws, kept instances or clusters); NaN where it is undefined."""

    def instances(self, keep: Mask) -> Floats | None:
        """What each kept instance brings, where the value is their mean; None where it is not a mean over instances."""
        return None


def columns_of(statistic: Statistic, keep: Mask) -> Clusters:
    """The column of `weights` that says how often each kept instance is drawn: its own, or that of its cluster."""
    clusters: Clusters | None = getattr(statistic, "clusters", None)
    if clusters is None:
        return np.arange(int(keep.sum()))
    return np.unique(clusters[keep], return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class Ratio(Statistic):
    """Sum of `top` over sum of `bottom`, both (instances,): with `bottom` all ones it is a mean."""

    top: Floats
    bottom: Floats

    def instances(self, keep: Mask) -> Floats | None:
        return self.top[keep] if (self.bottom[keep] == 1).all() else None

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return (weights @ self.top[keep]) / (weights @ self.bottom[keep])


@dataclass(frozen=True, eq=False)
class Correlation(Statistic):
    """`kind` of correlation ("pearson", "spearman", "kendall": tau-b) between a scorer and its annotators.

    `x` (instances,) holds the scorer's value, `y` (instances, annotators) the labels: each label is a row of its own.
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
            warnings.simplefilter("ignore")  # a constant input: NaN says it
            return float(tests[self.kind](x, y).statistic)

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        x, y = self.x[keep], self.y[keep]
        return np.concatenate(
            [WEIGHTED[self.kind](x, y, weights[i : i + CHUNK]) for i in range(0, len(weights), CHUNK)]
        )


def mean(values: Sequence[float | None]) -> tuple[Ratio, Mask]:
    """The mean of the values that are not None, as a statistic, and the mask (instances,) of those.

    statistic, scored = mean([0.5, None, 1.0])
    statistic.point(scored)  # 0.75
    interval(statistic, scored, DRAWS, seed=0)
    """
    scored = np.array([value is not None for value in values], dtype=bool)
    return Ratio(np.array([value or 0.0 for value in values]), np.ones(len(values))), scored


def consistency(values: Sequence[float]) -> float | None:
    """A scorer's values for one question over runs of a system, as one number; None for fewer than three runs.

    Mean ÷ (1 + standard deviation, with n below): in [0, 1] for values in [0, 1], and the mean itself if all are equal.
    Source: the consistency-adjusted index of open-rag-eval 0.3.0 (its evaluators/consistency_evaluator.py).
    """
    return float(np.mean(values) / (1 + np.std(values))) if len(values) >= LEAST_RUNS else None


def multiplicities(n: int, draws: int, seed: int) -> Floats:
    """Array (draws, n): how often each of n instances falls into each bootstrap sample of size n."""
    return _held(n, draws, seed).astype(np.float64)


@lru_cache(maxsize=4)
def _held(n: int, draws: int, seed: int) -> NDArray[np.uint8]:
    """The same in a byte each: that one of 256 or more is drawn 256 times in a sample has a chance below 1e-500."""
    alike = np.ones(n, dtype=np.int64)
    return np.concatenate([block.astype(np.uint8) for block in _blocks(alike, draws, seed)])


def _parts(n: int, draws: int, seed: int) -> Iterator[Floats]:
    """The rows of `multiplicities(n, draws, seed)`, in as many parts as memory asks for."""
    if n * draws > HELD:
        yield from _blocks(np.ones(n, dtype=np.int64), draws, seed)
        return
    rows = draws if n * draws <= WHOLE else max(1, BLOCK // n)
    for start in range(0, draws, rows):
        yield _held(n, draws, seed)[start : start + rows].astype(np.float64)


def _blocks(alike: NDArray[np.int64], draws: int, seed: int) -> Iterator[Floats]:
    """How often each kind of instance falls into each sample of as many instances as there are.

    alike: how many instances there are of each kind. In parts of at most BLOCK numbers (but a draw at least), one after
    the other.
    """
    n, rows = int(alike.sum()), max(1, BLOCK // len(alike))
    random = np.random.default_rng(seed)
    for start in range(0, draws, rows):
        yield random.multinomial(n, alike / n, size=min(rows, draws - start)).astype(np.float64)


def drawn(statistic: Statistic, keep: Mask, draws: int, seed: int) -> Floats:
    """The statistic at each bootstrap draw (draws,) of the kept instances or clusters, of which there must be one.

    The result is cached, for an interval and all tests. Two statistics with equally many instances get the same draws.
    """
    return _drawn(statistic, keep.tobytes(), draws, seed)


@lru_cache(maxsize=256)
def _drawn(statistic: Statistic, kept: bytes, draws: int, seed: int) -> Floats:
    keep = np.frombuffer(kept, dtype=bool)
    n = int(columns_of(statistic, keep).max()) + 1
    # by map, which lets go of a part before the next is made
    return np.concatenate([*map(partial(statistic.draws, keep), _parts(n, draws, seed))])


def interval(statistic: Statistic, scored: Mask, draws: int, seed: int) -> tuple[float, float] | None:
    """95% percentile interval of the statistic over the scored instances; None if it is undefined."""
    return percentiles(drawn(statistic, scored, draws, seed)) if scored.any() else None


def mean_interval(groups: Sequence[Sequence[float]], seed: int = 0) -> tuple[float, float]:
    """95% percentile bootstrap interval of the mean of all values, whole groups drawn together.

    Efron and Tibshirani 1993, chapter 13, with DRAWS resamples of as many groups as there are. Groups with equal sum
    and length are drawn as one kind: shares of a few claims have few values, and 10,000 groups take no longer than 100.

        mean_interval([[1.0, 0.5], [0.0]])  # two questions, one of them with two answers

    Args:
        groups: Values that belong together (the answers of one question); at least one group, none of them empty.
        seed: Of the random draws.
    """
    totals = np.array([(sum(group), len(group)) for group in groups], dtype=np.float64)
    kinds, alike = np.unique(totals, axis=0, return_counts=True)
    mean_of_all, keep = Ratio(kinds[:, 0], kinds[:, 1]), np.ones(len(kinds), dtype=bool)
    bounds = percentiles(np.concatenate([mean_of_all.draws(keep, weights) for weights in _blocks(alike, DRAWS, seed)]))
    assert bounds is not None, "the mean of no group is undefined"
    return bounds


@dataclass(frozen=True)
class BootstrapEstimate:
    """A value and its 95% interval."""

    value: float
    low: float
    high: float


def mean_estimates(values: Floats, draws: int, seed: int) -> list[BootstrapEstimate]:
    """The mean of each column of `values` (instances, columns), with its 95% percentile bootstrap interval.

    There must be at least one instance; a draw takes it with all its columns. The result differs from `interval` only
    by the random numbers: here a draw is a list of instances, which is ten times as fast for thousands of them.
    """
    random, rows, n = np.random.default_rng(seed), max(1, IN_CACHE // len(values)), len(values)
    columns = np.ascontiguousarray(values.T)
    means: list[Floats] = []
    for start in range(0, draws, rows):
        chosen = random.integers(n, size=(min(rows, draws - start), n))
        means.append(np.stack([column.take(chosen).mean(1) for column in columns], axis=1))
    bounds = np.percentile(np.concatenate(means), [2.5, 97.5], axis=0)
    return [BootstrapEstimate(*map(float, column)) for column in zip(values.mean(0), *bounds, strict=True)]


def share_interval(hits: int, n: int) -> tuple[float, float]:
    """95% interval of the share of `hits` among n outcomes, at least one (Wilson 1927, JASA 22, 209-212).

    It is no bootstrap: it has a width also where all outcomes are the same.
    """
    with needed("scipy", "the interval of a share"):
        from scipy.stats import binomtest

    bounds = binomtest(hits, n).proportion_ci(method="wilson")
    return float(bounds.low), float(bounds.high)


def paired_interval(
    first: Statistic, second: Statistic, both: Mask, draws: int, seed: int
) -> tuple[float, float] | None:
    """95% percentile interval of `second` minus `first`, drawn together over the instances that both scored."""
    if not both.any():
        return None
    return percentiles(drawn(second, both, draws, seed) - drawn(first, both, draws, seed))


def hierarchical_interval(
    first: Sequence[Statistic], second: Sequence[Statistic], keep: Mask, draws: int, seed: int
) -> tuple[float, float] | None:
    """95% percentile interval of the mean of `second` minus the mean of `first`, from `hierarchical_draws`."""
    return percentiles(hierarchical_draws(first, second, keep, draws, seed)) if keep.any() else None


def hierarchical_draws(
    first: Sequence[Statistic], second: Sequence[Statistic], keep: Mask, draws: int, seed: int
) -> Floats:
    """Bootstrap draws (draws,) of the mean of `second` minus the mean of `first`, over training seeds and instances.

    Each statistic is the metric of one trained model, a group the models of one recipe that differ in their training
    seed; an empty `first` counts as 0. `keep` (instances,): those that every model scored. A draw takes seeds with
    replacement, of each group by itself, and instances with replacement, the same ones for all models: so groups are
    paired by instance. With one model in each group it is the draw of `paired_interval`.

    Sources: Owen 2007, The pigeonhole bootstrap, Annals of Applied Statistics 1(2), 386-411 (both factors of a crossed
    design are resampled); Davison and Hinkley 1997, Bootstrap Methods and their Application, section 3.8. S seeds show
    only (S-1)/S of the variance between seeds: where that outweighs the rest, the interval is too narrow (where it is
    all there is, that of three seeds covers the truth in 3 cases of 4), and each seed's own value has to be looked at.
    """

    def over(models: Sequence[Statistic], seed_of_models: int) -> Floats:
        values = [drawn(model, keep, draws, seed) for model in models]
        return mean_over_seeds(values, seed_of_models) if values else np.zeros(draws)

    return over(second, seed + 1) - over(first, seed + 2)


def mean_over_seeds(values: Sequence[Floats], seed: int) -> Floats:
    """The mean (draws,) over models that are drawn with replacement in each draw.

    values: of each model its value in each draw (draws,). A model that a draw does not take may be undefined in it.
    """
    stacked = np.stack(values, axis=1)
    times = multiplicities(len(values), len(stacked), seed)
    with np.errstate(invalid="ignore"):
        return np.where(times > 0, times * stacked, 0.0).sum(1) / len(values)


def percentiles(values: Floats) -> tuple[float, float] | None:
    """The 2.5th and the 97.5th of the values that are defined; None if none is."""
    defined = values[~np.isnan(values)]  # a draw of one instance repeated has no correlation
    if not len(defined):
        return None
    low, high = np.percentile(defined, [2.5, 97.5])
    return float(low), float(high)
