"""How many pairs of systems a metric can tell apart.

Discriminative power is the share of pairs whose difference is significant (Sakai 2006, Evaluating evaluation metrics
based on the bootstrap). We chose the test: a paired randomisation test of the mean difference (Smucker et al. 2007, A
comparison of statistical significance tests for information retrieval evaluation). It assumes nothing about how scores
are distributed, and is exact for few questions. p-values have Holm's correction (1979).
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from rag_zeval.statistics.bootstrap import DRAWS, IN_CACHE
from rag_zeval.statistics.weighted_correlations import Floats

Scores = Sequence[float | None]
ROUNDING = 1e-12  # share of the sum of absolute differences; sums that differ by less count as equal


@dataclass(frozen=True)
class Pair:
    """Two systems: mean of `first` minus mean of `second` over the questions that both have a score for, and Holm's p.

    Without such a question, both are None: the pair is not told apart.
    """

    first: str
    second: str
    questions: int
    difference: float | None
    p: float | None


def discriminative_power(systems: Mapping[str, Scores], alpha: float = 0.05, seed: int = 0) -> tuple[float, list[Pair]]:
    """Return the share of pairs with p <= alpha, in [0, 1], and all pairs.

    systems: the scores of each system, by question in the same order. None is a missing score: that question is left
    out of the system's pairs. Raises ValueError for fewer than two systems or differing numbers of questions.
    """
    if len(systems) < 2 or len({len(scores) for scores in systems.values()}) > 1:
        raise ValueError("discriminative power needs two systems or more, with as many questions each")
    values = {name: np.array(scores, dtype=float) for name, scores in systems.items()}  # None becomes NaN
    names = list(itertools.combinations(values, 2))
    # enough for the smallest p-value to be well below what Holm requires of the first pair
    resamples = max(DRAWS, math.ceil(20 * len(names) / alpha))
    whole = (values[first] - values[second] for first, second in names)
    differences = [difference[~np.isnan(difference)] for difference in whole]
    adjusted = holm([randomisation_p(d, resamples, seed) if len(d) else None for d in differences])
    pairs = [
        Pair(first, second, len(d), float(d.mean()) if len(d) else None, p)
        for (first, second), d, p in zip(names, differences, adjusted, strict=True)
    ]
    return sum(pair.p is not None and pair.p <= alpha for pair in pairs) / len(pairs), pairs


def randomisation_p(difference: Floats, resamples: int, seed: int) -> float:
    """Return the two-sided p-value of the mean of paired differences under random signs.

    It is exact if there are at most `resamples` ways to choose the signs: up to 13 differences for 10,000, where those
    of 0 do not count. Otherwise it is at least 1 / (1 + resamples). This is Fisher's randomisation test, as in Smucker
    et al. 2007.
    """
    values = difference[difference != 0]
    total, rounding = values.sum(), ROUNDING * np.abs(values).sum()
    as_far, ways = 0, 2 ** len(values)
    exact = ways <= resamples
    for turned in _all_signs(len(values)) if exact else _random_signs(len(values), resamples, seed):
        as_far += int((np.abs(total - 2 * turned @ values) >= abs(total) - rounding).sum())
    return as_far / ways if exact else (1 + as_far) / (1 + resamples)


def _all_signs(n: int) -> Iterator[Floats]:
    """Yield all 2**n ways to flip the signs of n numbers: 1 for a flipped sign, else 0. Blocks as `_random_signs`."""
    rows = max(1, IN_CACHE // max(1, n))
    for start in range(0, 2**n, rows):
        ways = np.arange(start, min(start + rows, 2**n))
        yield (ways[:, None] >> np.arange(n) & 1).astype(np.float64)


def _random_signs(n: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield random ways to flip the signs, in blocks of at most IN_CACHE numbers (but at least a draw)."""
    random, rows, width = np.random.default_rng(seed), max(1, IN_CACHE // n), -(-n // 8)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        drawn = np.frombuffer(random.bytes(count * width), dtype=np.uint8).reshape(count, width)
        yield np.unpackbits(drawn, axis=1, count=n).astype(np.float64)


P = TypeVar("P", float, float | None)


def holm(p_values: Sequence[P]) -> list[P]:
    """Return Holm's adjusted p-values, in the given order. None means no test: it stays None and does not count.

    A p-value is at most alpha exactly if Holm's step-down procedure rejects at level alpha.
    Holm 1979, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 65-70.
    """
    order = sorted((p, at) for at, p in enumerate(p_values) if p is not None)
    adjusted, largest = list(p_values), 0.0
    for rank, (p, at) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        adjusted[at] = largest
    return adjusted
