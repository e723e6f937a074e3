"""Divides the rows of a sample among strata."""

from collections.abc import Sequence


def allocate(sizes: Sequence[int], n: int) -> list[int]:
    """Return how many of n rows each stratum gets: one each, and the others in proportion to its other items.

    sizes: items of each stratum, at least 1. n: at least the number of strata. Largest remainders round the numbers, so
    that they add up to n, or to all items if there are fewer. Proportional allocation: Cochran 1977, Sampling
    Techniques, chapter 5. The row that each stratum gets keeps a rare slice or band in the sample.
    """
    left = sum(sizes) - len(sizes)
    more = min(n - len(sizes), left)
    shares = [divmod(more * (size - 1), left) if left else (0, 0) for size in sizes]
    rows = [1 + whole for whole, _ in shares]
    by_remainder = sorted(range(len(sizes)), key=lambda at: -shares[at][1])
    for at in by_remainder[: more + len(sizes) - sum(rows)]:
        rows[at] += 1
    return rows
