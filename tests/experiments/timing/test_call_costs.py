"""The table of costs in the docs is what the command prints."""

from __future__ import annotations

from pathlib import Path

from experiments.timing import call_costs

DOCS = Path(__file__).parents[3] / "docs" / "scorer-costs.md"


def test_the_docs_hold_the_table_that_the_command_prints() -> None:
    lines = DOCS.read_text(encoding="utf-8").splitlines(keepends=True)
    assert call_costs.table() == "".join(line for line in lines if line.startswith("|"))
