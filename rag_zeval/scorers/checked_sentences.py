"""An answer's sentences, each judged by a claim checker: the answer is as well supported as the least of them.

As MiniCheck is to be used (Tang et al. 2024, arXiv:2404.10774): one sentence at a time, a reference that does not fit
in pieces (see `checked_claims.support`). Of a claim, which is one sentence, it is the checker's own support.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rag_zeval.judge.example import Example
from rag_zeval.models.nli import Checker
from rag_zeval.scorers.checked_claims import support
from rag_zeval.scorers.score import Score, Scored, Scorer
from rag_zeval.scorers.sentences import sentences_of
from rag_zeval.text import one_line


class CheckedSentences(Scorer):
    """The smallest support of a sentence, in [0, 1]; no score if one does not fit, or for an answer without any."""

    name = "checked_sentences"
    needs = ("answer", "reference")

    def __init__(self, checker: Checker):
        self._checker = checker
        self.identity = f"checked sentences {checker.identity}"

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        for example in examples:
            yield Scored(example.id, tuple(self._score(example.reference, answer) for answer in example.answers))

    def _score(self, reference: str, answer: str) -> Score:
        try:
            found = [support(self._checker, reference, sentence) for sentence in sentences_of(answer)]
        except Exception as error:  # out of memory, or what a checker's own code raises
            return Score(None, f"failed: {one_line(f'{type(error).__name__}: {error}')}")
        whole = [value for value in found if value is not None]
        if len(whole) < len(found):
            return Score(None, "failed: a sentence, with one of the reference, does not fit the checker")
        return Score(min(whole)) if whole else Score(None, "failed: no sentence")
