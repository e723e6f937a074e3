"""What a judge says to ragas' own prompts, as was decided about an instance."""

from __future__ import annotations

import json
from typing import Any

from instances import as_given, decided, statement, whose


class Judge:
    """Answers a prompt of ragas with what was decided about one instance."""

    def __init__(self, instance: dict[str, Any]):
        self.instance, self.decisions = instance, instance["decisions"]
        self.guesses = iter(self.decisions["guesses"])

    def reply(self, prompt: str) -> dict[str, Any]:
        """The prompts end with their inputs as JSON, which say what is asked."""
        given = json.loads(prompt[prompt.rindex("\ninput: ") + len("\ninput: ") : prompt.rindex("\nOutput:")])
        if "statements" in given:
            inferred = decided(self.decisions["answer_claims"], self.decisions["inferred"])
            return {"statements": self.judged("verdict", [inferred[one] for one in given["statements"]])}
        if "ground_truth" in given:
            return self.classified(given["answer"], given["ground_truth"])
        if "context" in given and '"classifications"' in prompt:
            return {"classifications": self.judged("attributed", self.decisions["attributed"])}
        if "context" in given:
            useful = self.decisions[f"useful_for_{whose(self.instance, given['answer'])}"]
            return {"reason": "so", "verdict": useful[self.instance["chunks"].index(given["context"])]}
        if "response" in given:
            return next(self.guesses)
        return {"statements": list(map(statement, self.decisions[f"{whose(self.instance, given['answer'])}_claims"]))}

    def judged(self, key: str, row: list[int]) -> list[dict[str, Any]]:
        return [{"statement": "one", "reason": "so", key: one} for one in as_given(self.instance, row)]

    def classified(self, ours: list[str], theirs: list[str]) -> dict[str, Any]:
        correct = decided(self.decisions["answer_claims"], self.decisions["correct"])
        missing = decided(self.decisions["truth_claims"], self.decisions["missing"])
        judged = as_given(self.instance, ours)
        lists = {
            "TP": [one for one in judged if correct[one] == "Entailment"],
            "FP": [one for one in judged if correct[one] != "Entailment"],
            "FN": [one for one in theirs if missing[one]],
        }
        return {key: [{"statement": one, "reason": "so"} for one in lists[key]] for key in lists}
