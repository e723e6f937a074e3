"""The short form: every mode that neither waits nor floods meets the evaluator, some the real commands."""

import json
import random
from typing import Any

import hostile_http
import pytest
from commands import run_here
from hostile_modes import MODES
from spelt_keys import shown

from rag_zeval.judge.evaluator import Evaluator
from rag_zeval.judge.example import Example
from rag_zeval.literal_judge import literal_reply
from rag_zeval.models.open import open_backend

KEY = "sk-canary+0123456789/abcdefghijklmnopqrstuvwxyz"
ANSWERS = ("It is so. It is bad. It is odd.", "It is good.")
SCORES = [1 / 3, 1.0]  # a text that says otherwise has others
LIMITS: Any = {"timeout": 2, "connect_timeout": 2, "max_body_mib": 1, "concurrency": 8}
LIGHT = [mode for mode in MODES if not hostile_http.HEAVY.search(mode)]
random.Random(0).shuffle(LIGHT)
TOGETHER = 40  # modes at one server, each for another row, with a good row behind each


@pytest.mark.parametrize("modes", [LIGHT[at : at + TOGETHER] for at in range(0, len(LIGHT), TOGETHER)])
def test_no_mode_makes_a_score_up_or_harms_another_row(hostile: Any, monkeypatch: Any, modes: list[str]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    hostile.honest = literal_reply
    met = dict(zip(range(0, 2 * TOGETHER, 2), modes, strict=False))
    hostile.mix(met)
    examples = [
        Example(str(n), f"question {n}", "It is so. It is good.", ANSWERS[: 1 + n % 2]) for n in range(2 * TOGETHER)
    ]
    for evaluation in Evaluator(open_backend(f"openai:judge@{hostile.url}", **LIMITS)).evaluate_many(examples):
        mode, scores = met.get(int(evaluation.id), "good"), evaluation.scores
        assert scores in (SCORES[: len(scores)], [None] * len(scores)), mode
        assert (None in scores) == evaluation.status.startswith("failed: "), mode
        assert mode != "good" or None not in scores, evaluation.status
        assert evaluation.status.isprintable(), mode
        assert not shown(json.dumps(vars(evaluation), default=str).encode(), KEY), mode
    assert hostile.elsewhere == 0


def test_the_real_commands_meet_some_modes(monkeypatch: Any) -> None:
    monkeypatch.setattr(hostile_http, "run_command", run_here)
    modes = ["the key in an error", "the key escaped in a reply", "307 elsewhere", "usage of 5,000 digits"]
    findings = hostile_http.run([*modes, "two answers at once"], ("evaluate", "bench", "questions", "collect"))
    assert findings.faults == []
    assert findings.counts["modes x commands"] == 19 and findings.counts["commands run"] == 12
    findings = hostile_http.run(modes[:1], ["smoke"])
    assert findings.faults == [] and findings.counts["commands run"] == 2
