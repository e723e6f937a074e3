"""Our scorers of grades, nuggets and citations against open-rag-eval and nuggetizer, on the same decisions.

The files hold what the originals gave (`record_open_rag_eval.py`, `record_nuggetizer.py`); nothing of them is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.judge.evaluator import Example
from rag_zeval.scorers.score import Score
from rag_zeval.statistics.bootstrap import consistency

UNWEIGHTED = ("nuggets_all", "nuggets_vital", "nuggets_all_strict", "nuggets_vital_strict")
WEIGHTED = ("nuggets_weighted", "nuggets_weighted_strict")
NUGGETS = (*UNWEIGHTED, *WEIGHTED)
# Faults of an original, and other listed differences: by the instance, its score and ours. Where we give none, WHY.
OPEN_RAG_EVAL = {
    "an okay nugget is counted where there is none": {
        "nuggets_weighted": {"03": (0.555556, 0.625), "21": (0.48, 0.5), "28": (0.6, 0.75)},
        "nuggets_weighted_strict": {"03": (0.444444, 0.5), "21": (0.32, 0.333333), "28": (0.4, 0.5)},
    },
    "a vital nugget is counted where there is none": {
        "nuggets_vital": {"05": (0, None), "23": (0, None)},
        "nuggets_weighted": {"05": (0.538462, 0.636364), "23": (0.222222, 0.285714)},
        "nuggets_vital_strict": {"05": (0, None), "23": (0, None)},
        "nuggets_weighted_strict": {"05": (0.384615, 0.454545), "23": (0.111111, 0.142857)},
    },
    "without a fact, 'not enough information' is the nugget": {
        measure: {"07": (0, None), "25": (0, None)} for measure in NUGGETS
    },
    "without a related chunk, 'not enough information' is the nugget": {
        measure: {**dict.fromkeys(["06", "33", "39"], (0, None)), **dict.fromkeys(["15", "24"], (most, None))}
        for most, measures in ((1, UNWEIGHTED), (2 / 3, WEIGHTED))  # for an okay nugget is counted
        for measure in measures
    },
    "a failure is a neutral 0.5": {
        "nuggets_all": {"13": (0.5, None), "31": (0.5, None)},
        "nuggets_vital": {"13": (0.5, None), "31": (0.5, None)},
    },
    "more than 30 nuggets are taken": {
        "nuggets_all": {"16": (0.4, None), "34": (0.5, None)},
        "nuggets_vital": {"16": (0.392857, None), "34": (0.5625, None)},
        "nuggets_weighted": {"16": (0.397059, None), "34": (0.527778, None)},
        "nuggets_all_strict": {"16": (0.25, None), "34": (0.4, None)},
        "nuggets_vital_strict": {"16": (0.285714, None), "34": (0.4375, None)},
        "nuggets_weighted_strict": {"16": (0.264706, None), "34": (0.416667, None)},
    },
    "a repeated nugget counts twice": {
        "nuggets_all": {"11": (0.583333, 0.6), "29": (0.571429, 0.5)},
        "nuggets_weighted": {"11": (0.642857, 0.666667), "29": (0.611111, 0.5625)},
        "nuggets_all_strict": {"11": (0.333333, 0.4), "29": (0.428571, 0.333333)},
        "nuggets_weighted_strict": {"11": (0.428571, 0.5), "29": (0.444444, 0.375)},
    },
    "an answer without citations has precision 0": {
        "citation_precision": {"03": (0, None), "21": (0, None), "39": (0, None)},
        "citation_f1": {"03": (0, None), "21": (0, None), "39": (0, None)},
    },
    "an invented source costs nothing": {
        "citation_precision": {"23": (0.166667, 0.125)},
        "citation_recall": {"23": (0.125, 0.083333)},
        "citation_f1": {"23": (0.142857, 0.1)},
    },
    "of [1] [2] the second is lost": {
        "citation_precision": {"07": (0.333333, 0.416667), "25": (0.625, 0.6)},
        "citation_recall": {"07": (0.333333, 0.416667), "25": (0.625, 0.5625)},
        "citation_f1": {"07": (0.333333, 0.416667), "25": (0.625, 0.580645)},
    },
    "in [1]; [2] the semicolon is a statement": {
        "citation_precision": {"09": (0.5, 0.666667)},
        "citation_recall": {"09": (0.4, 0.5)},
        "citation_f1": {"09": (0.444444, 0.571429)},
    },
    "a number counts as often as it stands in a part": {
        "citation_precision": {"29": (0.833333, 0.8)},
        "citation_recall": {"11": (0.666667, 0.625), "29": (0.833333, 0.75)},
        "citation_f1": {"11": (0.645161, 0.625), "29": (0.833333, 0.774194)},
    },
    "[1987] is a citation": {
        "citation_recall": {"13": (0.4375, 0.35), "31": (1, 0.666667)},
        "citation_f1": {"13": (0.415625, 0.371508), "31": (1, 0.8)},
    },
    "the ').' after the last citation is a statement without one": {
        "citation_recall": {"15": (0.166667, 0.25), "33": (0.625, 0.833333)},
        "citation_f1": {"15": (0.222222, 0.285714), "33": (0.729167, 0.853659)},
    },
}
NUGGETIZER = {
    "a vital nugget is counted where there is none": {
        "nuggets_vital": {"05": (0, None), "23": (0, None)},
        "nuggets_vital_strict": {"05": (0, None), "23": (0, None)},
    },
    "without a fact the score is 0": {measure: {"07": (0, None), "25": (0, None)} for measure in UNWEIGHTED},
    "without a related chunk the score is 0": {
        measure: dict.fromkeys(["06", "15", "24", "33", "39"], (0, None)) for measure in UNWEIGHTED
    },
    "nuggets without a label are dropped": {
        "nuggets_all": {"13": (0.4, None), "31": (0.5, None)},
        "nuggets_vital": {"13": (0.5, None), "31": (0.5, None)},
        "nuggets_all_strict": {"13": (0.2, None), "31": (0.333333, None)},
        "nuggets_vital_strict": {"13": (0.333333, None), "31": (0.333333, None)},
    },
    "more than 30 nuggets are cut": {
        "nuggets_all": {"16": (0.425, None), "34": (0.425, None)},
        "nuggets_vital": {"16": (0.375, None), "34": (0.5, None)},
        "nuggets_all_strict": {"16": (0.3, None), "34": (0.3, None)},
        "nuggets_vital_strict": {"16": (0.333333, None), "34": (0.357143, None)},
    },
    "a repeated nugget counts twice": {
        "nuggets_all": {"11": (0.583333, 0.6), "29": (0.571429, 0.5)},
        "nuggets_all_strict": {"11": (0.333333, 0.4), "29": (0.428571, 0.333333)},
    },
}
DIFFERENCES: dict[str, Any] = {"open_rag_eval": OPEN_RAG_EVAL, "nuggetizer": NUGGETIZER}
WHY = {
    "a vital nugget is counted where there is none": "no vital nuggets",
    "without a fact, 'not enough information' is the nugget": "no nuggets in the context",
    "without a related chunk, 'not enough information' is the nugget": "no chunk is related to the question",
    "without a fact the score is 0": "no nuggets in the context",
    "without a related chunk the score is 0": "no chunk is related to the question",
    "a failure is a neutral 0.5": "judgements of",
    "nuggets without a label are dropped": "judgements of",
    "more than 30 nuggets are taken": "33 nuggets, more than 30",
    "more than 30 nuggets are cut": "33 nuggets, more than 30",
    "an answer without citations has precision 0": "no citations in the answer",
}
UMBRELA = ("umbrela", "umbrela_mrr", *(f"umbrela_{what}_at_{k}" for what in ("precision", "ap") for k in (1, 3, 5)))
CITATIONS = ("citation_precision", "citation_recall", "citation_f1")
COMPARED = [
    *(("open_rag_eval", measure) for measure in (*UMBRELA, *NUGGETS, *CITATIONS, "answered", "consistency")),
    *(("nuggetizer", measure) for measure in UNWEIGHTED),
]


def replies(instance: Mapping[str, Any]) -> dict[str, Any]:
    """What our judge says: the recorded decisions, by prompt."""
    decisions, chunks = instance["decisions"], instance["chunks"]
    importance = {nugget: label for nugget, label, _ in decisions["nuggets"]}
    held = {nugget: label for nugget, _, label in decisions["nuggets"]}
    rounds = [[decisions["nuggets"][at][0] for at in made] for made in decisions["rounds"]] or [[]]

    def created(before: list[str]) -> list[str]:
        done = rounds.index(before) + 1 if before in rounds else 0
        return rounds[min(done, len(rounds) - 1)]

    def supported(statement: str, passage: str) -> str:
        (part,) = (part for part in decisions["parts"] if part["text"] in statement)
        return part["support"][str(chunks.index(passage) + 1)]

    def labels(nuggets: list[str]) -> list[str]:
        return [held[nugget] for nugget in nuggets][: len(nuggets) - decisions["labels_missing"]]

    said = {
        "umbrela": lambda given: {"M": 0, "T": 0, "O": decisions["grades"][chunks.index(given["passage"])]},
        "nuggets_create": lambda given: {"nuggets": created(given["nuggets"])},
        "nuggets_importance": lambda given: {"labels": [importance[nugget] for nugget in given["nuggets"]]},
        "nuggets_assignment": lambda given: {"labels": labels(given["nuggets"])},
        "citation_support": lambda given: {"support": supported(given["statement"], given["passage"])},
        "answered": lambda given: {"answered": decisions["answered"]},
    }
    return {prompt: lambda given, say=say: json.dumps(say(given)) for prompt, say in said.items()}


def ours(measure: str, instance: Mapping[str, Any], judge_by_prompt: Any) -> Score:
    if measure == "consistency":
        return Score(consistency(instance["decisions"]["runs"]))
    texts = instance["question"], "not looked at", (instance["answer"],)
    example = Example(instance["id"], *texts, chunks=tuple(instance["chunks"]))
    (score,) = judge_by_prompt(replies(instance)).score(measure, example).scores
    return score


@pytest.mark.parametrize(("package", "measure"), COMPARED)
def test_scores_are_the_originals_but_for_the_listed_differences(
    package: str, measure: str, judge_by_prompt: Any, compare_listed: Any
) -> None:
    def score(measure: str, instance: Mapping[str, Any]) -> Score:
        if measure == "consistency":
            return Score(consistency(instance["decisions"]["runs"]))
        texts = instance["question"], "not looked at", (instance["answer"],)
        example = Example(instance["id"], *texts, chunks=tuple(instance["chunks"]))
        (one,) = judge_by_prompt(replies(instance)).score(measure, example).scores
        return one

    compare_listed(package, measure, score, DIFFERENCES[package], WHY)


@pytest.mark.parametrize("package", DIFFERENCES)
def test_every_recorded_measure_is_compared(package: str) -> None:
    recorded = json.loads((Path(__file__).parent / f"{package}.json").read_text())["scores"]
    assert sorted(recorded) == sorted(measure for of, measure in COMPARED if of == package)
