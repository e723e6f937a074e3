"""CCRS (Muhamed 2025, arXiv:2506.20128): five questions to a judge, one call each.

The judge gives a number from 0 to 100, which is divided by 100. Answer correctness is 0.7 · exact match + 0.3 · that
number. All values are in [0, 1].

No code and no prompts are public: the prompts are in our words, zero-shot as in the paper, and ask for JSON, in which
a number that is cut off cannot pass for another. Also ours are the normalisation of the exact match (SQuAD's), the
question in `ccrs_cc`, and the context in `ccrs_ac`, which is there if the example has chunks. A number that is missing
or out of range makes a failure.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import Any
from unicodedata import category

from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import given
from rag_zeval.replies.values import a_number
from rag_zeval.scorers.asking import Found, Judge, Measure, ScorerPrompt

COHERENCE, RELEVANCE, DENSITY = ScorerPrompt("ccrs_cc"), ScorerPrompt("ccrs_qr"), ScorerPrompt("ccrs_id")
CORRECTNESS, RECALL = ScorerPrompt("ccrs_ac"), ScorerPrompt("ccrs_ir")
EXACT_MATCH_WEIGHT = 0.7  # of answer correctness; the rest is the judge's
INPUTS: dict[str, Callable[[Example, str], Any]] = {
    "question": lambda example, answer: example.question,
    "context": lambda example, answer: list(example.chunks),
    "answer": lambda example, answer: answer,
    "ground_truth": lambda example, answer: example.truth or "",
}


def normalised(text: str) -> str:
    """Lower case, without punctuation, English articles and spare spaces (Rajpurkar et al. 2016, arXiv:1606.05250).

    Punctuation is that of ASCII and what Unicode calls so, "。" for one (MLQA: Lewis et al. 2020, arXiv:1910.07475).
    """
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation and category(letter)[0] != "P")
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(answer: str, truth: str) -> bool:
    """Whether both are the same text, normalised; an answer of which nothing is left matches nothing."""
    return normalised(answer) != "" and normalised(answer) == normalised(truth)


def answer_correctness(matches: bool, judged: float) -> float:
    """0.7 · exact match + 0.3 · the judge's value, both in [0, 1]."""
    return EXACT_MATCH_WEIGHT * matches + (1 - EXACT_MATCH_WEIGHT) * judged


async def _judged(judge: Judge, prompt: ScorerPrompt, example: Example, answer: str, inputs: str) -> float:
    """The judge's number about the inputs, in [0, 1] (1 call)."""

    def read(value: Any) -> float:
        return a_number(value["score"], 0, 100) / 100

    return await judge.ask(prompt, read, **{name: INPUTS[name](example, answer) for name in inputs.split()})


async def _answer_correctness(judge: Judge, example: Example, answer: str) -> Found:
    inputs = "answer ground_truth context" if given(example, "chunks") else "answer ground_truth"
    judged = await _judged(judge, CORRECTNESS, example, answer, inputs)
    matches = exact_match(answer, example.truth or "")
    return Found(answer_correctness(matches, judged), {"exact_match": matches, "judged": judged})


def _measure(prompt: ScorerPrompt, inputs: str, *needed: str) -> Measure:
    async def steps(judge: Judge, example: Example, answer: str) -> Found:
        value = await _judged(judge, prompt, example, answer, inputs)
        return Found(value, {})

    return Measure(prompt.name, steps, (prompt,), ("answer", *needed))


MEASURES = (
    _measure(COHERENCE, "question context answer", "chunks"),
    _measure(RELEVANCE, "question answer"),
    _measure(DENSITY, "question context answer", "chunks"),
    Measure(CORRECTNESS.name, _answer_correctness, (CORRECTNESS,), ("answer", "truth"), ("chunks",)),
    _measure(RECALL, "answer ground_truth", "truth"),
)
