"""How many rows of a sample each stratum gets."""

from collections.abc import Sequence


def allocate(sizes: Sequence[int], n: int) -> list[int]:
    """Of n rows, those of each stratum: one each, the others in proportion to the items that are left.

    sizes: items of the strata, none empty; n: at least as many as strata. Rounded by largest remainders, so that the
    rows add up to n, or to all items where they are fewer. Proportional allocation: Cochran 1977, Sampling Techniques,
    chapter 5; without the row that each stratum gets, a rare slice or band may have none.
    """
    left = sum(sizes) - len(sizes)
    more = min(n - len(sizes), left)
    shares = [divmod(more * (size - 1), left) if left else (0, 0) for size in sizes]
    rows = [1 + whole for whole, _ in shares]
    by_remainder = sorted(range(len(sizes)), key=lambda at: -shares[at][1])
    for at in by_remainder[: more + len(sizes) - sum(rows)]:
        rows[at] += 1
    return rows
