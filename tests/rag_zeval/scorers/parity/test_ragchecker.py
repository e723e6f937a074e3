"""Our ragchecker_* against ragchecker 0.1.9 (refchecker 0.2.17) on the decisions that record_ragchecker.py gave it."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from rag_zeval.scorers import ragchecker

MEASURES = [measure.name for measure in ragchecker.MEASURES]
OF_ANSWER = "precision f1 faithfulness hallucination self_knowledge"  # whose claims a measure is about
OF_TRUTH = "recall f1 claim_recall context_precision context_utilization"
OF_BOTH = "noise_sensitivity_in_relevant noise_sensitivity_in_irrelevant"


def replies(made: ModuleType, instance: dict[str, Any]) -> dict[str, Any]:
    """The instance's decisions as a judge with our prompts spells them."""

    def check(given: dict[str, Any]) -> str:
        known = made.labels(instance, given["reference"])
        return json.dumps(made.as_given(instance, [known[made.statement(claim)] for claim in given["claims"]]))

    return {
        "ragchecker_claims": lambda given: json.dumps(
            instance["decisions"][f"{made.whose(instance, given['text'])}_claims"]
        ),
        "ragchecker_check": check,
    }


@pytest.fixture
def ragchecker_recorded(recorded: Callable[..., Any], made: ModuleType) -> Any:
    return recorded("ragchecker", lambda instance: replies(made, instance))


def padded_and_cut(made: ModuleType, instance: dict[str, Any]) -> ragchecker.Checks:
    """What refchecker takes a judge's lists of another length for, five claims a call."""

    def row(labels: list[str]) -> list[bool]:
        taken: list[str] = []
        for at in range(0, len(labels), 5):
            asked = labels[at : at + 5]
            taken += [*made.as_given(instance, asked), "Neutral"][: len(asked)]
        return [label == "Entailment" for label in taken]

    decisions = instance["decisions"]
    return ragchecker.Checks(
        [row(decisions["correct"])],
        [row(decisions["recalled"])],
        [row(labels) for labels in decisions["supported"]],
        [row(labels) for labels in decisions["retrieved"]],
    )


@pytest.fixture
def differences(made: ModuleType, difference: Any) -> Callable[[str], dict[str, Any]]:
    """Of a measure, by kind of instance; the faults as docs/scorers.md names them."""

    def of(measure: str) -> dict[str, Any]:
        name = measure.removeprefix("ragchecker_")
        value = getattr(ragchecker, name)
        miscounted = difference(
            "pads missing labels with Neutral and cuts extra ones",
            lambda instance: value(padded_and_cut(made, instance)),
            " judgements of ",
        )
        empty = "gives 0 to an answer or a ground truth without claims"
        no_answer = difference(empty, lambda instance: 0.0, "no claims in the answer")
        no_truth = difference(empty, lambda instance: 0.0, "no claims in the ground truth")
        about_answer, about_truth = (name in f"{of} {OF_BOTH}".split() for of in (OF_ANSWER, OF_TRUTH))
        return {
            **dict.fromkeys(made.MISCOUNTED, miscounted),
            **({"answer without claims": no_answer} if about_answer else {}),
            **({"ground truth without claims": no_truth} if about_truth else {}),
            "no claims at all": no_answer if about_answer else no_truth,
        }

    return of


@pytest.mark.parametrize("measure", MEASURES)
def test_scores_are_those_of_ragchecker_but_for_its_listed_faults(
    measure: str, ragchecker_recorded: Any, differences: Callable[[str], dict[str, Any]]
) -> None:
    ragchecker_recorded.compare(measure, differences(measure))


def test_all_of_ours_were_recorded_on_all_instances(ragchecker_recorded: Any, made: ModuleType) -> None:
    assert set(ragchecker_recorded.scores) == set(MEASURES)
    assert ragchecker_recorded.instances == [*made.make_instances(), *made.make_claims()]
