"""Our ragas_* against ragas 0.4.3 on the decisions that record_ragas.py gave it: both of its implementations."""

from __future__ import annotations

import pytest
from comparison import NEWER, Difference, Instance, Recorded
from instances import MISCOUNTED, as_given
from ragas_replies import Judge

from rag_zeval.models.embeddings import cosine
from rag_zeval.scorers import ragas

RECORDED = Recorded("ragas", lambda instance: Judge(dict(instance)).replies())


def differences(name: str) -> dict[str, Difference]:

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
