"""Our TruLens measures against TruLens, on the same decisions.

`trulens.json` holds what the original gave (`record_trulens.py`); nothing of it is needed.
"""

from __future__ import annotations

from typing import Any

import pytest
from comparison import Instance, Recorded, differences_of

from rag_zeval.scorers import trulens

# Faults of the original, and other listed differences: by the instance, its score and ours. Where we give none, WHY.
DIFFERENCES = {
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
WHY = {
    "an answer of trivial sentences is 0": "every sentence of the answer is trivial",
    "an empty answer is judged": "no answer",
    "all sentences are taken where the list cannot be read": "trulens_substantive: no JSON in the reply",
    "a sentence that the answer does not have is scored": "is not a number from 1 to",
    "a score that cannot be read is left out, or -1": "JSON of another shape",
    "of several numbers the smallest is taken": "no JSON in the reply 'I waver between 1 and 2.'",
}


def replies(instance: Instance) -> dict[str, Any]:
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


RECORDED = Recorded("trulens", replies)


@pytest.mark.parametrize("measure", RECORDED.scores)
def test_scores_are_the_originals_but_for_the_listed_differences(measure: str) -> None:
    RECORDED.compare(measure, differences_of(measure, DIFFERENCES, WHY))


def test_all_of_ours_were_recorded() -> None:
    assert set(RECORDED.scores) == {measure.name for measure in trulens.MEASURES}
