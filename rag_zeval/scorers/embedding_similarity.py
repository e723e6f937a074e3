"""Cosine of an answer's vector and the ground truth's; no judge is asked.

The rule-based check of a practitioner's text ("Automated RAG System Evaluations", emumba.com), whose threshold is "a
predefined percentage". It means something else with every embedding model, so `evaluate --threshold` sets it. The value
is in [-1, 1]. Compared is the ground truth where there is one, else a reference of the example's own.
"""

from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import texts_of
from rag_zeval.scorers.asking import Found, Judge, Measure

SOURCE = "truth or reference"


async def _steps(judge: Judge, example: Example, answer: str) -> Found:
    (text,) = texts_of(example, SOURCE)
    return Found(await judge.similarity(text, answer), {})


MEASURES = (Measure("embedding_similarity", _steps, (), ("answer", SOURCE), embeds=True),)
