from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from train.launch import MARK

# verl reads these when it is first imported
os.environ.setdefault("VERL_PLATFORM", "cpu")
os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "train.verl_cpu")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def repository() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def processes_of() -> Callable[[Path], list[psutil.Process]]:
    """Finds the live processes that bear the mark of the run in a folder."""

    def find(out_dir: Path) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == str(out_dir) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    return find


@pytest.fixture
def write_responses(tmp_path: Path) -> Callable[..., str]:
    """Writes rows as a synthesize run leaves them; returns the file's path."""

    def write(rows: list[dict[str, Any]], name: str = "responses.jsonl") -> str:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return write
