"""Claims mapped back to the answer they were taken from."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_benchmarks.datasets.labelled.spans import overlap, unsupported_spans

ANSWER = "The Louvre stands in Paris. It was opened in 1793, and it holds the Mona Lisa of Leonardo."


def marked(*claims: tuple[str, bool], answer: str = ANSWER) -> list[str]:
    return [answer[start:end] for start, end in unsupported_spans(answer, claims)]


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([("The Louvre stands in Paris.", True)], []),
        ([("The Louvre stands in Paris.", False)], ["Louvre stands in Paris"]),
        # what a supported claim of the sentence says as well is not marked
        (
            [("The Louvre was opened in 1793.", False), ("The Louvre holds the Mona Lisa of Leonardo.", True)],
            ["opened in 1793"],
        ),
        ([("It holds the Mona Lisa.", True), ("The Mona Lisa is of Leonardo.", False)], ["Leonardo"]),
        # unless nothing of the claim were left
        ([("The Louvre stands in Paris.", True), ("Paris stands in the Louvre.", False)], ["Louvre stands in Paris"]),
        ([("Bananas are yellow.", False)], []),
        ([], []),
    ],
)
def test_unsupported_words_are_marked_in_the_nearest_sentence(claims: Any, expected: list[str]) -> None:
    assert marked(*claims) == expected


def test_words_of_the_answer_alone_end_a_run() -> None:
    assert marked(("It was red and new.", False), answer="It was red, large and new.") == ["red", "new"]


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: tuple(sorted(pair))), max_size=5)


@given(SPANS, SPANS)
def test_overlaps_count_each_character_once(found: Any, there: Any) -> None:
    def inside(spans: Any, at: int) -> bool:
        return any(start <= at < end for start, end in spans)

    expected = [
        sum(inside(found, at) and inside(there, at) for at in range(31)),
        sum(inside(found, at) for at in range(31)),
        sum(inside(there, at) for at in range(31)),
    ]
    assert list(overlap(found, there)) == expected


@given(st.text(max_size=80), st.lists(st.tuples(st.text(max_size=40), st.booleans()), max_size=4))
def test_spans_are_places_of_the_answer_in_order(answer: str, claims: Any) -> None:
    spans = unsupported_spans(answer, claims)
    assert all(0 <= start < end <= len(answer) for start, end in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
