"""A yes or no with reasons, as practitioners test RAG systems ("Automated RAG System Evaluations", emumba.com).

One call shows question, source of truth and answer, and asks for a verdict by five rules: correct, to the point,
complete, concise, nothing made up. The reply is {"is_correct": true or false, "reasoning": text}. The value is 1 or 0.
The source of truth is the ground truth; if there is none, it is a reference that the example gives itself. Retrieved
contexts are never used as ground truth.

Known differences: the prompt is in our words, at temperature 0. A reply without a clear truth value or without
reasoning is a failure. The code that the article publishes never looks at the reply.
"""

from typing import Any

from rag_zeval.replies.values import a_text, yes_or_no
from rag_zeval.scorers.asking import Found, one_question


def _read(value: Any) -> Found:
    is_correct, reasoning = yes_or_no(value["is_correct"]), a_text(value["reasoning"])
    return Found(float(is_correct), {"is_correct": is_correct, "reasoning": reasoning})


MEASURES = (
    one_question("is_correct", _read, question="question", ground_truth_source="truth or reference", answer="answer"),
)
