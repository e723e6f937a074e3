"""Gold answers in texts: found as whole words, by any spelling that differs in case, marks and articles alone."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.stages.gold_answers import answer_words, contains_answer

words = st.lists(st.text("abtheXY09é", min_size=1, max_size=6), min_size=1, max_size=5)


def squad_normalised(text: str) -> list[str]:
    """The evaluation script of SQuAD 1.1, its steps in their order."""
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


@given(words)
def test_without_marks_words_are_those_of_squads_script(listed: list[str]) -> None:
    assert answer_words(" ".join(listed)) == squad_normalised(" ".join(listed))


@given(words, words, words)
def test_an_answer_is_found_wherever_it_stands(before: list[str], gold: list[str], after: list[str]) -> None:
    text = " ".join([*before, "(" + " ".join(gold).upper() + "),", *after])
    assert contains_answer(text, ["never said at all", " ".join(gold)]) == bool(answer_words(" ".join(gold)))


@pytest.mark.parametrize(
    "text, gold, found",
    [
        ("It was the year 1992.", ["1992"], True),
        ("It cost 21992 dollars.", ["1992"], False),
        ("A tower of 2,579 steps", ["2,579 steps"], True),
        ("Jean-Paul Sartre wrote it.", ["Jean Paul Sartre"], True),
        ("The Who sang it.", ["the who"], True),
        ("Anything", [], False),
        ("Anything at all", ["the", "?"], False),
    ],
)
def test_examples(text: str, gold: list[str], found: bool) -> None:
    assert contains_answer(text, gold) is found
