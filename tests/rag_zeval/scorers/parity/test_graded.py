"""Our scorers of grades, nuggets, citations and sentences against open-rag-eval, nuggetizer and TruLens.

The decisions are the same. The files hold what the originals gave (`record_*.py`); nothing of them is needed.
"""

from typing import Any

import pytest
from comparison import ENOUGH, Instance, Recorded, differences_of
from graded_replies import Judge

from rag_zeval.scorers import answered, citations, nuggets, trulens, umbrela
from rag_zeval.statistics.bootstrap import consistency

UNWEIGHTED = ("nuggets_all", "nuggets_vital", "nuggets_all_strict", "nuggets_vital_strict")
WEIGHTED = ("nuggets_weighted", "nuggets_weighted_strict")
NUGGETS = (*UNWEIGHTED, *WEIGHTED)
NO_VITAL, REPEATED = "a vital nugget is counted where there is none", "a repeated nugget counts twice"
# Faults of an original, and other listed differences: by the instance, its score and ours. Where we give none, WHY.
OPEN_RAG_EVAL = {
    "an okay nugget is counted where there is none": {
        "nuggets_weighted": {"03": (0.555556, 0.625), "21": (0.48, 0.5), "28": (0.6, 0.75)},
        "nuggets_weighted_strict": {"03": (0.444444, 0.5), "21": (0.32, 0.333333), "28": (0.4, 0.5)},
    },
    NO_VITAL: {
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
    REPEATED: {
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
    **{fault: OPEN_RAG_EVAL[fault] for fault in (NO_VITAL, REPEATED)},  # for the measures that it has
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
}
TRULENS = {
    "an answer of trivial sentences is 0": {"trulens_groundedness": {"01": (0, None), "21": (0, None)}},
    "an empty answer is judged": {
        "trulens_answer_relevance": {"17": (0.666667, None), "37": (0.333333, None)},
        "trulens_groundedness": {"17": (0, None), "37": (0, None)},
    },
    "all sentences are taken where the list cannot be read": {
        "trulens_groundedness": {"11": (0.833333, None), "31": (0.416667, None)},
    },
    "a sentence that the answer does not have is scored": {
        "trulens_groundedness": {"13": (0.111111, None), "33": (0.333333, None)},
    },
    "a number at the end is a list mark": {"trulens_groundedness": {"15": (0.777778, 0.75), "35": (1, 0.833333)}},
    "a score that cannot be read is left out, or -1": {
        "trulens_groundedness": {"04": (1, None), "24": (1, None)},
        "trulens_answer_relevance": {"04": (-1, None), "24": (-1, None)},
        "trulens_context_relevance": {"04": (-1, None), "24": (0.888889, None)},
    },
    "of several numbers the smallest is taken": {
        "trulens_groundedness": {"06": (0.333333, None), "26": (0.166667, None)},
        "trulens_answer_relevance": {"06": (0.333333, None), "26": (0.333333, None)},
        "trulens_context_relevance": {"06": (0.166667, None), "26": (0.583333, None)},
    },
}
DIFFERENCES: dict[str, Any] = {"open_rag_eval": OPEN_RAG_EVAL, "nuggetizer": NUGGETIZER, "trulens": TRULENS}
WHY = {
    NO_VITAL: "no vital nuggets",
    "without a fact, 'not enough information' is the nugget": "no nuggets in the context",
    "without a related chunk, 'not enough information' is the nugget": "no chunk is related to the question",
    "without a fact the score is 0": "no nuggets in the context",
    "without a related chunk the score is 0": "no chunk is related to the question",
    "a failure is a neutral 0.5": "judgements, expected",
    "nuggets without a label are dropped": "judgements, expected",
    "more than 30 nuggets are taken": "33 nuggets, more than 30",
    "more than 30 nuggets are cut": "33 nuggets, more than 30",
    "an answer without citations has precision 0": "no citations in the answer",
    "an answer of trivial sentences is 0": "every sentence of the answer is trivial",
    "an empty answer is judged": "no answer",
    "all sentences are taken where the list cannot be read": "trulens_substantive: no JSON in the reply",
    "a sentence that the answer does not have is scored": "is not a number from 1 to",
    "a score that cannot be read is left out, or -1": "is not a number from 0 to 3",
    "of several numbers the smallest is taken": "no JSON in the reply 'I waver between 1 and 2.'",
}


def replies(instance: Instance) -> dict[str, Any]:
    judge = Judge(dict(instance))
    return {
        "umbrela": lambda given: {"M": 0, "T": 0, "O": judge.grade(given["passage"])},
        "nuggets_create": lambda given: {"nuggets": judge.created(given["nuggets"])},
        "nuggets_importance": lambda given: {"labels": judge.importance(given["nuggets"])},
        "nuggets_assignment": lambda given: {"labels": judge.assignment(given["nuggets"])},
        "citation_support": lambda given: {"support": judge.support(given["statement"], given["passage"])},
        "answered": {"answered": judge.answered()},
    }


def trulens_replies(instance: Instance) -> dict[str, Any]:
    decisions = instance["decisions"]
    sentences = {text: score for text, _, score in decisions["sentences"]}

    def keep(given: dict[str, Any]) -> Any:
        kept = [number for number, (_, kept, _) in enumerate(decisions["sentences"], 1) if kept]
        invented = [len(kept) + 1] if instance["kind"] == "invented sentence" else []
        return "All of them matter." if instance["kind"] == "list in prose" else {"keep": kept + invented}

    def said(score: int | str) -> Any:
        return score if isinstance(score, str) else {"criteria": "so", "supporting_evidence": "so", "score": score}

    return {
        "trulens_substantive": keep,
        "trulens_groundedness": lambda given: said(sentences[given["statement"]]),
        "trulens_answer_relevance": said(decisions["relevance"]),
        "trulens_context_relevance": lambda given: said(
            decisions["chunks"][instance["chunks"].index(given["context"])]
        ),
    }


RECORDED = {name: Recorded(name, trulens_replies if name == "trulens" else replies) for name in DIFFERENCES}


@pytest.mark.parametrize(
    ("package", "measure"),
    [(package, measure) for package, of in RECORDED.items() for measure in of.scores if measure != "consistency"],
)
def test_scores_are_the_originals_but_for_the_listed_differences(package: str, measure: str) -> None:
    RECORDED[package].compare(measure, differences_of(measure, DIFFERENCES[package], WHY))


def test_consistency_is_the_originals() -> None:
    theirs = RECORDED["open_rag_eval"].scores["consistency"]
    instances = RECORDED["open_rag_eval"].instances
    ours = {one["id"]: consistency(one["decisions"]["runs"]) for one in instances}
    assert ours == pytest.approx(theirs, abs=1e-6)
    assert sum(value is not None for value in theirs.values()) >= ENOUGH


def test_every_measure_was_recorded() -> None:
    ours = {one.name for family in (umbrela, nuggets, citations, answered) for one in family.MEASURES}
    ours -= {name for name in ours if name.startswith(("umbrela_ndcg", "umbrela_recall"))}  # it has neither
    assert {*RECORDED["open_rag_eval"].scores} == {*ours, "consistency"}
    assert {*RECORDED["nuggetizer"].scores} == {*UNWEIGHTED}
    assert {*RECORDED["trulens"].scores} == {measure.name for measure in trulens.MEASURES}
