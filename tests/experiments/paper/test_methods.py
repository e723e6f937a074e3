"""Every printed row has scorers that exist, and every printed value is the paper's."""

import pytest

from eval_benchmarks.originals.packages import ORIGINALS
from eval_benchmarks.output.published import PRINTED, SETTINGS, SFT_ROWS, printed_rows
from experiments.paper.methods import paper_rows
from rag_zeval.scorers.registry import SCORERS

PACKAGES = ("TruLens", "RAGAS", "RAG-Checker")  # methods whose own package is a row beside ours
# The paper's tables once more, typed from another copy: method, model, values; a dagger after the model.
TABLES = {
    1: """BLEU;;860 860 860
ROUGE-L;;900 900 900
BERTScore;;900 900 900
ARES;llama-70b;1000 920 840
ARES;qwen-72b;1000 928 856
ARES;gpt-4o;1000 956 912
TruLens;llama-70b;1000 860 720
TruLens;qwen-72b;984 830 676
TruLens;gpt-4o;1000 940 900
RAGAS;llama-70b;960 910 860
RAGAS;qwen-72b;960 922 884
RAGAS;gpt-4o;980 940 900
RAG-Checker;llama-70b;1000 962 924
RAG-Checker;qwen-72b;976 936 896
RAG-Checker;gpt-4o;973 933 893
OpenEval;llama-70b;960 950 940
SFT;qwen-7b;828 828 828
RAG-Zeval w/o RL;llama-70b;980 960 927
RAG-Zeval w/o RL;qwen-72b;993 957 883
RAG-Zeval w/o RL;qwen-7b;932 930 858
RAG-Zeval;qwen-7b†;1000 992 984""",
    2: """BLEU;;302 305 236
ROUGE-L;;395 428 335
BERTScore;;350 437 341
ARES;llama-70b;350 328 296
ARES;qwen-72b;423 396 360
ARES;gpt-4o;382 370 333
TruLens;llama-70b;428 453 366
TruLens;qwen-72b;428 446 360
TruLens;gpt-4o;396 390 312
RAGAS;ada-002;411 432 283
RAG-Checker;llama-70b;463 425 337
RAG-Checker;qwen-72b;495 465 375
RAG-Checker;gpt-4o;499 459 369
SFT;qwen-7b;359 350 320
RAG-Zeval w/o RL;llama-70b;492 443 351
RAG-Zeval w/o RL;qwen-72b†;521 482 388
RAG-Zeval w/o RL;qwen-7b;427 367 312
RAG-Zeval;qwen-7b†;501 452 354""",
    3: """ranking;qwen-7b†;501 452 354
best only;qwen-7b;406 393 311""",
    4: """curriculum;qwen-7b†;501 452 354
static, 3 responses;qwen-7b;457 433 339
static, 4 responses;qwen-7b;450 402 314""",
    5: """RAG-Zeval;qwen-7b†;501 452 354
w/o evidence;qwen-7b;489 452 353
SFT;qwen-7b;359 350 320""",
    8: """ARES relevancy;qwen-72b;423 396 360
ARES faithfulness;qwen-72b;372 356 320
TruLens relevancy;qwen-72b;368 320 289
TruLens faithfulness;qwen-72b;428 446 360""",
}


def test_every_printed_value_is_the_papers() -> None:
    assert set(PRINTED) == set(TABLES)
    for table, text in TABLES.items():
        rows = list(printed_rows(table))
        lines = [line.split(";") for line in text.splitlines()]
        assert len(rows) == len(lines)
        for row, (method, model, values) in zip(rows, lines, strict=True):
            assert (row.table, row.method, row.model or "") == (table, method, model.rstrip("†"))
            assert [round(1000 * value) for value in row.values.values()] == [int(value) for value in values.split()]
            assert row.significant == model.endswith("†")
    assert (SETTINGS["batch size"], SETTINGS["rollouts"], SETTINGS["KL coefficient"]) == (32, 8, 0.015)
    questions, instances = (sum(column) for column in zip(*SFT_ROWS.values(), strict=True))
    assert (questions, instances) == (5500, 11634)


@pytest.mark.parametrize(("table", "rows"), [(1, 21), (2, 18), (3, 2), (4, 3), (5, 3), (8, 4)])
def test_every_row_has_scorers_that_exist(table: int, rows: int) -> None:
    listed = [row for row in paper_rows(table) if not row.original]
    assert len(listed) == rows
    packages = [row.printed.method.split()[0] for row in paper_rows(table) if row.original]
    known = [row.printed.method.split()[0] for row in listed if row.printed.method.split()[0] in PACKAGES]
    assert packages == known and all(
        set(row.scorers) <= set(ORIGINALS if row.original else SCORERS) for row in paper_rows(table)
    )
    for row in listed:
        assert (row.arm is not None) == (table in (3, 4, 5) or row.printed.method in ("RAG-Zeval", "SFT"))
