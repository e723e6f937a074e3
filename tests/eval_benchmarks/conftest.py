from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.judge.prompt import INPUTS, find_variant
from rag_zeval.scripted_judge import SPOILED, ScriptedJudge
from rag_zeval.stages import world


@pytest.fixture
def write_wikieval(tmp_path: Path) -> Any:
    """Appends rows to data/wikieval/<name>; the data folder."""

    def write(*rows: dict[str, Any], name: str = "rows.jsonl") -> Path:
        path = tmp_path / "data" / "wikieval" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / "data"

    return write


class NanoJudge:
    """Judges the nano world as a scripted judge's replies; the model's name says how.

    perfect: the truth; yes: everything is supported; fenced: the truth inside a Markdown fence; prose: no JSON;
    refusing: HTTP 400.
    """

    def __init__(self, truth: dict[str, Any], server: ScriptedJudge) -> None:
        self.truth, self.server = truth, server
        self.as_perfect: set[str] = set()
        server.replies = self.reply

    @property
    def asked(self) -> Counter[str]:
        return Counter(request["model"] for request in self.server.requests)

    def spec(self, model: str) -> str:
        return self.server.spec(model)

    def reply(self, body: dict[str, Any]) -> str | dict[str, Any]:
        model = "perfect" if body["model"] in self.as_perfect else body["model"]
        if model == "refusing":
            return {"status": 400, "body": {"error": {"message": "not today"}}}
        before, after = find_variant("compact").template.split(INPUTS)
        inputs = json.loads(body["messages"][0]["content"][len(before) : -len(after) or None])
        facts = self.truth[inputs["reference"]]
        text = json.dumps([self.judged(id_, text, facts, model) for id_, text in inputs["candidates"].items()])
        return {"fenced": SPOILED["fenced"](text), "prose": "They are all fine."}.get(model, text)

    def judged(self, id_: str, text: str, facts: Any, model: str) -> dict[str, Any]:
        sentences = [f"{part.rstrip('.')}." for part in text.split(". ")]
        claims = [
            {
                "claim": claim,
                "is_supported": model == "yes" or world.claim_is_true(claim, facts) is True,
                "grounding_evidence": ["quoted"],
                "analysis": "so",
            }
            for claim in sentences
        ]
        return {"id": id_, "atomic_claims": claims}


NANO = {"n": 12, "seed_ranked": 1, "seed_pairs": 2}


@pytest.fixture
def judge_server(scripted_judge: ScriptedJudge) -> NanoJudge:
    ranked = [
        example
        for k, seed in ((4, NANO["seed_ranked"]), (2, NANO["seed_pairs"]))
        for example in world.ranked_examples("test", NANO["n"], k, seed)
    ]
    return NanoJudge({example.question.passage: example.question.facts for example in ranked}, scripted_judge)


@pytest.fixture
def nano_words() -> list[str]:
    """The command line words of a nano_eval on the examples that `judge_server` knows."""
    return [
        "benchmarks=[nano_eval]",
        "nano_eval.variant=compact",
        *(f"nano_eval.{key}={value}" for key, value in NANO.items()),
    ]
