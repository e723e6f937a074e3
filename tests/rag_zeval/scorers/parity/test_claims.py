"""Our scorers of claims against ragas 0.4.3, both of its implementations, and ragchecker 0.1.9 (refchecker 0.2.17).

The decisions are the same. The files hold what the originals gave (`record_*.py`); the faults of the originals are
named as in docs/scorers.md.
"""

from typing import Any

import pytest
from comparison import NEWER, Difference, Instance, Recorded
from instances import MISCOUNTED, as_given, labels, statement, whose
from ragas_replies import Judge

from rag_zeval.models.embeddings import cosine
from rag_zeval.scorers import ragas, ragchecker

OF_ANSWER = "precision f1 faithfulness hallucination self_knowledge"  # whose claims a measure is about
OF_TRUTH = "recall f1 claim_recall context_precision context_utilization"
OF_BOTH = "noise_sensitivity_in_relevant noise_sensitivity_in_irrelevant"


def ragchecker_replies(instance: Instance) -> dict[str, Any]:

    def check(given: dict[str, Any]) -> Any:
        known = labels(instance, given["reference"])
        return as_given(instance, [known[statement(claim)] for claim in given["claims"]])

    return {
        "ragchecker_claims": lambda given: instance["decisions"][f"{whose(instance, given['text'])}_claims"],
        "ragchecker_check": check,
    }


RAGCHECKER = Recorded("ragchecker", ragchecker_replies)


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


def ragchecker_differences(measure: str) -> dict[str, Difference]:
    name = measure.removeprefix("ragchecker_")

    def of_what_came(instance: Instance) -> float:
        return ragchecker.value_of(name, padded_and_cut(instance))

    padded = "pads missing labels with Neutral and cuts extra ones"
    empty = "gives 0 to an answer or a ground truth without claims"
    no_answer = (empty, lambda instance: 0.0, "no claims in the answer")
    no_truth = (empty, lambda instance: 0.0, "no claims in the ground truth")
    about_answer, about_truth = (name in f"{of} {OF_BOTH}".split() for of in (OF_ANSWER, OF_TRUTH))
    return RAGCHECKER.of_kinds(
        {
            **dict.fromkeys(MISCOUNTED, (padded, of_what_came, "expected ")),
            **({"answer without claims": no_answer} if about_answer else {}),
            **({"ground truth without claims": no_truth} if about_truth else {}),
            "no claims at all": no_answer if about_answer else no_truth,
        }
    )


RAGAS = Recorded("ragas", lambda instance: Judge(dict(instance)).replies())


def ragas_differences(name: str) -> dict[str, Difference]:

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
    return RAGAS.of_kinds(kinds.get(name, {}))


COMPARED = {
    **dict.fromkeys(RAGAS.scores, (RAGAS, ragas_differences)),
    **dict.fromkeys(RAGCHECKER.scores, (RAGCHECKER, ragchecker_differences)),
}


@pytest.mark.parametrize("name", COMPARED)
def test_scores_are_the_originals_but_for_their_listed_faults(name: str) -> None:
    recorded, differences = COMPARED[name]
    recorded.compare(name, differences(name))


def test_all_of_ours_were_recorded() -> None:
    ours = [*ragas.MEASURES, *ragchecker.MEASURES]
    assert {name.removesuffix(NEWER) for name in COMPARED} == {measure.name for measure in ours}
    assert len(RAGAS.scores) == 2 * len(ragas.MEASURES)
