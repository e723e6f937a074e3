"""Hallucination score of open-rag-eval 0.3.0: how far what was retrieved supports the answer as a whole.

The original asks HHEM; here any claim checker is asked. Known difference: the original cuts the sources, joined by a
space, at 8,192 characters, here longer ones, and those that do not fit the model, have no score.
"""

from __future__ import annotations

from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import texts_of
from rag_zeval.models.nli import Checker
from rag_zeval.scorers.checked_claims import CHECKER
from rag_zeval.scorers.score import AnswerScorer, Failed

LONGEST_SOURCES = 8192  # characters
SOURCES = "chunks or reference"


class Hhem(AnswerScorer):
    """Support in [0, 1] (1: nothing is made up) of each answer by all chunks.

    Where there are none, by a reference of the example's own.
    """

    name, asks = "hhem", CHECKER
    needs = ("answer", SOURCES)

    def __init__(self, checker: Checker):
        self._checker = checker
        self.identity = f"hhem {checker.identity}"

    def value(self, example: Example, answer: str) -> float:
        sources = " ".join(texts_of(example, SOURCES))
        if len(sources) > LONGEST_SOURCES:
            raise Failed(f"the sources have {len(sources)} characters, more than {LONGEST_SOURCES}")
        (value,) = self._checker.score([(sources, answer)])
        if value is None:
            raise Failed("sources and answer do not fit the checker")
        return value
