"""A yes or no with its reasons, as practitioners test RAG systems ("Automated RAG System Evaluations", emumba.com).

One call: question, source of truth and answer, judged by five rules (correct, to the point, complete, concise, nothing
made up); the reply is {"is_correct": true or false, "reasoning": text}. The value is 1 or 0. The source of truth is
the ground truth where there is one, else a reference of the example's own: retrieved contexts are no ground truth.

Known differences: the prompt is in our words, at temperature 0. A reply without a clear truth value or without
reasoning makes a failure; the code published with the article never looks at the reply.
"""

from __future__ import annotations

from typing import Any

from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import given
from rag_zeval.replies.values import a_text, yes_or_no
from rag_zeval.scorers.asking import Found, Judge, Measure, ScorerPrompt

PROMPT = ScorerPrompt("is_correct")
SOURCE = "truth or reference"


async def _steps(judge: Judge, example: Example, answer: str) -> Found:
    def read(value: Any) -> tuple[bool, str]:
        return yes_or_no(value["is_correct"]), a_text(value["reasoning"])

    source = given(example, SOURCE)
    assert source is not None
    (text,) = source.texts
    is_correct, reasoning = await judge.ask(
        PROMPT, read, question=example.question, ground_truth_source=text, answer=answer
    )
    return Found(float(is_correct), {"is_correct": is_correct, "reasoning": reasoning})


MEASURES = (Measure(PROMPT.name, _steps, (PROMPT,), ("answer", SOURCE)),)
