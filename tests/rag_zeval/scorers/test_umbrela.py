"""UMBRELA's grades and what is made of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_by_prompt import JudgeByPrompt

from rag_zeval.judge.example import Example
from rag_zeval.scorers import umbrela

GRADES = [1, 3, 0, 2, 2, 1]
EXAMPLE = Example("1", "Which?", "r", ("an answer",), chunks=tuple(f"{n} grade {g}" for n, g in enumerate(GRADES)))

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


@pytest.mark.parametrize("name", [measure.name for measure in umbrela.MEASURES])
def test_values_and_calls_are_those_worked_out_by_hand(name: str) -> None:
    judge = JudgeByPrompt({"umbrela": lambda inputs: {"M": 0, "T": 0, "O": int(inputs["passage"][-1])}})
    scored = judge.score(name, EXAMPLE)
    value, calls = BY_HAND[name]
    assert scored.values == (pytest.approx(value),) and scored.calls == calls and judge.temperatures == {0}
    assert {inputs["question"] for _, inputs in judge.asked} == {"Which?"}
    assert sorted(inputs["passage"] for _, inputs in judge.asked) == [*EXAMPLE.chunks[:calls]]
    assert scored.parts["answers"][0] == {"grades": GRADES[:calls]}


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
