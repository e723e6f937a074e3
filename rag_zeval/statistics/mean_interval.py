"""The interval of a mean, by resampling."""

from __future__ import annotations

from collections.abc import Sequence

DRAWS = 10_000
CHUNK = 10_000_000  # bytes of numbers drawn at once at most


def mean_interval(groups: Sequence[Sequence[float]], seed: int = 0) -> tuple[float, float]:
    """95% percentile bootstrap interval of the mean of all values, whole groups drawn together.

    groups: values that hang together (the answers of one question), at least one group, none of them empty.
    Efron and Tibshirani 1993, chapter 13; DRAWS resamples of as many groups as there are.
    """
    import numpy as np

    totals, sizes = np.array([sum(group) for group in groups]), np.array([len(group) for group in groups])
    random, n = np.random.default_rng(seed), len(groups)
    means: list[float] = []
    while len(means) < DRAWS:
        draws = min(DRAWS - len(means), max(1, CHUNK // (8 * n)))
        drawn = random.multinomial(n, np.full(n, 1 / n), size=draws)
        means += ((drawn @ totals) / (drawn @ sizes)).tolist()
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
