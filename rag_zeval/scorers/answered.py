"""Whether an answer tries to answer the question, after open-rag-eval 0.3.0 (its metrics/no_answer_metric.py).

The value is 1 if the answer tries, right or wrong, and 0 if it says that it cannot answer (1 call).

Known differences: the prompt is in our words, and it shows the answer with its citations, such as [1]. The original
removes them.
"""

from typing import Any

from rag_zeval.replies.values import yes_or_no
from rag_zeval.scorers.asking import Found, one_question


def _read(value: Any) -> Found:
    answered = yes_or_no(value["answered"])
    return Found(float(answered), {"answered": answered})


MEASURES = (one_question("answered", _read, question="question", answer="answer"),)
