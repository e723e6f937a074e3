"""UMBRELA (Upadhyay et al. 2024, arXiv:2406.06519), after open-rag-eval 0.3.0 (its metrics/umbrela_metric.py).

A judge grades each retrieved chunk from 0 (has nothing to do with the question) to 3 (exact answer). The values speak
of what was retrieved: they are the same for all answers of an example.

Known differences: the prompt is in our words and one for every judge (the original has another for some models); the
judge writes how it came to its grade, of which only the final one is read (the original takes the integer alone); no
presence penalty. A reply without a grade is a failure (in umbrela 0.0.7 it is the grade 0).
"""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from rag_zeval.judge.example import Example
from rag_zeval.replies.values import one_of
from rag_zeval.scorers.asking import Found, Judge, Measure, ScorerPrompt, together
from rag_zeval.scorers.ragas import average_precision
from rag_zeval.scorers.score import Failed

UMBRELA = ScorerPrompt("umbrela")
GRADES = ("0", "1", "2", "3")
RELEVANT = 2  # the lowest grade of a chunk that has an answer
CUTS = (1, 3, 5)  # ranks down to which precision and average precision look


async def grades_of(judge: Judge, question: str, chunks: Sequence[str]) -> list[int]:
    """The grade of each chunk, 0 to 3 (a call each)."""
    return await together(*(judge.ask(UMBRELA, _read_grade, question=question, passage=chunk) for chunk in chunks))


def _read_grade(value: Any) -> int:
    return int(one_of(str(value["O"]), GRADES))


def reciprocal_rank(relevant: Sequence[bool]) -> float:
    """1 ÷ the rank of the first relevant chunk; 0 if there is none."""
    return next((1 / rank for rank, one in enumerate(relevant, 1) if one), 0.0)


def _measure(name: str, value: Callable[[Sequence[bool]], float] | None = None, k: int | None = None) -> Measure:
    """The mean grade of the first k chunks, or of all; or a value of which of them are relevant."""

    async def steps(judge: Judge, example: Example, answer: str) -> Found:
        chunks = example.chunks[:k]
        if k is not None and len(chunks) < k:
            raise Failed(f"{len(chunks)} chunks, fewer than {k}")
        grades = await grades_of(judge, example.question, chunks)
        relevant = [grade >= RELEVANT for grade in grades]
        return Found(value(relevant) if value else fmean(grades), {"grades": grades})

    return Measure(name, steps, (UMBRELA,), ("chunks",))


MEASURES = (
    _measure("umbrela"),
    *(_measure(f"umbrela_precision_at_{k}", fmean, k) for k in CUTS),
    *(_measure(f"umbrela_ap_at_{k}", average_precision, k) for k in CUTS),
    _measure("umbrela_mrr", reciprocal_rank),
)
