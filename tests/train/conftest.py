from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# verl reads these when it is first imported
os.environ.setdefault("VERL_PLATFORM", "cpu")
os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "train.verl_cpu")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def repository() -> Path:
    return ROOT


@pytest.fixture
def write_responses(tmp_path: Path) -> Callable[..., str]:
    """Writes rows as a synthesize run leaves them; returns the file's path."""

    def write(rows: list[dict[str, Any]], name: str = "responses.jsonl") -> str:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return write
