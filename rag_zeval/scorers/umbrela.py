"""UMBRELA (Upadhyay et al. 2024, arXiv:2406.06519), after open-rag-eval 0.3.0 (its metrics/umbrela_metric.py).

A judge grades each retrieved chunk from 0 (has nothing to do with the question) to 3 (exact answer). The values are
about retrieval, so they are the same for all answers of an example.

Known differences:

- The prompt is in our words, and the same for every judge. The original has another one for some models.
- The judge writes how it reaches its grade, and only the final grade is read. The original asks for the integer alone.
- There is no presence penalty.
- A reply without a grade is a failure. In umbrela 0.0.7 it counts as grade 0.
- The original has no nDCG and no recall at k. Ours are those of trec_eval, with all retrieved chunks as the pool.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from rag_zeval.judge.example import Example
from rag_zeval.replies.values import a_whole_number
from rag_zeval.scorers.asking import Found, Judge, Measure, ScorerPrompt, together
from rag_zeval.scorers.ragas import average_precision
from rag_zeval.scorers.score import Failed

UMBRELA = ScorerPrompt("umbrela")
HIGHEST = 3  # grade
RELEVANT = 2  # least grade of a relevant chunk: it has an answer
CUTS = (1, 3, 5)  # cut-offs k


async def grades_of(judge: Judge, question: str, chunks: Sequence[str]) -> list[int]:
    """Return the grade of each chunk, from 0 to 3 (one call each)."""
    return await together(*(judge.ask(UMBRELA, _read_grade, question=question, passage=chunk) for chunk in chunks))


def _read_grade(value: Any) -> int:
    return a_whole_number(value["O"], 0, HIGHEST)


def reciprocal_rank(relevant: Sequence[bool]) -> float:
    """Return 1 ÷ the rank of the first relevant chunk; 0 if there is none."""
    return next((1 / rank for rank, one in enumerate(relevant, 1) if one), 0.0)


def ndcg(grades: Sequence[int], k: int) -> float:
    """Return nDCG at k: Σ grade ÷ log2(rank + 1) over the first k chunks ÷ the same for the best order of all chunks.

    Raises Failed if every grade is 0.
    """

    def gain(ranked: Sequence[int]) -> float:
        return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(ranked[:k], 1))

    if not any(grades):
        raise Failed("every chunk has grade 0")
    return gain(grades) / gain(sorted(grades, reverse=True))


def recall(grades: Sequence[int], k: int) -> float:
    """Return the share of all relevant chunks that are among the first k. Raises Failed if none is relevant."""
    relevant = _relevant(grades)
    if not any(relevant):
        raise Failed("no chunk is relevant")
    return sum(relevant[:k]) / sum(relevant)


def _relevant(grades: Sequence[int]) -> list[bool]:
    return [grade >= RELEVANT for grade in grades]


def _measure(
    name: str, value: Callable[[Sequence[int]], float], k: int | None = None, pool: bool = False, highest: float = 1.0
) -> Measure:
    """Make a measure of the grades of all chunks, or of the first k; an example needs at least k chunks.

    pool: whether all chunks are graded, although there is a k.
    """

    async def steps(judge: Judge, example: Example, answer: str) -> Found:
        if k is not None and len(example.chunks) < k:
            raise Failed(f"{len(example.chunks)} chunks, fewer than {k}")
        grades = await grades_of(judge, example.question, example.chunks[: None if pool else k])
        return Found(value(grades), {"grades": grades})

    return Measure(name, steps, (UMBRELA,), ("chunks",), highest=highest)


MEASURES = (
    _measure("umbrela", fmean, highest=HIGHEST),
    *(_measure(f"umbrela_precision_at_{k}", lambda grades: fmean(_relevant(grades)), k) for k in CUTS),
    *(_measure(f"umbrela_ap_at_{k}", lambda grades: average_precision(_relevant(grades)), k) for k in CUTS),
    *(_measure(f"umbrela_ndcg_at_{k}", partial(ndcg, k=k), k, pool=True) for k in CUTS),
    *(_measure(f"umbrela_recall_at_{k}", partial(recall, k=k), k, pool=True) for k in CUTS),
    _measure("umbrela_mrr", lambda grades: reciprocal_rank(_relevant(grades))),
)
