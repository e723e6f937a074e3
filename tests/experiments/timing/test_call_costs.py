"""The costs in the docs, and those that the library ships, are what the command measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.timing import call_costs
from rag_zeval.scorers.registry import COSTS

DOCS = Path(__file__).parents[3] / "docs" / "scorer-costs.md"


def test_docs_and_library_hold_what_the_command_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "costs.json"
    monkeypatch.setattr(call_costs, "COSTS", written)
    assert call_costs.main([]) == 0
    lines = DOCS.read_text(encoding="utf-8").splitlines(keepends=True)
    assert capsys.readouterr().out == "".join(line for line in lines if line.startswith("|"))
    assert written.read_bytes() == COSTS.read_bytes()
