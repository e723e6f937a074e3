import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rag_zeval.collect.latencies import print_latencies, quantile_interval


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=300), st.sampled_from([0.05, 0.5, 0.9, 0.95]))
def test_the_interval_is_that_of_scipy(values: list[float], p: float) -> None:
    theirs = stats.quantile_test(values, p=p).confidence_interval(0.95)
    assert quantile_interval(values, p) == tuple(None if math.isnan(end) else end for end in theirs)


def test_an_end_is_missing_until_there_are_enough_values_for_it() -> None:
    ends = {n: quantile_interval(range(n), 0.95)[1] for n in (71, 72)}
    assert ends == {71: None, 72: 71}
    assert quantile_interval([1.0], 0.5) == (None, None)


def test_slices_are_named_as_in_every_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_latencies([{"slice_tag": tag, "latency_s": 1.0} for tag in ("all", "", None, "x")])
    lines = [line.split("│")[1:3] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in line] for line in lines] == [
        ["all", "4"], ["(none)", "2"], ["all (slice)", "1"], ["x", "1"],
    ]  # fmt: skip


@pytest.mark.parametrize("p", [0.5, 0.95])
def test_it_stays_exact_for_many_values(p: float) -> None:
    low, high = quantile_interval(range(100_000), p)
    theirs = stats.quantile_test(range(100_000), p=p).confidence_interval(0.95)
    assert (low, high) == (theirs.low, theirs.high)
