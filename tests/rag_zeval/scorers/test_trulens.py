"""TruLens' triad by a judge in this process: its formula, its calls in order, and what it does with bad replies."""

from __future__ import annotations

from typing import Any

import pytest
from judge_by_prompt import JudgeByPrompt

from rag_zeval.judge.example import Example

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
