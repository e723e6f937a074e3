import json
from typing import Any

import pytest
from scripted_backend import ScriptedBackend

import rag_zeval
from rag_zeval import Evaluation, Evaluator, assert_supported


def evaluation(*answers: list[bool], reply: str | None = None) -> Evaluation:
    """What a judge says of answers whose claims have these verdicts."""

    def claim(at: int, held: bool) -> dict[str, Any]:
        return {"claim": f"Claim {at}.", "is_supported": held, "grounding_evidence": [], "analysis": f"Reason {at}."}

    said = [
        {"id": "ABC"[number], "answer": "a", "atomic_claims": [claim(at, held) for at, held in enumerate(verdicts)]}
        for number, verdicts in enumerate(answers)
    ]
    judge = Evaluator(ScriptedBackend([json.dumps(said) if reply is None else reply]))
    return judge.evaluate("Why?", "It is so.", [f"Answer {at}." for at in range(max(1, len(answers)))])


def test_an_answer_with_enough_support_passes() -> None:
    assert_supported(evaluation([True] * 4 + [False]))
    assert_supported(evaluation([True], [True, False]), at_least=0.5)
    assert rag_zeval.assert_supported is assert_supported


def test_the_message_names_the_claims_and_why_they_are_not_supported() -> None:
    with pytest.raises(AssertionError) as failed:
        assert_supported(evaluation([True], [True, False, False]))
    lines = str(failed.value).splitlines()
    assert lines == [
        "answer B: 1 of 3 claims supported, 0.333333 < 0.8",
        "    not supported: Claim 1. (Reason 1.)",
        "    not supported: Claim 2. (Reason 2.)",
    ]
    with pytest.raises(AssertionError, match=r"2 of 3 claims supported, 0\.666667 < 0\.67"):  # not 0.67 < 0.67
        assert_supported(evaluation([True, True, False]), at_least=0.67)


def test_an_answer_without_a_score_fails_with_its_status() -> None:
    for judged, status in ((evaluation(reply="I refuse."), "failed: format: "), (evaluation([]), "it makes no claims")):
        with pytest.raises(AssertionError, match=f"answer A has no score: {status}"):
            assert_supported(judged, at_least=0)


@pytest.mark.parametrize("at_least", [-0.1, 80, float("nan")])
def test_a_share_beyond_0_and_1_is_refused(at_least: float) -> None:
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        assert_supported(evaluation([True]), at_least)
