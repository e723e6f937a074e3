"""What changed between paired values besides their mean: a percentile, and a group that stands out from the others."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rag_zeval.statistics.bootstrap import IN_CACHE, BootstrapEstimate
from rag_zeval.statistics.weighted_correlations import Floats

ROUNDING = 1e-9  # relative difference up to which statistics count as equal
MOST = 20_000_000  # most numbers drawn for a group: they take a second
ENOUGH = 100  # choices at least as extreme as the observed one: more would only make a large p more exact


def percentile_estimates(pairs: Floats, share: float, draws: int, seed: int) -> list[BootstrapEstimate]:
    """Return a percentile of each column of `pairs` (cases, 2), and the second percentile minus the first.

    share: 0.95 is the 95th percentile. The three values have 95% percentile bootstrap intervals, which resample whole
    pairs. There must be at least one case; one alone has no interval.
    """

    def found(values: Floats) -> Floats:
        """Return the three values (draws, 3) for values (draws, cases, 2)."""
        both = np.quantile(values, share, axis=1)
        return np.column_stack([both, both[:, 1] - both[:, 0]])

    random, n = np.random.default_rng(seed), len(pairs)
    if n == 1:
        return [BootstrapEstimate(float(value), None, None) for value in found(pairs[None])[0]]
    drawn = np.concatenate([found(pairs[random.integers(n, size=(count, n))]) for count in _blocks(draws, 2 * n)])
    bounds = np.quantile(drawn, [0.025, 0.975], axis=0)
    return [BootstrapEstimate(*map(float, one)) for one in zip(found(pairs[None])[0], *bounds, strict=True)]


def percentile_p(pairs: Floats, share: float, resamples: int, seed: int) -> float:
    """Return the two-sided p-value of the change of a percentile, by random swaps of the two values of a case.

    It is the paired randomisation test of a mean (`randomisation_p`) with another statistic. p is at least
    1 / (1 + resamples).
    """
    random, n, as_far = np.random.default_rng(seed), len(pairs), 0
    first, second = np.quantile(pairs, share, axis=0)
    for count in _blocks(resamples, 2 * n):
        turned = random.random((count, n)) < 0.5
        sides = (np.where(turned, pairs[:, at], pairs[:, 1 - at]) for at in (0, 1))
        one, other = (np.quantile(side, share, axis=1) for side in sides)
        as_far += int((np.abs(one - other) >= abs(second - first) * (1 - ROUNDING)).sum())
    return (1 + as_far) / (1 + resamples)


def standing_out_p(group: Floats, others: Floats, resamples: int, seed: int) -> float:
    """Return the one-sided p-value of a group's mean being above that of the others.

    It is a permutation test over random choices of as many cases. The statistic is Welch's t, so that a large group
    with more noise than the others causes no more false alarms (Chung and Romano 2013, Exact and asymptotically robust
    permutation tests, Annals of Statistics 41, 484-507). A small group with several times the noise does. If the mean
    of the others is below 0, it is shifted to 0: a group does not stand out just because the others fell. p is 1 if
    either side has fewer than two cases, or if the group's mean is not above. Otherwise it is at least 1 / (1 + draws).
    There are at most `resamples` draws, and fewer if p is large (Besag and Clifford 1991, Sequential Monte Carlo
    p-values, Biometrika 78, 301-304) or if they would take more than MOST numbers.
    """
    n, others = len(group), others - min(0.0, float(others.mean())) if len(others) else others
    if min(n, len(others)) < 2:
        return 1.0
    values = np.concatenate([group, others])
    random, rounding = np.random.default_rng(seed), ROUNDING * float(np.abs(values).max(initial=0.0))
    seen = float(_welch(values, np.arange(n)[None], rounding)[0])
    if seen <= 0:
        return 1.0
    drawn = as_far = 0
    for count in _blocks(min(resamples, MOST // len(values) + 1), max(len(values), IN_CACHE // (2 * ENOUGH))):
        chosen = random.random((count, len(values))).argpartition(n - 1, axis=1)[:, :n]
        as_far += int((_welch(values, chosen, rounding) >= seen * (1 - ROUNDING)).sum())
        drawn += count
        if as_far >= ENOUGH:
            break
    return (1 + as_far) / (1 + drawn)


def _welch(values: Floats, chosen: NDArray[np.intp], rounding: float) -> Floats:
    """Return Welch's t (draws,) of the chosen places (draws, n) of `values` against the other places."""
    n, m = chosen.shape[1], len(values) - chosen.shape[1]
    inside, squares = values[chosen].sum(1), (values**2)[chosen].sum(1)
    outside, other_squares = values.sum() - inside, (values**2).sum() - squares
    within = (squares - inside**2 / n) / (n * (n - 1)) + (other_squares - outside**2 / m) / (m * (m - 1))
    spread = np.sqrt(np.maximum(within, 0.0))
    apart: Floats = (inside / n - outside / m) / np.maximum(spread, rounding or 1.0)
    return apart


def _blocks(draws: int, width: int) -> Iterator[int]:
    """Yield how many of the draws to make at a time, so that `width` numbers of each stay in the cache."""
    rows = max(1, IN_CACHE // width)
    for start in range(0, draws, rows):
        yield min(rows, draws - start)
