"""Hallucination score of open-rag-eval 0.3.0: how far what was retrieved supports the answer as a whole.

The original asks HHEM; here any claim checker is asked. Known difference: the original cuts the sources, joined by a
space, at 8,192 characters, here longer ones, and those that do not fit the model, have no score.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import given
from rag_zeval.models.nli import Checker
from rag_zeval.scorers.score import Score, Scored, Scorer
from rag_zeval.text import one_line

LONGEST_SOURCES = 8192  # characters
SOURCES = "chunks or reference"


class Hhem(Scorer):
    """Support in [0, 1] (1: nothing is made up) of each answer by all chunks.

    Where there are none, by a reference of the example's own.
    """

    name = "hhem"
    needs = ("answer", SOURCES)

    def __init__(self, checker: Checker):
        self._checker = checker
        self.identity = f"hhem {checker.identity}"

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        for example in examples:
            sources = given(example, SOURCES)
            assert sources is not None
            joined = " ".join(sources.texts)
            yield Scored(example.id, tuple(self._score(joined, answer) for answer in example.answers))

    def _score(self, sources: str, answer: str) -> Score:
        if len(sources) > LONGEST_SOURCES:
            return Score(None, f"failed: the sources have {len(sources)} characters, more than {LONGEST_SOURCES}")
        try:
            (value,) = self._checker.score([(sources, answer)])
        except Exception as error:  # out of memory, or what a checker's own code raises
            return Score(None, f"failed: {one_line(f'{type(error).__name__}: {error}')}")
        return Score(value) if value is not None else Score(None, "failed: sources and answer do not fit the checker")
