"""`rag-zeval check-set`: is a golden set fit to be kept?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.terminal_tables import print_table

GoldenFile = Annotated[
    Path,
    typer.Argument(
        help="JSONL with the fields question, gold_chunk_ids, truth (or gold_answer), slice_tag and origin."
    ),
]


def check_set(file: GoldenFile) -> None:
    """Check a golden set, and list what to fix by file and line.

    A good set has 50 to 200 questions, each with gold chunks, a ground truth and a slice. It has no duplicates or near
    duplicates and at least five questions in each slice. Half of the questions come from production.

    The exit status is 0 if there is nothing to fix, 1 if there is, and 2 if FILE cannot be read.
    """
    from rag_zeval.golden.check_set import by_tag, findings, from_production
    from rag_zeval.golden.golden_rows import read_lines

    rows, bad = read_lines(file, dict)
    of_slices = []
    for name, lines in by_tag(rows):
        of_slices.append((name, str(len(lines)), str(sum(from_production(rows[line]) for line in lines))))
    print_table(("slice", "questions", "from production"), of_slices)
    found = findings(rows, bad)
    if not found:
        print("nothing to fix")
        return
    print_table(("where", "field", "what to fix"), [(f"{file}:{one.line}", one.field, one.text) for one in found])
    raise typer.Exit(1)
