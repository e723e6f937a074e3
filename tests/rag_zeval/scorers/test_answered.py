"""Whether an answer tries to answer."""

from __future__ import annotations

from typing import Any

import pytest

from rag_zeval.judge.evaluator import Example

EXAMPLE = Example("1", "Which?", "r", ("That one.", "I cannot tell."))


def reply(prompt: str, given: dict[str, Any]) -> Any:
    assert (prompt, given["question"]) == ("answered", "Which?")
    return {"answered": "no" if "cannot" in given["answer"] else "yes"}


def test_one_call_an_answer_and_1_for_an_attempt(plain_judge: Any, score_one: Any) -> None:
    one = score_one("answered", plain_judge(reply), EXAMPLE)
    assert one.values == (1.0, 0.0) and one.calls == 2


@pytest.mark.parametrize("said", ["maybe", 0.5, None, 2])
def test_neither_yes_nor_no_is_no_score(said: Any, plain_judge: Any, score_one: Any) -> None:
    one = score_one("answered", plain_judge(lambda *_: {"answered": said}), EXAMPLE)
    assert one.values == (None, None) and "is neither 1 nor 0" in one.scores[0].status


@pytest.mark.parametrize("answer", EXAMPLE.answers)
def test_spoiled_replies_make_no_wrong_score(answer: str, check_faults: Any) -> None:
    check_faults("answered", reply, Example("1", "Which?", "r", (answer,)))
