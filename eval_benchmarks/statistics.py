"""Point values, and 95% percentile bootstrap intervals over instances, of the statistics the benchmarks print.

A bootstrap draw is a vector of multiplicities: how often each instance was drawn. Every statistic is evaluated on all
draws at once from those multiplicities, so nothing is copied or sorted again for a draw. All annotator rows of an
instance are drawn together.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

CHUNK = 1_000  # draws evaluated together: keeps the temporaries in cache
EXACT_FLOAT32 = 1 << 24  # integers below this are exact in float32
ROUNDING = 1e-13  # a relative spread below this is what rounding leaves of a constant
LEAST_RUNS = 3  # from which one can speak of consistency


class Statistic(Protocol):
    """A number computed from instances, some of which may be left out (`keep`) or drawn several times."""

    def __hash__(self) -> int:
        """Of the object, not of its values: draws are kept by it."""

    def point(self, keep: Mask) -> float:
        """The value on the kept instances; NaN where it is undefined."""

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        """The value at each row of `weights` (draws, kept instances); NaN where it is undefined."""


@dataclass(frozen=True, eq=False)
class Ratio:
    """Sum of `top` over sum of `bottom`, both (instances,): with `bottom` all ones it is a mean."""

    top: Floats
    bottom: Floats

    def point(self, keep: Mask) -> float:
        return float(self.draws(keep, np.ones((1, int(keep.sum()))))[0])

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return (weights @ self.top[keep]) / (weights @ self.bottom[keep])


@dataclass(frozen=True, eq=False)
class Correlation:
    """`kind` of correlation ("pearson", "spearman", "kendall": tau-b) between a scorer and its annotators.

    `x` (instances,) holds the scorer's value, `y` (instances, annotators) the labels: each label is a row of its own.
    """

    kind: str
    x: Floats
    y: Floats

    def point(self, keep: Mask) -> float:
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
    """The mean of the values that are there, and which ones are."""
    scored = np.array([value is not None for value in values], dtype=bool)
    return Ratio(np.array([value or 0.0 for value in values]), np.ones(len(values))), scored


def consistency(values: Sequence[float]) -> float | None:
    """A scorer's values for one question over runs of a system, as one number; None for fewer than three runs.

    Mean ÷ (1 + standard deviation, with n below): in [0, 1] for values in [0, 1], and the mean itself if all are equal.
    Source: the consistency-adjusted index of open-rag-eval 0.3.0 (its evaluators/consistency_evaluator.py).
    """
    return float(np.mean(values) / (1 + np.std(values))) if len(values) >= LEAST_RUNS else None


@lru_cache(maxsize=4)
def multiplicities(n: int, draws: int, seed: int) -> Floats:
    """Array (draws, n): how often each of n instances falls into each bootstrap sample of size n."""
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=draws).astype(np.float64)


def drawn(statistic: Statistic, keep: Mask, draws: int, seed: int) -> Floats:
    """The statistic at each bootstrap draw (draws,) of the kept instances, of which there must be one.

    Computed once for an interval and all tests: two statistics with as many instances get the same draws.
    """
    return _drawn(statistic, keep.tobytes(), draws, seed)


@lru_cache(maxsize=256)
def _drawn(statistic: Statistic, kept: bytes, draws: int, seed: int) -> Floats:
    keep = np.frombuffer(kept, dtype=bool)
    return statistic.draws(keep, multiplicities(int(keep.sum()), draws, seed))


def interval(statistic: Statistic, scored: Mask, draws: int, seed: int) -> tuple[float, float] | None:
    """95% percentile interval of the statistic over the scored instances; None if it is undefined."""
    return percentiles(drawn(statistic, scored, draws, seed)) if scored.any() else None


def paired_interval(
    first: Statistic, second: Statistic, both: Mask, draws: int, seed: int
) -> tuple[float, float] | None:
    """95% percentile interval of `second` minus `first`, drawn together over the instances that both scored."""
    if not both.any():
        return None
    return percentiles(drawn(second, both, draws, seed) - drawn(first, both, draws, seed))


def hierarchical_interval(
    first: Sequence[Ratio], second: Sequence[Ratio], keep: Mask, draws: int, seed: int
) -> tuple[float, float] | None:
    """95% percentile interval of the mean of `second` minus the mean of `first`, from `hierarchical_draws`."""
    return percentiles(hierarchical_draws(first, second, keep, draws, seed)) if keep.any() else None


def hierarchical_draws(first: Sequence[Ratio], second: Sequence[Ratio], keep: Mask, draws: int, seed: int) -> Floats:
    """Bootstrap draws (draws,) of the mean of `second` minus the mean of `first`, over training seeds and instances.

    Each ratio is the metric of one trained model, a group the models of one recipe that differ in their training seed;
    an empty `first` counts as 0. `keep` (instances,): those that every model scored. A draw takes seeds with
    replacement, of each group by itself, and instances with replacement, the same ones for all models: so groups are
    paired by instance. With one model in each group it is the draw of `paired_interval`.

    Sources: Owen 2007, The pigeonhole bootstrap, Annals of Applied Statistics 1(2), 386-411 (both factors of a crossed
    design are resampled); Davison and Hinkley 1997, Bootstrap Methods and their Application, section 3.8. S seeds show
    only (S-1)/S of the variance between seeds: where that outweighs the rest, the interval is too narrow (where it is
    all there is, that of three seeds covers the truth in 3 cases of 4), and each seed's own value has to be looked at.
    """
    weights = multiplicities(int(keep.sum()), draws, seed)
    return _over_seeds(second, keep, weights, seed + 1) - _over_seeds(first, keep, weights, seed + 2)


def _over_seeds(models: Sequence[Ratio], keep: Mask, weights: Floats, seed: int) -> Floats:
    """The mean (draws,) over the models drawn; a model that a draw does not take may be undefined in it."""
    if not models:
        return np.zeros(len(weights))
    times = multiplicities(len(models), len(weights), seed)
    tops, bottoms = (
        np.stack(column, axis=1)[keep] for column in zip(*((m.top, m.bottom) for m in models), strict=True)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        values = (weights @ tops) / (weights @ bottoms)
        return np.where(times > 0, times * values, 0.0).sum(1) / len(models)


def percentiles(values: Floats) -> tuple[float, float] | None:
    """The 2.5th and the 97.5th of the values that are defined; None if none is."""
    defined = values[~np.isnan(values)]  # a draw of one instance repeated has no correlation
    if not len(defined):
        return None
    low, high = np.percentile(defined, [2.5, 97.5])
    return float(low), float(high)


def weighted_pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Pearson's r at each row of `weights` (draws, n), for `x` (n,) and `y` (n, annotators)."""
    annotators = y.shape[1]
    x, y = x - x.mean(), y - y.mean()
    sums = weights @ np.stack([annotators * x, y.sum(1), annotators * x * x, (y * y).sum(1), x * y.sum(1)], axis=1)
    return _correlation(weights.sum(1) * annotators, *sums.T)


