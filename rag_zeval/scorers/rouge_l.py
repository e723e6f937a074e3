"""ROUGE-L F1 as the paper's tables have it: rouge-score's own tokens (lower case, a-z and 0-9), no stemmer.

Lin 2004, through Google's rouge-score.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version

from rag_zeval.judge.evaluator import Example
from rag_zeval.scorers.score import Score, Scored


class RougeL:
    """F1 in [0, 1] of the longest common subsequence of each answer and the reference."""

    name = "rouge_l"
    group: int | None = None

    def __init__(self) -> None:
        from rouge_score.rouge_scorer import RougeScorer

        self.identity = f"rouge-score {version('rouge-score')} rougeL no stemmer"
        self._rouge = RougeScorer(["rougeL"], use_stemmer=False)

    def score(self, examples: Iterable[Example]) -> Iterator[Scored]:
        for example in examples:
            yield Scored(example.id, tuple(Score(self.value(answer, example.reference)) for answer in example.answers))

    def value(self, answer: str, reference: str) -> float:
        """ROUGE-L F1 of one answer; 0 for an empty one."""
        return float(self._rouge.score(target=reference, prediction=answer)["rougeL"].fmeasure)
