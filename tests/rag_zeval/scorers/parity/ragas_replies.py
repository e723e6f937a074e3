"""What a judge says to the questions of ragas, as was decided about an instance: to its own prompts and to ours."""

import json
from typing import Any

from instances import as_given, decided, statement, whose


class Judge:
    """Answers with what was decided about one instance."""

    def __init__(self, instance: dict[str, Any]):
        self.instance, self.decisions = instance, instance["decisions"]
        self.guesses = iter(self.decisions["guesses"])

    def reply(self, prompt: str) -> dict[str, Any]:
        """To a prompt of ragas. They end with their inputs as JSON, which say what is asked."""
        given = json.loads(prompt[prompt.rindex("\ninput: ") + len("\ninput: ") : prompt.rindex("\nOutput:")])
        if "statements" in given:
            return {"statements": self.verdicts(given)}
        if "ground_truth" in given:
            return self.classified(given)
        if "context" in given:
            return {"classifications": self.attributed(given)} if '"classifications"' in prompt else self.useful(given)
        return self.guess(given) if "response" in given else self.statements(given)

    def replies(self) -> dict[str, Any]:
        """To our prompts."""
        return {
            "ragas_statements": self.statements,
            "ragas_verdicts": self.verdicts,
            "ragas_question": self.guess,
            "ragas_useful_chunk": self.useful,
            "ragas_attributed": self.attributed,
            "ragas_correctness": self.classified,
        }

    def statements(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"statements": list(map(statement, self.decisions[f"{whose(self.instance, given['answer'])}_claims"]))}

    def verdicts(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        inferred = decided(self.decisions["answer_claims"], self.decisions["inferred"])
        return self._judged("verdict", [inferred[one] for one in given["statements"]])

    def guess(self, given: dict[str, Any]) -> dict[str, Any]:
        return next(self.guesses)

    def useful(self, given: dict[str, Any]) -> dict[str, Any]:
        useful = self.decisions[f"useful_for_{whose(self.instance, given['answer'])}"]
        return {"reason": "so", "verdict": useful[self.instance["chunks"].index(given["context"])]}

    def attributed(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        return self._judged("attributed", self.decisions["attributed"])

    def classified(self, given: dict[str, Any]) -> dict[str, Any]:
        correct = decided(self.decisions["answer_claims"], self.decisions["correct"])
        missing = decided(self.decisions["truth_claims"], self.decisions["missing"])
        judged = as_given(self.instance, given["answer"])
        lists = {
            "TP": [one for one in judged if correct[one] == "Entailment"],
            "FP": [one for one in judged if correct[one] != "Entailment"],
            "FN": [one for one in given["ground_truth"] if missing[one]],
        }
        return {key: [{"statement": one, "reason": "so"} for one in lists[key]] for key in lists}

    def _judged(self, key: str, row: list[int]) -> list[dict[str, Any]]:
        return [{"statement": "one", "reason": "so", key: one} for one in as_given(self.instance, row)]
