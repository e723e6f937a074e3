"""Correlations of rows that occur several times, for many vectors of multiplicities at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EXACT_FLOAT32 = 1 << 24  # integers below this are exact in float32
ROUNDING = 1e-13  # relative spread up to which values count as constant: rounding alone may cause it


def weighted_pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return Pearson's r (draws,) for each row of `weights` (draws, n), of `x` (n,) and `y` (n, annotators)."""
    annotators = y.shape[1]
    x, y = x - x.mean(), y - y.mean()
    sums = weights @ np.stack([annotators * x, y.sum(1), annotators * x * x, (y * y).sum(1), x * y.sum(1)], axis=1)
    return _correlation(weights.sum(1) * annotators, *sums.T)


def weighted_spearman(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return Spearman's rho (Pearson's r of mid-ranks), with shapes as in `weighted_pearson`."""
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
    """Return Kendall's tau-b, with shapes as in `weighted_pearson`.

    Concordant minus discordant pairs are w'Cw / 2 with a fixed C, so a draw costs a matrix product and no sorting.
    """
    annotators = y.shape[1]
    concordance = np.sign(x[:, None] - x[None, :])
    concordance = concordance * sum(
        np.sign(y[:, None, i] - y[None, :, j]) for i in range(annotators) for j in range(annotators)
    )
    rows = annotators * weights.sum(1)
    kind = _integer_kind(rows.max() ** 2)  # no sum gets larger
    times = weights.astype(kind)
    balance = ((times @ concordance.astype(kind)) * times).sum(1).astype(np.float64) / 2
    tied_x = _tied_pairs(np.repeat(x[:, None], annotators, axis=1), weights)
    tied_y = _tied_pairs(y, weights)
    pairs = rows * (rows - 1) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return balance / np.sqrt((pairs - tied_x) * (pairs - tied_y))


def mid_ranks(sizes: Floats) -> Floats:
    """Return the rank (from 1) that all values of a group share. sizes: (draws, groups), groups in ascending order."""
    return np.cumsum(sizes, axis=1) - (sizes - 1) / 2


def _group_sizes(values: Floats, weights: Floats) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Count how often each distinct value occurs in each draw. Each distinct value is a group, in ascending order.

    values: (n, annotators). weights: (draws, n). Returns the group of each value, in the shape of `values`; how many of
    an instance's values are in each group, (n, groups); and the groups' sizes, (draws, groups).
    """
    distinct, groups = np.unique(values, return_inverse=True)
    groups = groups.reshape(values.shape)
    counts = np.zeros((len(values), len(distinct)))
    np.add.at(counts, (np.arange(len(values))[:, None], groups), 1)
    kind = _integer_kind(float(weights.sum(1).max()) * values.shape[1])
    return groups, counts, (weights.astype(kind) @ counts.astype(kind)).astype(np.float64)


def _integer_kind(largest: float) -> type[np.float32] | type[np.float64]:
    """Return the fastest type in which sums of whole numbers up to `largest` are exact."""
    return np.float32 if largest < EXACT_FLOAT32 else np.float64


def _tied_pairs(values: Floats, weights: Floats) -> Floats:
    _, _, sizes = _group_sizes(values, weights)
    return (sizes * (sizes - 1)).sum(1) / 2


def _correlation(n: Floats, x: Floats, y: Floats, xx: Floats, yy: Floats, xy: Floats) -> Floats:
    """Return Pearson's r from weighted sums: count, Σx, Σy, Σx², Σy², Σxy. NaN if x or y is constant."""
    spread_x, spread_y = n * xx - x * x, n * yy - y * y
    constant = (spread_x <= ROUNDING * n * xx) | (spread_y <= ROUNDING * n * yy)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(constant, np.nan, (n * xy - x * y) / np.sqrt(spread_x * spread_y))


WEIGHTED: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "pearson": weighted_pearson,
    "spearman": weighted_spearman,
    "kendall": weighted_kendall,
}
