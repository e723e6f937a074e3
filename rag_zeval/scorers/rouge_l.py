"""ROUGE-L F1 as the paper's tables have it: rouge-score's own tokens (lower case, a-z and 0-9), no stemmer.

Of a Chinese or Arabic text these are the numbers alone: where texts are not mostly ASCII, tokens are words of any
script.
Lin 2004, through Google's rouge-score.
"""

from __future__ import annotations

from importlib.metadata import version

from rag_zeval.errors import needed
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import ANY_ANSWER
from rag_zeval.judge.words import composed, mostly_ascii, words
from rag_zeval.scorers.score import AnswerScorer


class _Words:
    """A tokenizer as rouge-score takes it."""

    def tokenize(self, text: str) -> list[str]:
        return [word for word in words(text.lower()) if word[0].isalnum()]


class RougeL(AnswerScorer):
    """F1 in [0, 1] of the longest common subsequence of each answer and the reference."""

    name = "rouge_l"
    needs = (ANY_ANSWER, "reference")

    def __init__(self) -> None:
        with needed("rouge-score", self.name):
            from rouge_score.rouge_scorer import RougeScorer

        self.identity = f"rouge-score {version('rouge-score')} rougeL no stemmer, else words of any script"
        self._rouge = RougeScorer(["rougeL"], use_stemmer=False)
        self._any_script = RougeScorer(["rougeL"], tokenizer=_Words())

    def value(self, example: Example, answer: str) -> float:
        """ROUGE-L F1 of one answer; 0 for an empty one."""
        answer, reference = composed(answer), composed(example.reference)
        rouge = self._rouge if mostly_ascii(answer, reference) else self._any_script
        return float(rouge.score(target=reference, prediction=answer)["rougeL"].fmeasure)
