"""TruLens' triad by a judge in this process: its formula, its calls in order, and what it does with bad replies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.evaluator import Example
from rag_zeval.models.language_model import Reply
from rag_zeval.scorers.sentences import sentences_of
from rag_zeval.scorers.trulens import normalised_mean

ANSWER = "Hello! Ada wrote it in 1843. Dr. Babbage paid her, e.g. in gold. I do not know more."
EXAMPLE = Example("x", "Who wrote it?", "Ada wrote it in 1843.", (ANSWER,), chunks=("one", "two", "three"))


def said(score: Any, evidence: Any = "so") -> str:
    return json.dumps({"criteria": "so", "supporting_evidence": evidence, "score": score})


def by_statement(inputs: dict[str, Any]) -> str:
    return said({"Ada wrote it in 1843.": 3, "Dr. Babbage paid her, e.g. in gold.": 1}.get(inputs["statement"], 3))


def test_groundedness_is_the_mean_of_the_sentences_that_are_kept(judge_by_prompt: Any) -> None:
    judge = judge_by_prompt({"trulens_substantive": '{"keep": [4, 2, 3]}', "trulens_groundedness": by_statement})
    scored = judge.score("trulens_groundedness", EXAMPLE)
    assert scored.values == (pytest.approx((3 + 1 + 3) / 9),)
    assert judge.prompts == [["trulens_substantive"], ["trulens_groundedness"] * 3] and judge.temperatures == {0}
    (first, *checks) = [inputs for batch in judge.rounds for _, inputs in batch]
    kept = ["Ada wrote it in 1843.", "Dr. Babbage paid her, e.g. in gold.", "I do not know more."]
    assert list(first["sentences"].values()) == ["Hello!", *kept]
    assert [check["statement"] for check in checks] == kept
    assert {check["source"] for check in checks} == {EXAMPLE.reference}
    assert scored.parts["answers"][0]["sentences"] == kept and scored.parts["answers"][0]["scores"] == [3, 1, 3]


@pytest.mark.parametrize("keep", ["[0]", "[5]", "[1.5]", "[true]", '["Hello!"]', "1", "null", "[null]"])
def test_only_sentences_of_the_answer_can_be_kept(keep: str, judge_by_prompt: Any) -> None:
    scored = judge_by_prompt({"trulens_substantive": f'{{"keep": {keep}}}'}).score("trulens_groundedness", EXAMPLE)
    assert scored.values == (None,) and scored.scores[0].status.startswith("failed: trulens_substantive: ")


def test_an_answer_with_nothing_to_check_has_no_score(judge_by_prompt: Any) -> None:
    judge = judge_by_prompt({"trulens_substantive": '{"keep": []}'})
    (score,) = judge.score("trulens_groundedness", EXAMPLE).scores
    assert (score.value, score.status) == (None, "failed: every sentence of the answer is trivial")
    assert judge.prompts == [["trulens_substantive"]]
    (score,) = judge.score("trulens_groundedness", Example("x", "?", "r", (" \n",))).scores
    assert (score.value, score.status) == (None, "failed: no sentences in the answer")


def test_each_chunk_is_scored_by_itself(judge_by_prompt: Any) -> None:
    scores = {"one": 3, "two": "0", "three": 2.0}
    judge = judge_by_prompt({"trulens_context_relevance": lambda inputs: said(scores[inputs["context"]])})
    assert judge.score("trulens_context_relevance", EXAMPLE).values == (pytest.approx(5 / 9),)
    assert judge.prompts == [["trulens_context_relevance"] * 3]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (said(4), "'4' is no number from 0 to 3"),
        (said(-1), "'-1' is no number from 0 to 3"),
        (said(1.5), "'1.5' is no whole number"),
        (said(True), "'True' is no number"),
        (said("high"), "JSON of another shape"),
        ('{"score": 2}', "JSON of another shape"),  # a score without its evidence
        ("Score: 2 of 3", "no JSON in the reply"),
        (said(3) + said(0), "2 different answers"),
        ("", "the reply is empty"),
        (Reply(said(3)[:-5], "truncated", 3, 9, calls=1), "reply cut off at 9 tokens"),
        (Reply(None, "failed: HTTP 500", calls=1), "HTTP 500"),
    ],
)
@pytest.mark.parametrize("measure", ["trulens_answer_relevance", "trulens_context_relevance", "trulens_groundedness"])
def test_one_score_that_cannot_be_read_leaves_no_value(
    measure: str, reply: Any, reason: str, judge_by_prompt: Any
) -> None:
    bad = {"three", "I do not know more.", ANSWER}

    def some(inputs: dict[str, Any]) -> Any:
        return reply if bad & {str(value) for value in inputs.values()} else said(3)

    replies = dict.fromkeys(["trulens_answer_relevance", "trulens_context_relevance", "trulens_groundedness"], some)
    judge = judge_by_prompt({**replies, "trulens_substantive": '{"keep": [1, 4]}'})
    (score,) = judge.score(measure, EXAMPLE).scores
    assert score.value is None and score.status.startswith("failed: ") and reason in score.status


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
        ("He said no. She left.", ["He said no.", "She left."]),
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
