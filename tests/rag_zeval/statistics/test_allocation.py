"""The rows of a stratified sample."""

from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.statistics.allocation import allocate


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(0, 300))
def test_every_stratum_gets_a_row_and_the_others_are_in_proportion(sizes: list[int], more: int) -> None:
    n = len(sizes) + more
    rows = allocate(sizes, n)
    assert sum(rows) == min(n, sum(sizes))
    left = sum(sizes) - len(sizes)
    for got, size in zip(rows, sizes, strict=True):
        assert 1 <= got <= size
        exact = min(more, left) * (size - 1) / left if left else 0
        assert abs(got - 1 - exact) < 1
