"""A scorer's values over several runs of one system."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.statistics.bootstrap import consistency

RUNS = st.lists(st.floats(0, 1), min_size=3, max_size=9)


def test_the_value_is_that_worked_out_by_hand() -> None:
    assert consistency([0.2, 0.5, 0.8]) == pytest.approx(0.5 / (1 + 0.06**0.5))  # variance (.09 + 0 + .09) / 3


@pytest.mark.parametrize("values", [[], [0.5], [0.5, 0.5]])
def test_fewer_than_three_runs_say_nothing(values: list[float]) -> None:
    assert consistency(values) is None


@given(RUNS)
def test_spread_lowers_the_mean(values: list[float]) -> None:
    mean = statistics.fmean(values)
    found = consistency(values)
    assert found is not None and 0 <= found <= mean + 1e-12
    assert found == pytest.approx(mean / (1 + statistics.pstdev(values)))
    assert consistency([mean] * len(values)) == pytest.approx(mean)


@given(RUNS, st.floats(0, 1))
def test_of_two_systems_with_one_mean_the_steadier_is_ahead(values: list[float], shrink: float) -> None:
    mean = statistics.fmean(values)
    steadier = consistency([mean + shrink * (value - mean) for value in values])
    assert steadier is not None and steadier >= (consistency(values) or 0) - 1e-12
