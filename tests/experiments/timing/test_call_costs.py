"""The costs in the docs, and those that the library ships, are what the command measures."""

import shutil
from pathlib import Path

import pytest

from experiments.timing import call_costs
from rag_zeval.scorers.registry import COSTS

ROOT = Path(__file__).parents[3]


def test_docs_and_library_hold_what_the_command_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = {"COSTS": tmp_path / "costs.json", "DOCS": tmp_path / "scorer-costs.md"}
    shutil.copy(call_costs.DOCS, tmp_path)
    for name, path in written.items():
        monkeypatch.setattr(call_costs, name, path)
    assert call_costs.main([]) == 0
    assert written["DOCS"].read_text().endswith(capsys.readouterr().out)
    committed = {"COSTS": COSTS, "DOCS": ROOT / "docs" / "scorer-costs.md"}
    for name, path in written.items():
        assert path.read_bytes() == committed[name].read_bytes(), f"run {call_costs.__name__}"
