"""CCRS (Muhamed 2025, arXiv:2506.20128): five questions to a judge, one call each.

The judge gives a number from 0 to 100, which is divided by 100. Answer correctness is 0.7 · exact match + 0.3 · that
quotient. All values are in [0, 1].

Neither code nor prompts are public. The prompts are in our words, zero-shot as in the paper. They ask for JSON, so that
a truncated number cannot pass for another one. We also chose the normalisation of the exact match (SQuAD's), the
question in `ccrs_cc`, and the context in `ccrs_ac`, which is shown if the example has chunks. A number that is missing
or out of range is a failure.
"""

import re
import string
from typing import Any
from unicodedata import category

from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import given
from rag_zeval.replies.values import a_number
from rag_zeval.scorers.asking import Found, Judge, Measure, ScorerPrompt, one_question

CORRECTNESS = ScorerPrompt("ccrs_ac")
EXACT_MATCH_WEIGHT = 0.7  # share of answer correctness; the rest is the judge's number
QUESTION, CONTEXT, ANSWER = {"question": "question"}, {"context": "chunks"}, {"answer": "answer"}  # inputs


def normalised(text: str) -> str:
    """Return a text in lower case without punctuation, English articles and extra spaces.

    So does SQuAD (Rajpurkar et al. 2016, arXiv:1606.05250). Punctuation includes Unicode's, such as "。", as in MLQA
    (Lewis et al. 2020, arXiv:1910.07475).
    """
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation and category(letter)[0] != "P")
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(answer: str, truth: str) -> bool:
    """Whether both texts are equal when normalised. An answer that is then empty matches nothing."""
    return normalised(answer) != "" and normalised(answer) == normalised(truth)


def _share(value: Any) -> float:
    """Return the judge's number, in [0, 1]."""
    return a_number(value["score"], 0, 100) / 100


def _read(value: Any) -> Found:
    return Found(_share(value), {})


async def _answer_correctness(judge: Judge, example: Example, answer: str) -> Found:
    truth = example.truth or ""
    context: dict[str, Any] = {"context": example.chunks} if given(example, "chunks") else {}
    judged = await judge.ask(CORRECTNESS, _share, answer=answer, ground_truth=truth, **context)
    matches = exact_match(answer, truth)
    value = EXACT_MATCH_WEIGHT * matches + (1 - EXACT_MATCH_WEIGHT) * judged
    return Found(value, {"exact_match": matches, "judged": judged})


MEASURES = (
    one_question("ccrs_cc", _read, **QUESTION, **CONTEXT, **ANSWER),
    one_question("ccrs_qr", _read, **QUESTION, **ANSWER),
    one_question("ccrs_id", _read, **QUESTION, **CONTEXT, **ANSWER),
    Measure(CORRECTNESS.name, _answer_correctness, (CORRECTNESS,), ("answer", "truth"), ("chunks",)),
    one_question("ccrs_ir", _read, **ANSWER, ground_truth="truth"),
)
