"""TruLens' triad by a judge in this process: its formula, its calls in order, and what it does with bad replies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_by_prompt import JudgeByPrompt

from rag_zeval.judge.example import Example
from rag_zeval.scorers.sentences import sentences_of
from rag_zeval.scorers.trulens import normalised_mean

ANSWER = "Hello! Ada wrote it in 1843. Dr. Babbage paid her, e.g. in gold. I do not know more."
EXAMPLE = Example("x", "Who wrote it?", "Ada wrote it in 1843.", (ANSWER,), chunks=("one", "two", "three"))


def said(score: Any) -> Any:
    return {"criteria": "so", "supporting_evidence": "so", "score": score}


def by_statement(inputs: dict[str, Any]) -> Any:
    return said({"Ada wrote it in 1843.": 3, "Dr. Babbage paid her, e.g. in gold.": 1}.get(inputs["statement"], 3))


def test_groundedness_is_the_mean_of_the_sentences_that_are_kept() -> None:
    judge = JudgeByPrompt({"trulens_substantive": {"keep": [4, 2, 3]}, "trulens_groundedness": by_statement})
    scored = judge.score("trulens_groundedness", EXAMPLE)
    assert scored.values == (pytest.approx((3 + 1 + 3) / 9),)
    assert judge.prompts == [["trulens_substantive"], ["trulens_groundedness"] * 3] and judge.temperatures == {0}
    (first, *checks) = [inputs for _, inputs in judge.asked]
    kept = ["Ada wrote it in 1843.", "Dr. Babbage paid her, e.g. in gold.", "I do not know more."]
    assert list(first["sentences"].values()) == ["Hello!", *kept]
    assert [check["statement"] for check in checks] == kept
    assert {check["source"] for check in checks} == {EXAMPLE.reference}
    assert scored.parts["answers"][0]["sentences"] == kept and scored.parts["answers"][0]["scores"] == [3, 1, 3]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.randoms())
def test_the_normalised_mean_rises_from_0_to_1_with_every_score(scores: list[int], random: Any) -> None:
    value = normalised_mean(scores)
    assert min(scores) / 3 <= value + 1e-9 and value <= max(scores) / 3 + 1e-9
    at = random.randrange(len(scores))
    if scores[at] < 3:
        more = [*scores[:at], scores[at] + 1, *scores[at + 1 :]]
        assert normalised_mean(more) - value == pytest.approx(1 / (3 * len(scores)))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Steps: 1. Go in. 2. Sit down.", ["Steps: 1.", "Go in.", "Sit down."]),
        ("It was then. 1879.", ["It was then.", "1879."]),  # an answer, not a mark
        ("42", ["42"]),
        ("Mr. Fox paid $3.50. He left! Why?", ["Mr. Fox paid $3.50.", "He left!", "Why?"]),
        ("", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences


@given(st.text("ab1. \n!?", max_size=40))
def test_no_sentence_is_lost_but_list_marks(text: str) -> None:
    found = sentences_of(text)
    letters = [char for char in text if char in "ab"]
    assert [char for sentence in found for char in sentence if char in "ab"] == letters
    assert bool(found) == bool(text.strip())
