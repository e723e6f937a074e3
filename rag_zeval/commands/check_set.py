"""`rag-zeval check-set`: is a golden set fit to be kept?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.terminal_tables import print_table

GoldenFile = Annotated[
    Path, typer.Argument(help="JSONL with question, gold_chunk_ids, truth (or gold_answer), slice_tag and origin.")
]


def check_set(file: GoldenFile) -> None:
    """Say what is missing in a golden set, by file and line.

    It should have 50 to 200 questions, each with gold chunks, true answer and slice, none of them twice or nearly so,
    five or more in a slice, half of them from production. Exit status: 0 if nothing is to be mended, 1 with findings,
    2 if FILE cannot be read.
    """
    from rag_zeval.golden.check_set import by_tag, findings, from_production, read_set

    rows, bad = read_set(file)
    of_slices = []
    for name, lines in by_tag(rows):
        of_slices.append((name, str(len(lines)), str(sum(from_production(rows[line]) for line in lines))))
    print_table(("slice", "questions", "from production"), of_slices)
    found = findings(rows, bad)
    if not found:
        print("nothing to mend")
        return
    print_table(("where", "field", "to mend"), [(f"{file}:{one.line}", one.field, one.text) for one in found])
    raise typer.Exit(1)
