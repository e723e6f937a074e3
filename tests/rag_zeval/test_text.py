"""How numbers are written for people."""

from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.text import percent


@given(st.integers(1, 100_000), st.data())
def test_only_all_is_a_hundred_percent_and_only_none_is_zero(cases: int, data: st.DataObject) -> None:
    scored = data.draw(st.integers(0, cases) | st.sampled_from([0, 1, cases - 1, cases]))
    number = float(percent(scored / cases).removesuffix("%"))
    assert abs(number - 100 * scored / cases) <= 0.05
    assert (number == 100, number == 0) == (scored == cases, scored == 0)
