"""ARES without training (Saad-Falcon et al. 2023, arXiv:2311.09476): the few-shot judge of the package ares-ai 0.6.6.

It follows the package's ues_idp.py, prompts.py and RAG_Automatic_Evaluation/Evaluation_Functions.py. Each value is a
label: 1 for [[Yes]], 0 for [[No]]. The document is judged first. If it has nothing to do with the question, all three
values are 0. The classifier that ARES trains, and its intervals from labelled rows, are not implemented.

The document is the example's reference: the retrieved contexts for faithfulness, the ground truth for correctness. The
original sets no temperature, so we use 1, the default of its endpoint.

Known differences:

- The prompts are in our words, speak of questions (the package's speak of dialogues) and have our examples (the
  original's are part of the data).
- A reply without a label, or with both, leaves the answer without a score. In the original, the value is 0 without a
  label and 1 with both.
- A missing reply leaves the answer without a score. In the original, the value is 0 after five tries.
- A label also gives no score if it is within a sentence, or if the document or the answer spells one out.
- Upper and lower case do not matter in labels.
"""

import re

from rag_zeval.judge.example import Example
from rag_zeval.replies.loose_json import Unreadable
from rag_zeval.replies.reading import quoted, stands_alone
from rag_zeval.scorers.asking import Found, Judge, Measure, ScorerPrompt

CONTEXT_RELEVANCE = ScorerPrompt("ares_context_relevance")
TEMPERATURE = 1.0
LABELS = {
    True: re.compile(r"\[\s*\[?\s*Yes\s*\]?\s*\]", re.IGNORECASE),
    False: re.compile(r"\[\s*\[?\s*No\s*\]?\s*\]", re.IGNORECASE),
}
SPELLED = r"\[(?:yes|no)\]"  # a label in a document or an answer
_END = " \t\r\n*_`\"'.!"  # what may follow a label that ends a reply


def read_label(text: str) -> bool:
    """Return the label that ends a reply or is on its own line: True for yes. Raises Unreadable for none or both."""
    found = [(label, place) for label, pattern in LABELS.items() for place in pattern.finditer(text)]
    labels = {label for label, _ in found}
    if len(labels) != 1:
        raise Unreadable(f"{'both' if found else 'neither'} of [[Yes]] and [[No]] in {quoted(text)}")
    around = [(text[: place.start()], text[place.end() :]) for _, place in found]
    if not any(stands_alone(before, after) or _ends(before, after) for before, after in around):
        raise Unreadable(f"a label within a sentence: {quoted(text)}")
    return found[0][0]


def _ends(before: str, after: str) -> bool:
    """Whether a label between two texts is the last sentence of a reply."""
    return before.rstrip(" *_`").endswith((".", "!", "?")) and not after.strip(_END)


def _measure(prompt: ScorerPrompt, *needs: str) -> Measure:
    """Make the measure that asks for a label if the document is relevant; otherwise its value is 0."""

    async def steps(judge: Judge, example: Example, answer: str) -> Found:
        async def label(prompt: ScorerPrompt, **inputs: str) -> bool:
            inputs = {"question": example.question, "document": example.reference, **inputs}
            return await judge.ask_text(prompt, read_label, spelled=SPELLED, temperature=TEMPERATURE, **inputs)

        relevant = await label(CONTEXT_RELEVANCE)
        value = relevant if prompt is CONTEXT_RELEVANCE or not relevant else await label(prompt, answer=answer)
        return Found(float(value), {"document_relevant": relevant})

    return Measure(prompt.name, steps, tuple(dict.fromkeys((CONTEXT_RELEVANCE, prompt))), needs)


MEASURES = (
    _measure(CONTEXT_RELEVANCE, "reference"),
    _measure(ScorerPrompt("ares_answer_faithfulness"), "answer", "reference"),
    _measure(ScorerPrompt("ares_answer_relevance"), "answer", "reference"),
)
