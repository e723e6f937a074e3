"""Cosine of the vectors of an answer and the ground truth, without a judge.

It is the rule-based check of a practitioner's text ("Automated RAG System Evaluations", emumba.com), whose threshold is
"a predefined percentage". A threshold means something else for every embedding model, so you set it with
`evaluate --threshold`. The value is in [-1, 1]. If there is no ground truth, a reference that the example gives itself
takes its place.
"""

from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import texts_of
from rag_zeval.scorers.asking import Found, Judge, Measure

SOURCE = "truth or reference"


async def _steps(judge: Judge, example: Example, answer: str) -> Found:
    (text,) = texts_of(example, SOURCE)
    return Found(await judge.similarity(text, answer), {})


MEASURES = (Measure("embedding_similarity", _steps, (), ("answer", SOURCE), embeds=True),)
