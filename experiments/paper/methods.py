"""Which of our scorers, by which model, measures each row of the paper's Tables 1 to 5 and 8."""

from collections.abc import Iterator
from dataclasses import dataclass

from eval_benchmarks.originals.packages import ORIGINALS, PREFIX
from eval_benchmarks.output.published import PrintedRow, printed_rows
from rag_zeval.scorers.registry import JUDGE

BENCHMARKS = {1: "wikieval", 2: "ragchecker_meta", 8: "ragchecker_meta"}  # of each table
ARM_TABLES = (3, 4, 5)  # those that compare judges trained here, on the benchmark that the profile names
ARMS_BENCHMARK = "ragchecker_meta"  # in the paper
MEASURED = sorted([*BENCHMARKS, *ARM_TABLES])
TABLES = sorted([*MEASURED, 6, 7])  # and those of settings and rows
NEGATIVE = "poor_answer"  # of WikiEval: the one against which the paper's lexical values come out
OTHER_NEGATIVE = "ungrounded_answer"  # written without the context, as the paper's text says; measured too
TRAINED, RANKER = "curriculum", "sft-ranker"  # arms: the judge, and the ranker it is compared with

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
        "RAG-Zeval w/o RL": (JUDGE,),
    },
    2: {
        "BLEU": ("bleu",),
        "ROUGE-L": ("rouge_l",),
        "BERTScore": ("bert_score",),
        "ARES": ("ares_answer_relevance", "ares_answer_faithfulness"),
        "TruLens": ("trulens_answer_relevance", "trulens_groundedness"),
        "RAGAS": ("ragas_answer_similarity",),
        "RAG-Checker": ("ragchecker_precision",),
        "RAG-Zeval w/o RL": (JUDGE,),
    },
    8: {
        "ARES relevancy": ("ares_answer_relevance",),
        "ARES faithfulness": ("ares_answer_faithfulness",),
        "TruLens relevancy": ("trulens_answer_relevance",),
        "TruLens faithfulness": ("trulens_groundedness",),
    },
}
ARMS = {  # rows whose model is trained here: by method, what configs/experiments.yaml calls it
    "RAG-Zeval": TRAINED,
    "ranking": TRAINED,
    "curriculum": TRAINED,
    "best only": "best-only",
    "static, 3 responses": "static-3",
    "static, 4 responses": "static-4",
    "w/o evidence": "no-evidence",
    "SFT": RANKER,
}


@dataclass(frozen=True)
class PaperRow:
    """A printed row, and what measures it.

    model: the paper's name of the model that is asked, None where none is; arm: which training makes it, else None.
    original: measured by the method's own package, beside the row of ours.
    """

    printed: PrintedRow
    benchmark: str
    scorers: tuple[str, ...]
    original: bool = False

    @property
    def name(self) -> str:
        return f"{self.printed.method}, its package" if self.original else self.printed.method

    @property
    def is_ours(self) -> bool:
        """Whether it is RAG-Zeval, trained or not."""
        return self.printed.method.startswith("RAG-Zeval")

    @property
    def measured_by(self) -> tuple[str, ...]:
        """The names under which the bench has its scores: a ranker's own is told from its prompt."""
        return ("sft_ranker",) if self.arm == RANKER else self.scorers

    @property
    def model(self) -> str | None:
        return self.printed.model

    @property
    def arm(self) -> str | None:
        return ARMS.get(self.printed.method)

    @property
    def metrics(self) -> dict[str, float | None]:
        """The printed value by our name of the metric; None for those against the negative that it leaves out."""
        values: dict[str, float | None] = dict(self.printed.values)
        if self.benchmark != "wikieval":
            return values
        others = {f"{OTHER_NEGATIVE}/{name}": None for name in values}
        return {f"{NEGATIVE}/{name}": value for name, value in values.items()} | others


def paper_rows(table: int, of_arms: str = ARMS_BENCHMARK) -> Iterator[PaperRow]:
    """The rows of one of the Tables 1 to 5 and 8, in the paper's order, each by our scorers and by the original's.

    of_arms: the benchmark of ARM_TABLES.
    """
    benchmark = of_arms if table in ARM_TABLES else BENCHMARKS[table]
    for printed in printed_rows(table):
        scorers = (JUDGE,) if printed.method in ARMS else SCORERS[table][printed.method]
        yield PaperRow(printed, benchmark, scorers)
        if originals := tuple(f"{PREFIX}{name}" for name in scorers if f"{PREFIX}{name}" in ORIGINALS):
            yield PaperRow(printed, benchmark, originals, original=True)
