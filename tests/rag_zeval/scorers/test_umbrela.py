"""UMBRELA's grades and what is made of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.evaluator import Example
from rag_zeval.scorers import umbrela

GRADES = [1, 3, 0, 2, 2, 1]
EXAMPLE = Example("1", "Which?", "r", ("an answer",), chunks=tuple(f"{n} grade {g}" for n, g in enumerate(GRADES)))


def reply(prompt: str, given: dict[str, Any]) -> Any:
    grade = int(given["passage"][-1])
    assert (prompt, given["question"]) == ("umbrela", "Which?")
    return {"intent": "to know", "M": 3 - grade, "T": 3 - grade, "O": grade}


BY_HAND = {  # relevant: 0 1 0 1 1 0
    "umbrela": (9 / 6, 6),
    "umbrela_precision_at_1": (0, 1),
    "umbrela_precision_at_3": (1 / 3, 3),
    "umbrela_precision_at_5": (3 / 5, 5),
    "umbrela_ap_at_1": (0, 1),
    "umbrela_ap_at_3": (1 / 2, 3),
    "umbrela_ap_at_5": ((1 / 2 + 2 / 4 + 3 / 5) / 3, 5),
    "umbrela_mrr": (1 / 2, 6),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_values_and_calls_are_those_worked_out_by_hand(name: str, plain_judge: Any, score_one: Any) -> None:
    judge = plain_judge(reply)
    one = score_one(name, judge, EXAMPLE)
    value, calls = BY_HAND[name]
    assert one.values == (pytest.approx(value),) and one.calls == len(judge.asked) == calls
    assert one.parts["answers"][0] == {"grades": GRADES[:calls]}


def test_all_scores_and_all_answers_share_the_calls(plain_judge: Any, score_one: Any) -> None:
    judge = plain_judge(reply)
    two = Example("1", "Which?", "r", ("an answer", "another"), chunks=EXAMPLE.chunks)
    assert set(BY_HAND) == {measure.name for measure in umbrela.MEASURES}
    for name in BY_HAND:
        first, second = score_one(name, judge, two).values
        assert first == second
    assert len(judge.asked) == len(GRADES)


@pytest.mark.parametrize("name", ["umbrela_precision_at_3", "umbrela_ap_at_3"])
def test_fewer_chunks_than_the_cut_give_no_score_and_no_calls(name: str, plain_judge: Any, score_one: Any) -> None:
    judge = plain_judge(reply)
    one = score_one(name, judge, Example("1", "Which?", "r", ("a",), chunks=EXAMPLE.chunks[:2]))
    assert one.values == (None,) and one.scores[0].status == "failed: 2 chunks, fewer than 3"
    assert not judge.asked


@pytest.mark.parametrize("said", [4, -1, 1.5, None, True, "high", [2], ""])
def test_what_is_no_grade_is_no_score(said: Any, plain_judge: Any, score_one: Any) -> None:
    one = score_one("umbrela", plain_judge(lambda *_: {"M": 2, "T": 2, "O": said}), EXAMPLE)
    assert one.values == (None,) and "is none of 0, 1, 2, 3" in one.scores[0].status


def test_a_bare_number_is_no_reply(plain_judge: Any, score_one: Any) -> None:
    one = score_one("umbrela", plain_judge(lambda *_: "2"), EXAMPLE)
    assert one.values == (None,) and one.scores[0].status == "failed: umbrela: no JSON in the reply '2'"


@pytest.mark.parametrize("name", ["umbrela", "umbrela_mrr"])
def test_spoiled_replies_make_no_wrong_score(name: str, check_faults: Any) -> None:
    check_faults(name, reply, EXAMPLE)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_what_is_made_of_grades_agrees(grades: list[int]) -> None:
    useful = umbrela.relevant(grades)
    assert umbrela.precision(grades) == sum(grade >= 2 for grade in grades) / len(grades)
    assert umbrela.mean_grade(sorted(grades)) == umbrela.mean_grade(grades)
    best = sorted(grades, reverse=True)
    assert umbrela.ranked_precision(best) == umbrela.reciprocal_rank(best) == float(any(useful))
    assert umbrela.reciprocal_rank(grades) <= umbrela.reciprocal_rank(best)
    assert umbrela.ranked_precision(grades) <= umbrela.ranked_precision(best)
    if any(useful):
        assert umbrela.reciprocal_rank(grades) * (useful.index(True) + 1) == 1
