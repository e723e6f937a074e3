"""Which of our scorers measures each row of the paper's Tables 1 to 5 and 8, and with which model."""

from collections.abc import Iterator
from dataclasses import dataclass

from eval_benchmarks.originals.packages import ORIGINALS, PREFIX
from eval_benchmarks.output.published import PrintedRow, printed_rows
from rag_zeval.scorers.registry import JUDGE

BENCHMARKS = {1: "wikieval", 2: "ragchecker_meta", 8: "ragchecker_meta"}  # by table
ARM_TABLES = (3, 4, 5)  # they compare judges trained here, on the benchmark that the profile names
ARMS_BENCHMARK = "ragchecker_meta"  # the benchmark of ARM_TABLES in the paper
MEASURED = sorted([*BENCHMARKS, *ARM_TABLES])
TABLES = sorted([*MEASURED, 6, 7])  # 6: training settings, 7: rows of the ranker
NEGATIVE = "poor_answer"  # the WikiEval negative that reproduces the paper's values of BLEU and ROUGE-L
OTHER_NEGATIVE = "ungrounded_answer"  # the negative of the paper's text, written without the context; measured too
TRAINED, RANKER = "curriculum", "sft-ranker"  # arms: the trained judge, and the ranker that it is compared with

# A framework without a correctness metric has several scorers. The paper takes the one that correlates best (A.4).
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
ARMS = {  # rows whose model is trained here: the arm in configs/experiments.yaml, by method
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
    """A row of the paper and the scorers that measure it.

    model: the paper's name of the model, None without one. arm: the arm that trains the model, None if it is not
    trained here. original: whether the method's own package measures the row; our scorer then has a row of its own.
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
        """Whether the method is RAG-Zeval, trained or not."""
        return self.printed.method.startswith("RAG-Zeval")

    @property
    def measured_by(self) -> tuple[str, ...]:
        """The names of the scorers in the bench's results. A ranker has its own, because of its prompt."""
        return ("sft_ranker",) if self.arm == RANKER else self.scorers

    @property
    def model(self) -> str | None:
        return self.printed.model

    @property
    def arm(self) -> str | None:
        return ARMS.get(self.printed.method)

    @property
    def metrics(self) -> dict[str, float | None]:
        """The paper's values by our names of the metrics; None for the negative for which the paper has no values."""
        values: dict[str, float | None] = dict(self.printed.values)
        if self.benchmark != "wikieval":
            return values
        others = {f"{OTHER_NEGATIVE}/{name}": None for name in values}
        return {f"{NEGATIVE}/{name}": value for name, value in values.items()} | others


def paper_rows(table: int, of_arms: str = ARMS_BENCHMARK) -> Iterator[PaperRow]:
    """Yield the rows of one of the Tables 1 to 5 and 8, in the paper's order.

    A row for our scorers is followed by one for the original package, if there is one. of_arms: the benchmark of
    ARM_TABLES.
    """
    benchmark = of_arms if table in ARM_TABLES else BENCHMARKS[table]
    for printed in printed_rows(table):
        scorers = (JUDGE,) if printed.method in ARMS else SCORERS[table][printed.method]
        yield PaperRow(printed, benchmark, scorers)
        if originals := tuple(f"{PREFIX}{name}" for name in scorers if f"{PREFIX}{name}" in ORIGINALS):
            yield PaperRow(printed, benchmark, originals, original=True)
