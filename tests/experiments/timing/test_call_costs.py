"""The costs in the docs, and those that the library ships, are what the command measures."""

from __future__ import annotations

from pathlib import Path

from experiments.timing import call_costs
from rag_zeval.files import read_json
from rag_zeval.scorers.registry import COSTS

DOCS = Path(__file__).parents[3] / "docs" / "scorer-costs.md"


def test_docs_and_library_hold_what_the_command_measures() -> None:
    costs = call_costs.all_costs()
    lines = DOCS.read_text(encoding="utf-8").splitlines(keepends=True)
    assert call_costs.table(costs) == "".join(line for line in lines if line.startswith("|"))
    assert call_costs.shipped(costs) == read_json(COSTS)
