"""ARES without training (Saad-Falcon et al. 2023, arXiv:2311.09476): the few-shot judge of the package ares-ai 0.6.6.

After its ues_idp.py, prompts.py and RAG_Automatic_Evaluation/Evaluation_Functions.py. Each value is a label: 1 for
[[Yes]], 0 for [[No]]. The document is judged first, and if it has nothing to do with the question all three are 0. What
ARES trains, a classifier, and its intervals from labelled rows are not here.

The document is the example's reference: the retrieved passage where faithfulness is measured, the ground truth where
correctness is.

Known differences: the prompts are in our words, speak of questions (the package's of dialogues) and have examples of
ours (the original's come with the data); a reply without a label, or with both, leaves the answer without a score (the
original's is 0, or [[Yes]]), and so do a label within a sentence, one that the document or the answer spells out, and a
reply that does not come (the original's is 0 after five tries); labels are read in any case. As the original sets no
temperature, it is 1, the default of its endpoint.
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
_END = " \t\r\n*_`\"'.!"  # what may stand behind a label that ends a reply


def read_label(text: str) -> bool:
    """The label that a reply ends in, or that stands on a line of its own. Raises Unreadable for none, or both."""
    found = [(label, place) for label, pattern in LABELS.items() for place in pattern.finditer(text)]
    labels = {label for label, _ in found}
    if len(labels) != 1:
        raise Unreadable(f"{'both' if found else 'neither'} of [[Yes]] and [[No]] in {quoted(text)}")
    around = [(text[: place.start()], text[place.end() :]) for _, place in found]
    if not any(stands_alone(before, after) or _ends(before, after) for before, after in around):
        raise Unreadable(f"a label within a sentence: {quoted(text)}")
    return found[0][0]


def _ends(before: str, after: str) -> bool:
    """Whether a label between two texts is a reply's last sentence."""
    return before.rstrip(" *_`").endswith((".", "!", "?")) and not after.strip(_END)


def _measure(prompt: ScorerPrompt, *needs: str) -> Measure:
    """The measure that asks for a label, where the document is relevant."""

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
