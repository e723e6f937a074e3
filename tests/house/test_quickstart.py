"""docs/quickstart.ipynb, run as a reader runs it: every cell, in an empty folder, without a key or a network."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "quickstart.ipynb"
SECONDS = 120  # what the notebook promises


def shown(cell: Any) -> str:
    """All that a cell printed or showed, as text."""
    return "".join(one.get("text", "") + one.get("data", {}).get("text/plain", "") for one in cell.outputs)


def test_the_quick_start_runs_and_its_gate_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jupyter: dict[str, Any]
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # as if activated
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):  # where nothing listens: this machine alone can be reached
        for spelt in (name, name.lower()):
            monkeypatch.setenv(spelt, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    started = time.monotonic()
    nbclient.NotebookClient(notebook, timeout=SECONDS, **jupyter).execute()  # raises where a cell does
    assert time.monotonic() - started < SECONDS
    code = {cell.source: shown(cell) for cell in notebook.cells if cell.cell_type == "code"}
    [gate] = [text for source, text in code.items() if "rag-zeval gate" in source]
    assert "exit status: 1" in gate and "price" in gate
    [compared] = [text for source, text in code.items() if "rag-zeval compare" in source]
    assert "price" in compared and "-0.333" in compared  # ten of fifteen answers now have a second, false claim
    assert (tmp_path / "quickstart" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "quickstart" / "new.results.jsonl").read_text().count("\n") == 30


def test_the_notebook_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells and not any(cell.outputs or cell.execution_count for cell in cells)
