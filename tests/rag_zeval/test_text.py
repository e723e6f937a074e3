"""How numbers and command lines are written for people."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.text import percent, shell_word


@given(st.integers(1, 100_000), st.data())
def test_only_all_is_a_hundred_percent_and_only_none_is_zero(cases: int, data: st.DataObject) -> None:
    scored = data.draw(st.integers(0, cases) | st.sampled_from([0, 1, cases - 1, cases]))
    number = float(percent(scored / cases).removesuffix("%"))
    assert abs(number - 100 * scored / cases) <= 0.05
    assert (number == 100, number == 0) == (scored == cases, scored == 0)


@given(st.text())
def test_a_shell_reads_a_quoted_text_as_one_word(text: str) -> None:
    assert shlex.split(shell_word(text)) == [text]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("question=Вопрос", "question=Вопрос"),
        ("question=Cuestión", "question=Cuestión"),
        ("answer=Model Answer", '"answer=Model Answer"'),
        ("answer=it's", '"answer=it\'s"'),
        ("contexts=doc_*", '"contexts=doc_*"'),
        ("answer=$x", "'answer=$x'"),
        ("answer=Nice!", "'answer=Nice!'"),
    ],
)
def test_quotation_marks_are_only_where_needed_and_double_if_every_shell_takes_them(text: str, word: str) -> None:
    assert shell_word(text) == word