def weighted_spearman(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Spearman's rho (Pearson's r of mid-ranks), shapes as `weighted_pearson`."""
    annotators = y.shape[1]
    groups_x, _, sizes_x = _group_sizes(np.repeat(x[:, None], annotators, axis=1), weights)
    _, counts_y, sizes_y = _group_sizes(y, weights)
    total = weights.sum(1) * annotators
    centre = (total[:, None] + 1) / 2  # the mean of all mid-ranks, so that the centred ones add up to 0
    rank_x, rank_y = mid_ranks(sizes_x) - centre, mid_ranks(sizes_y) - centre
    squares = np.einsum("dg,dg,dg->d", sizes_x, rank_x, rank_x), np.einsum("dg,dg,dg->d", sizes_y, rank_y, rank_y)
    products = np.einsum("di,di,di->d", weights, rank_x[:, groups_x[:, 0]], rank_y @ counts_y.T)
    return _correlation(total, np.zeros_like(total), np.zeros_like(total), *squares, products)


def weighted_kendall(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Kendall's tau-b, shapes as `weighted_pearson`.

    Concordant minus discordant pairs are w'Cw / 2 with C fixed, so a draw costs a matrix product and no sorting.
    """
    annotators = y.shape[1]
    concordance = np.sign(x[:, None] - x[None, :])
    concordance = concordance * sum(
        np.sign(y[:, None, i] - y[None, :, j]) for i in range(annotators) for j in range(annotators)
    )
    rows = annotators * weights.sum(1)
    kind = _integer_kind(rows.max() ** 2)  # no sum gets larger
    drawn = weights.astype(kind)
    balance = ((drawn @ concordance.astype(kind)) * drawn).sum(1).astype(np.float64) / 2
    tied_x = _tied_pairs(np.repeat(x[:, None], annotators, axis=1), weights)
    tied_y = _tied_pairs(y, weights)
    pairs = rows * (rows - 1) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return balance / np.sqrt((pairs - tied_x) * (pairs - tied_y))


WEIGHTED: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "pearson": weighted_pearson,
    "spearman": weighted_spearman,
    "kendall": weighted_kendall,
}


def mid_ranks(sizes: Floats) -> Floats:
    """Rank (from 1) that all values of a group share, for `sizes` (draws, groups) of groups in ascending order."""
    return np.cumsum(sizes, axis=1) - (sizes - 1) / 2


def _group_sizes(values: Floats, weights: Floats) -> tuple[NDArray[np.intp], Floats, Floats]:
    """How often each distinct value stands in each draw.

    values: (n, annotators), weights: (draws, n). Returns the group of each value in ascending order, as `values`; how
    many of an instance's values are in each group, (n, groups); and the groups' sizes, (draws, groups).
    """
    distinct, groups = np.unique(values, return_inverse=True)
    groups = groups.reshape(values.shape)
    counts = np.zeros((len(values), len(distinct)))
    np.add.at(counts, (np.arange(len(values))[:, None], groups), 1)
    kind = _integer_kind(float(weights.sum(1).max()) * values.shape[1])
    return groups, counts, (weights.astype(kind) @ counts.astype(kind)).astype(np.float64)


def _integer_kind(largest: float) -> type:
    """The fastest type in which sums of whole numbers up to `largest` are exact."""
    return np.float32 if largest < EXACT_FLOAT32 else np.float64


def _tied_pairs(values: Floats, weights: Floats) -> Floats:
    _, _, sizes = _group_sizes(values, weights)
    return (sizes * (sizes - 1)).sum(1) / 2


def _correlation(n: Floats, x: Floats, y: Floats, xx: Floats, yy: Floats, xy: Floats) -> Floats:
    """Pearson's r from weighted sums: count, Σx, Σy, Σx², Σy², Σxy."""
    spread_x, spread_y = n * xx - x * x, n * yy - y * y
    constant = (spread_x <= ROUNDING * n * xx) | (spread_y <= ROUNDING * n * yy)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(constant, np.nan, (n * xy - x * y) / np.sqrt(spread_x * spread_y))
