"""The short form: every mode that neither waits nor floods meets the evaluator, some the real commands."""

from __future__ import annotations

import json
import random
from typing import Any

import hostile_http
import pytest
from hostile_modes import MODES
from hostile_server import shows_key

from rag_zeval.judge.evaluator import Evaluator
from rag_zeval.judge.example import Example
from rag_zeval.literal_judge import literal_reply
from rag_zeval.models.open import open_backend

KEY = "sk-canary+0123456789/abcdefghijklmnopqrstuvwxyz"
ANSWERS = ("It is so. It is bad. It is odd.", "It is good.")
EXAMPLES = [Example(str(n), f"question {n}", "It is so. It is good.", ANSWERS[: 1 + n % 2]) for n in range(20)]
SCORES = [1 / 3, 1.0]  # a text that says otherwise has others
LIMITS: Any = {"timeout": 2, "connect_timeout": 2, "max_body_mib": 1, "concurrency": 8}
LIGHT = [mode for mode in MODES if not hostile_http.HEAVY.search(mode)]
random.Random(0).shuffle(LIGHT)


@pytest.mark.parametrize("modes", [LIGHT[at : at + 10] for at in range(0, len(LIGHT), 10)])
def test_no_mode_makes_a_score_up_or_harms_another_row(hostile: Any, monkeypatch: Any, modes: list[str]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    hostile.honest = literal_reply
    met = dict(zip(range(0, 20, 2), modes, strict=False))
    hostile.mix(met)
    for evaluation in Evaluator(open_backend(f"openai:judge@{hostile.url}", **LIMITS)).evaluate_many(EXAMPLES):
        mode, scores = met.get(int(evaluation.id), "good"), evaluation.scores
        assert scores in (SCORES[: len(scores)], [None] * len(scores)), mode
        assert (None in scores) == evaluation.status.startswith("failed: "), mode
        assert mode != "good" or None not in scores, evaluation.status
        assert evaluation.status.isprintable(), mode
        assert not shows_key(json.dumps(vars(evaluation), default=str).encode(), KEY), mode
    assert hostile.elsewhere == 0


def test_the_real_commands_meet_some_modes() -> None:
    keys = ["the key in an error", "the key in a reply", "the key escaped in a reply", "the key in a page"]
    modes = [*keys, "307 elsewhere", "usage of 5,000 digits", "two answers at once"]
    findings = hostile_http.run(modes, ("evaluate", "bench"))
    assert findings.faults == []
    assert findings.counts["modes x commands"] == 2 * len(modes) and findings.counts["commands run"] == 6
    findings = hostile_http.run(["the key in an error", "two answers at once"], ("questions", "collect", "smoke"))
    assert findings.faults == []
    assert findings.counts["modes x commands"] == 6
