"""An answer's sentences, each judged by a claim checker: the answer is as well supported as the least of them.

As MiniCheck is to be used (Tang et al. 2024, arXiv:2404.10774): one sentence at a time, a reference that does not fit
in pieces (see `checked_claims.support`). Of a claim, which is one sentence, it is the checker's own support.
"""

from __future__ import annotations

from rag_zeval.judge.example import Example
from rag_zeval.models.nli import Checker
from rag_zeval.scorers.checked_claims import CHECKER, support
from rag_zeval.scorers.score import AnswerScorer, Failed
from rag_zeval.scorers.sentences import sentences_of


class CheckedSentences(AnswerScorer):
    """The smallest support of a sentence, in [0, 1]; no score if one does not fit, or for an answer without any."""

    name, asks = "checked_sentences", CHECKER
    needs = ("answer", "reference")

    def __init__(self, checker: Checker):
        self._checker = checker
        self.identity = f"checked sentences {checker.identity}"

    def value(self, example: Example, answer: str) -> float:
        found = [support(self._checker, example.reference, sentence) for sentence in sentences_of(answer)]
        whole = [value for value in found if value is not None]
        if len(whole) < len(found):
            raise Failed("a sentence, with one of the reference, does not fit the checker")
        if not whole:
            raise Failed("no sentence")
        return min(whole)
