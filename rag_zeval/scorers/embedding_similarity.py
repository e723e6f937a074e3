"""Cosine of an answer's vector and the ground truth's, and whether it is above a threshold; no judge is asked.

The rule-based check of a practitioner's text ("Automated RAG System Evaluations", emumba.com). Its threshold is "a
predefined percentage": the number is ours, and means something else with every embedding model. The value is the
cosine, in [-1, 1]; the decision stands in the parts. Compared is the ground truth where there is one, else a
reference of the example's own.
"""

from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import texts_of
from rag_zeval.scorers.asking import Found, Judge, Measure

THRESHOLD = 0.8
SOURCE = "truth or reference"


async def _steps(judge: Judge, example: Example, answer: str) -> Found:
    (text,) = texts_of(example, SOURCE)
    cosine = await judge.similarity(text, answer)
    return Found(cosine, {"threshold": THRESHOLD, "passes": cosine > THRESHOLD})


MEASURES = (Measure("embedding_similarity", _steps, (), ("answer", SOURCE), embeds=True),)
