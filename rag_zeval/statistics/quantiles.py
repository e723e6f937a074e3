"""Quantiles, with intervals that assume nothing of how the values are distributed."""

import math
from collections.abc import Sequence

import numpy as np

TAIL = 0.025  # on each side of a 95% interval


def quantile(values: Sequence[float], p: float) -> float:
    """The p-quantile, 0 < p < 1, of at least one value, interpolated between neighbours; in the values' unit."""
    return float(np.quantile(values, p))


def quantile_interval(values: Sequence[float], p: float) -> tuple[float | None, float | None]:
    """95% interval of the p-quantile: the two values between which it lies by the binomial distribution of ranks.

    An end is None where there are too few values for one: for p = 0.95, the upper end needs 72 of them.
    Source: Conover, Practical Nonparametric Statistics, 1999, section 3.2 (as scipy.stats.quantile_test).
    """
    ordered, n = sorted(values), len(values)
    chance = 0.0  # that at most `below` of n values lie below the quantile
    low = high = None
    for below in range(n):
        ways = math.lgamma(n + 1) - math.lgamma(below + 1) - math.lgamma(n - below + 1)
        chance += math.exp(ways + below * math.log(p) + (n - below) * math.log1p(-p))
        if chance < TAIL:
            low = ordered[below]
        if high is None and chance >= 1 - TAIL:
            high = ordered[below]
    return low, high
