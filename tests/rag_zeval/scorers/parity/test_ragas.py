"""Our ragas_* against ragas 0.4.3 on the decisions that record_ragas.py gave it: both of its implementations."""

from __future__ import annotations

from typing import Any

import pytest
from comparison import NEWER, Difference, Instance, Recorded
from instances import MISCOUNTED, as_given, decided, statement, whose

from rag_zeval.models.embeddings import cosine
from rag_zeval.scorers import ragas


def replies(instance: Instance) -> dict[str, Any]:
    """The instance's decisions as a judge with our prompts spells them."""
    decisions = instance["decisions"]
    guesses = iter(decisions["guesses"])

    def judged(key: str, row: list[int]) -> Any:
        return [{"statement": "one", "reason": "so", key: one} for one in as_given(instance, row)]

    def statements(given: dict[str, Any]) -> Any:
        claims = decisions[f"{whose(instance, given['answer'])}_claims"]
        return {"statements": list(map(statement, claims))}

    def verdicts(given: dict[str, Any]) -> Any:
        inferred = decided(decisions["answer_claims"], decisions["inferred"])
        return judged("verdict", [inferred[one] for one in given["statements"]])

    def useful_chunk(given: dict[str, Any]) -> Any:
        useful = decisions[f"useful_for_{whose(instance, given['answer'])}"]
        return {"reason": "so", "verdict": useful[instance["chunks"].index(given["context"])]}

    def correctness(given: dict[str, Any]) -> Any:
        correct = decided(decisions["answer_claims"], decisions["correct"])
        missing = decided(decisions["truth_claims"], decisions["missing"])
        lists: dict[str, list[dict[str, str]]] = {"TP": [], "FP": [], "FN": []}
        for one in as_given(instance, given["answer"]):
            lists["TP" if correct[one] == "Entailment" else "FP"].append({"statement": one, "reason": "so"})
        lists["FN"] = [{"statement": one, "reason": "so"} for one in given["ground_truth"] if missing[one]]
        return lists

    return {
        "ragas_statements": statements,
        "ragas_verdicts": verdicts,
        "ragas_question": lambda given: next(guesses),
        "ragas_useful_chunk": useful_chunk,
        "ragas_attributed": lambda given: judged("attributed", decisions["attributed"]),
        "ragas_correctness": correctness,
    }


RECORDED = Recorded("ragas", replies)


def differences(name: str) -> dict[str, Difference]:
    """By instance; the faults as docs/scorers.md names them."""

    def weighted(f1: float, instance: Instance) -> float:
        vectors = instance["decisions"]["vectors"]
        similarity = cosine(vectors[instance["answer"]], vectors[instance["truth"]])
        assert similarity is not None
        return 0.75 * f1 + 0.25 * similarity

    def f1_of_what_came(instance: Instance) -> float:
        decisions = instance["decisions"]
        tp_or_fp = as_given(instance, decisions["correct"])
        tp, fn = tp_or_fp.count("Entailment"), sum(decisions["missing"])
        return weighted(2 * tp / (len(tp_or_fp) + tp + fn), instance)

    def share_of_what_came(instance: Instance) -> float:
        verdicts: list[int] = as_given(instance, instance["decisions"]["inferred"])
        return sum(verdicts) / len(verdicts)

    came = "divides by the number of verdicts that came"
    empty = "gives texts without statements a correctness"
    match = "its newer classes take a text without statements for a match in full"
    none_of_ours, none_of_theirs = "no statements in the answer", "no statements in the ground truth"
    correctness = {
        "answer without claims": (empty, lambda one: weighted(0, one), none_of_ours),
        "ground truth without claims": (empty, f1_of_what_came, none_of_theirs),
        "no claims at all": (empty, lambda one: weighted(1, one), none_of_ours),
        **dict.fromkeys(MISCOUNTED, (came, f1_of_what_came, " statements in the answer and ")),
    }
    newer_correctness = {
        **correctness,
        "answer without claims": (match, lambda one: weighted(1, one), none_of_ours),
        "ground truth without claims": (match, lambda one: weighted(1, one), none_of_theirs),
    }
    faithfulness = dict.fromkeys(MISCOUNTED, (came, share_of_what_came, " judgements, expected "))
    kinds = {
        "ragas_faithfulness": faithfulness,
        f"ragas_faithfulness{NEWER}": faithfulness,
        "ragas_answer_correctness": correctness,
        f"ragas_answer_correctness{NEWER}": newer_correctness,
    }
    return RECORDED.of_kinds(kinds.get(name, {}))


NAMES = [f"{measure.name}{newer}" for measure in ragas.MEASURES for newer in ("", NEWER)]


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_ragas_but_for_its_listed_faults(name: str) -> None:
    RECORDED.compare(name, differences(name))


def test_all_of_ours_were_recorded() -> None:
    assert set(RECORDED.scores) == set(NAMES)
