"""Which of our scorers, by which model, measures each row of the paper's Tables 1, 2 and 8."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eval_benchmarks.output.published import PrintedRow, printed_rows
from rag_zeval.scorers.registry import JUDGE

BENCHMARKS = {1: "wikieval", 2: "ragchecker_meta", 8: "ragchecker_meta"}  # of each table
NEGATIVE = "poor_answer"  # of WikiEval: the one against which the paper's lexical values come out
TRAINED, RANKER = "ranking", "sft"  # arms: the judge that is trained, and the ranker it is compared with

# Several scorers: a framework without a correctness metric; the paper takes the one that correlates best (A.4).
SCORERS: dict[int, dict[str, tuple[str, ...]]] = {
    1: {
        "BLEU": ("bleu",),
        "ROUGE-L": ("rouge_l",),
        "BERTScore": ("bert_score",),
        "ARES": ("ares_answer_faithfulness",),
        "TruLens": ("trulens_groundedness",),
        "RAGAS": ("ragas_faithfulness",),
        "RAG-Checker": ("ragchecker_faithfulness",),
        "OpenEval": ("openeval_faithfulness",),
        "SFT": (JUDGE,),  # the card of its model says that it is a ranker
        "RAG-Zeval w/o RL": (JUDGE,),
        "RAG-Zeval": (JUDGE,),
    },
    2: {
        "BLEU": ("bleu",),
        "ROUGE-L": ("rouge_l",),
        "BERTScore": ("bert_score",),
        "ARES": ("ares_answer_relevance", "ares_answer_faithfulness"),
        "TruLens": ("trulens_answer_relevance", "trulens_groundedness"),
        "RAGAS": ("ragas_answer_similarity",),
        "RAG-Checker": ("ragchecker_precision",),
        "SFT": (JUDGE,),
        "RAG-Zeval w/o RL": (JUDGE,),
        "RAG-Zeval": (JUDGE,),
    },
    8: {
        "ARES relevancy": ("ares_answer_relevance",),
        "ARES faithfulness": ("ares_answer_faithfulness",),
        "TruLens relevancy": ("trulens_answer_relevance",),
        "TruLens faithfulness": ("trulens_groundedness",),
    },
}
ARMS = {"RAG-Zeval": TRAINED, "SFT": RANKER}  # rows whose model is trained here


@dataclass(frozen=True)
class PaperRow:
    """A printed row, and what measures it.

    model: the paper's name of the model that is asked, None where none is; arm: which training makes it, else None.
    """

    printed: PrintedRow
    benchmark: str
    scorers: tuple[str, ...]

    @property
    def model(self) -> str | None:
        return self.printed.model

    @property
    def arm(self) -> str | None:
        return ARMS.get(self.printed.method)

    def metric(self, printed: str) -> str:
        """Our name of a printed metric."""
        return f"{NEGATIVE}/{printed}" if self.benchmark == "wikieval" else printed


def paper_rows(table: int) -> Iterator[PaperRow]:
    """The rows of Table 1, 2 or 8, in the paper's order."""
    for printed in printed_rows(table):
        yield PaperRow(printed, BENCHMARKS[table], SCORERS[table][printed.method])
