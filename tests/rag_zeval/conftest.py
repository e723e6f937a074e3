from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rag_zeval.scripted_judge import ScriptedJudge


def judge_reply(n: int, supported: bool = True) -> str:
    """A well-formed reply of the "paper" variant: one claim for each of n candidates."""
    claim = {"claim": "It is so.", "is_supported": supported, "grounding_evidence": ["It is so."], "analysis": "Clear."}
    return json.dumps([{"id": "ABCD"[i], "answer": "a", "atomic_claims": [claim]} for i in range(n)])


@pytest.fixture
def endpoint(scripted_judge: ScriptedJudge) -> ScriptedJudge:
    scripted_judge.replies = judge_reply(1)
    return scripted_judge


@pytest.fixture
def reply_text() -> Callable[..., str]:
    return judge_reply
