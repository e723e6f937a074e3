"""Our ragchecker_* against ragchecker 0.1.9 (refchecker 0.2.17) on the decisions that record_ragchecker.py gave it."""

from __future__ import annotations

from typing import Any

import pytest
from comparison import Difference, Instance, Recorded
from instances import MISCOUNTED, as_given, labels, statement, whose

from rag_zeval.scorers import ragchecker

MEASURES = [measure.name for measure in ragchecker.MEASURES]
OF_ANSWER = "precision f1 faithfulness hallucination self_knowledge"  # whose claims a measure is about
OF_TRUTH = "recall f1 claim_recall context_precision context_utilization"
OF_BOTH = "noise_sensitivity_in_relevant noise_sensitivity_in_irrelevant"


def replies(instance: Instance) -> dict[str, Any]:

    def check(given: dict[str, Any]) -> Any:
        known = labels(instance, given["reference"])
        return as_given(instance, [known[statement(claim)] for claim in given["claims"]])

    return {
        "ragchecker_claims": lambda given: instance["decisions"][f"{whose(instance, given['text'])}_claims"],
        "ragchecker_check": check,
    }


RECORDED = Recorded("ragchecker", replies)


def padded_and_cut(instance: Instance) -> dict[str, list[list[bool]]]:
    """What refchecker takes a judge's lists of another length for, five claims a call."""

    def row(judged: list[str]) -> list[bool]:
        taken: list[str] = []
        for at in range(0, len(judged), 5):
            asked = judged[at : at + 5]
            taken += [*as_given(instance, asked), "Neutral"][: len(asked)]
        return [label == "Entailment" for label in taken]

    decisions = instance["decisions"]
    return {
        "correct": [row(decisions["correct"])],
        "recalled": [row(decisions["recalled"])],
        "supported": [row(judged) for judged in decisions["supported"]],
        "retrieved": [row(judged) for judged in decisions["retrieved"]],
    }


def differences(measure: str) -> dict[str, Difference]:
    name = measure.removeprefix("ragchecker_")

    def of_what_came(instance: Instance) -> float:
        return ragchecker.value_of(name, padded_and_cut(instance))

    padded = "pads missing labels with Neutral and cuts extra ones"
    empty = "gives 0 to an answer or a ground truth without claims"
    no_answer = (empty, lambda instance: 0.0, "no claims in the answer")
    no_truth = (empty, lambda instance: 0.0, "no claims in the ground truth")
    about_answer, about_truth = (name in f"{of} {OF_BOTH}".split() for of in (OF_ANSWER, OF_TRUTH))
    return RECORDED.of_kinds(
        {
            **dict.fromkeys(MISCOUNTED, (padded, of_what_came, "expected ")),
            **({"answer without claims": no_answer} if about_answer else {}),
            **({"ground truth without claims": no_truth} if about_truth else {}),
            "no claims at all": no_answer if about_answer else no_truth,
        }
    )


@pytest.mark.parametrize("measure", MEASURES)
def test_scores_are_those_of_ragchecker_but_for_its_listed_faults(measure: str) -> None:
    RECORDED.compare(measure, differences(measure))


def test_all_of_ours_were_recorded() -> None:
    assert set(RECORDED.scores) == set(MEASURES)
