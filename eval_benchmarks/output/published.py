"""Every number that the paper (arXiv:2505.22430) prints in its tables, and the published values beside our scorers.

All models are the -Instruct ones. The values of GPT-4o are means of 3 trials, of other models of 5; OpenEval's row is
quoted by the paper from OpenEval's own. The model of the row SFT is printed "Qwen2.5-72B", while section 4.4 and
appendix A.4 say Qwen2.5-7B.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

WINS = ("pairwise_best", "pairwise_middle", "pairwise_worst")
CORRELATIONS = ("pearson", "spearman", "kendall")
SIGNIFICANT = "†"  # by the paper's own test, at .01


@dataclass(frozen=True, eq=False)
class PrintedRow:
    """A row of a table: `model` is None for a method without one; `values` by metric; `significant`: marked with †."""

    table: int
    method: str
    model: str | None
    values: Mapping[str, float]
    significant: bool


PRINTED = {  # table: its metrics, and its rows: method | model | values
    1: (WINS, """
        BLEU               | -         |  .860  .860  .860
        ROUGE-L            | -         |  .900  .900  .900
        BERTScore          | -         |  .900  .900  .900
        ARES               | llama-70b | 1.000  .920  .840
        ARES               | qwen-72b  | 1.000  .928  .856
        ARES               | gpt-4o    | 1.000  .956  .912
        TruLens            | llama-70b | 1.000  .860  .720
        TruLens            | qwen-72b  |  .984  .830  .676
        TruLens            | gpt-4o    | 1.000  .940  .900
        RAGAS              | llama-70b |  .960  .910  .860
        RAGAS              | qwen-72b  |  .960  .922  .884
        RAGAS              | gpt-4o    |  .980  .940  .900
        RAG-Checker        | llama-70b | 1.000  .962  .924
        RAG-Checker        | qwen-72b  |  .976  .936  .896
        RAG-Checker        | gpt-4o    |  .973  .933  .893
        OpenEval           | llama-70b |  .960  .950  .940
        SFT                | qwen-7b   |  .828  .828  .828
        RAG-Zeval w/o RL   | llama-70b |  .980  .960  .927
        RAG-Zeval w/o RL   | qwen-72b  |  .993  .957  .883
        RAG-Zeval w/o RL   | qwen-7b   |  .932  .930  .858
        RAG-Zeval          | qwen-7b   | 1.000† .992† .984†"""),
    2: (CORRELATIONS, """
        BLEU               | -         |  .302  .305  .236
        ROUGE-L            | -         |  .395  .428  .335
        BERTScore          | -         |  .350  .437  .341
        ARES               | llama-70b |  .350  .328  .296
        ARES               | qwen-72b  |  .423  .396  .360
        ARES               | gpt-4o    |  .382  .370  .333
        TruLens            | llama-70b |  .428  .453  .366
        TruLens            | qwen-72b  |  .428  .446  .360
        TruLens            | gpt-4o    |  .396  .390  .312
        RAGAS              | ada-002   |  .411  .432  .283
        RAG-Checker        | llama-70b |  .463  .425  .337
        RAG-Checker        | qwen-72b  |  .495  .465  .375
        RAG-Checker        | gpt-4o    |  .499  .459  .369
        SFT                | qwen-7b   |  .359  .350  .320
        RAG-Zeval w/o RL   | llama-70b |  .492  .443  .351
        RAG-Zeval w/o RL   | qwen-72b  |  .521† .482† .388†
        RAG-Zeval w/o RL   | qwen-7b   |  .427  .367  .312
        RAG-Zeval          | qwen-7b   |  .501† .452† .354†"""),
    3: (CORRELATIONS, """
        ranking            | qwen-7b   |  .501† .452† .354†
        best only          | qwen-7b   |  .406  .393  .311"""),
    4: (CORRELATIONS, """
        curriculum         | qwen-7b   |  .501† .452† .354†
        static, 3 responses | qwen-7b  |  .457  .433  .339
        static, 4 responses | qwen-7b  |  .450  .402  .314"""),
    5: (CORRELATIONS, """
        RAG-Zeval          | qwen-7b   |  .501† .452† .354†
        w/o evidence       | qwen-7b   |  .489  .452  .353
        SFT                | qwen-7b   |  .359  .350  .320"""),
    8: (CORRELATIONS, """
        ARES relevancy        | qwen-72b | .423 .396 .360
        ARES faithfulness     | qwen-72b | .372 .356 .320
        TruLens relevancy     | qwen-72b | .368 .320 .289
        TruLens faithfulness  | qwen-72b | .428 .446 .360"""),
}  # fmt: skip
SETTINGS = {  # Table 6, and what section 4 says of the run
    "batch size": 32,
    "optimizer": "AdamW",
    "learning rate": 1e-6,
    "warm-up steps": 10,
    "gradient accumulation": 1,
    "schedule": "linear",
    "KL coefficient": 0.015,
    "rollout temperature": 1.0,
    "rollouts": 8,
    "rollout length": 8192,
    "epochs": 2,
}
SFT_ROWS = {  # Table 7: by number of candidates, questions and instances
    2: (647, 3877),
    3: (970, 3874),
    4: (3883, 3883),
}


def printed_rows(table: int) -> Iterator[PrintedRow]:
    """The rows of one of the tables 1 to 5 and 8, in the paper's order."""
    metrics, lines = PRINTED[table]
    for line in lines.strip().splitlines():
        method, model, cells = (cell.strip() for cell in line.split("|"))
        values = dict(zip(metrics, (float(cell.rstrip(SIGNIFICANT)) for cell in cells.split()), strict=True))
        yield PrintedRow(table, method, None if model == "-" else model, values, SIGNIFICANT in cells)


# Which printed row stands beside which of our scorers in the bench's tables: those without a judge, and Table 8's.
_BESIDE = {
    1: {"BLEU": "bleu", "ROUGE-L": "rouge_l", "SFT": "sft_ranker"},  # the lexical ones against `poor_answer` only
    2: {
        "BLEU": "bleu", "ROUGE-L": "rouge_l", "BERTScore": "bert_score", "RAGAS": "ragas_answer_similarity",
        "SFT": "sft_ranker",
    },
    8: {"TruLens relevancy": "trulens_answer_relevance", "TruLens faithfulness": "trulens_groundedness"},
}  # fmt: skip
_RAGCHECKERS_OWN = {  # its own paper (arXiv:2408.08067), Table 2; it prints no Kendall
    "ragchecker_shipped": {"pearson": 0.4966, "spearman": 0.4695},
    "human": {"pearson": 0.6367, "spearman": 0.5919},
}
PUBLISHED: dict[tuple[str, str, str], float] = {
    ("ragchecker_meta", scorer, metric): value
    for scorer, values in _RAGCHECKERS_OWN.items()
    for metric, value in values.items()
} | {
    ("wikieval", scorer, f"poor_answer/{metric}") if table == 1 else ("ragchecker_meta", scorer, metric): value
    for table, scorers in _BESIDE.items()
    for row in printed_rows(table)
    if (scorer := scorers.get(row.method))
    for metric, value in row.values.items()
}  # fmt: skip
