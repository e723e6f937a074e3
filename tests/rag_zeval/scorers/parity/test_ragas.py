"""Our ragas_* against ragas 0.4.3 on the decisions that record_ragas.py gave it: both of its implementations."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from rag_zeval.models.embeddings import cosine
from rag_zeval.scorers import ragas


def replies(made: ModuleType, instance: dict[str, Any]) -> dict[str, Any]:
    """The instance's decisions as a judge with our prompts spells them."""
    decisions = instance["decisions"]
    guesses = iter(decisions["guesses"])

    def judged(key: str, row: list[int]) -> str:
        return json.dumps([{"statement": "one", "reason": "so", key: one} for one in made.as_given(instance, row)])

    def statements(given: dict[str, Any]) -> str:
        claims = decisions[f"{made.whose(instance, given['answer'])}_claims"]
        return json.dumps({"statements": list(map(made.statement, claims))})

    def verdicts(given: dict[str, Any]) -> str:
        inferred = made.decided(decisions["answer_claims"], decisions["inferred"])
        return judged("verdict", [inferred[one] for one in given["statements"]])

    def useful_chunk(given: dict[str, Any]) -> str:
        useful = decisions[f"useful_for_{made.whose(instance, given['answer'])}"]
        return json.dumps({"reason": "so", "verdict": useful[instance["chunks"].index(given["context"])]})

    def correctness(given: dict[str, Any]) -> str:
        correct = made.decided(decisions["answer_claims"], decisions["correct"])
        missing = made.decided(decisions["truth_claims"], decisions["missing"])
        lists: dict[str, list[dict[str, str]]] = {"TP": [], "FP": [], "FN": []}
        for one in made.as_given(instance, given["answer"]):
            lists["TP" if correct[one] == "Entailment" else "FP"].append({"statement": one, "reason": "so"})
        lists["FN"] = [{"statement": one, "reason": "so"} for one in given["ground_truth"] if missing[one]]
        return json.dumps(lists)

    return {
        "ragas_statements": statements,
        "ragas_verdicts": verdicts,
        "ragas_question": lambda given: json.dumps(next(guesses)),
        "ragas_useful_chunk": useful_chunk,
        "ragas_attributed": lambda given: judged("attributed", decisions["attributed"]),
        "ragas_correctness": correctness,
    }


@pytest.fixture
def ragas_recorded(recorded: Callable[..., Any], made: ModuleType) -> Any:
    return recorded("ragas", lambda instance: replies(made, instance))


@pytest.fixture
def differences(made: ModuleType, difference: Any) -> dict[str, dict[str, Any]]:
    """By measure and kind of instance; the faults as docs/scorers.md names them."""

    def weighted(f1: float, instance: dict[str, Any]) -> float:
        vectors = instance["decisions"]["vectors"]
        similarity = cosine(vectors[instance["answer"]], vectors[instance["truth"]])
        assert similarity is not None
        return 0.75 * f1 + 0.25 * similarity

    def f1_of_what_came(instance: dict[str, Any]) -> float:
        decisions = instance["decisions"]
        tp_or_fp = made.as_given(instance, decisions["correct"])
        tp, fn = tp_or_fp.count("Entailment"), sum(decisions["missing"])
        return weighted(2 * tp / (len(tp_or_fp) + tp + fn), instance)

    def share_of_what_came(instance: dict[str, Any]) -> float:
        verdicts: list[int] = made.as_given(instance, instance["decisions"]["inferred"])
        return sum(verdicts) / len(verdicts)

    came = "divides by the number of verdicts that came"
    empty = "gives texts without statements a correctness"
    match = "its newer classes take a text without statements for a match in full"
    none_of_ours, none_of_theirs = "no statements in the answer", "no statements in the ground truth"
    correctness = {
        "answer without claims": difference(empty, lambda one: weighted(0, one), none_of_ours),
        "ground truth without claims": difference(empty, f1_of_what_came, none_of_theirs),
        "no claims at all": difference(empty, lambda one: weighted(1, one), none_of_ours),
        **{kind: difference(came, f1_of_what_came, " statements in the answer and ") for kind in made.MISCOUNTED},
    }
    newer_correctness = {
        **correctness,
        "answer without claims": difference(match, lambda one: weighted(1, one), none_of_ours),
        "ground truth without claims": difference(match, lambda one: weighted(1, one), none_of_theirs),
    }
    faithfulness = {kind: difference(came, share_of_what_came, " judgements of ") for kind in made.MISCOUNTED}
    return {
        "ragas_faithfulness": faithfulness,
        "ragas_faithfulness (collections)": faithfulness,
        "ragas_answer_correctness": correctness,
        "ragas_answer_correctness (collections)": newer_correctness,
    }


NAMES = [f"{measure.name}{newer}" for measure in ragas.MEASURES for newer in ("", " (collections)")]


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_ragas_but_for_its_listed_faults(
    name: str, ragas_recorded: Any, differences: dict[str, Any]
) -> None:
    ragas_recorded.compare(name, differences.get(name, {}))


def test_all_of_ours_were_recorded_on_all_instances(ragas_recorded: Any, made: ModuleType) -> None:
    assert set(ragas_recorded.scores) == set(NAMES)
    assert ragas_recorded.instances == [*made.make_instances(), *made.make_claims()]
