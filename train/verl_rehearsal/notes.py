"""Notes of the rehearsal's vLLM workers, as JSON lines in the run's folder. They are read after the workers' end."""

import os
from pathlib import Path
from typing import Any

from rag_zeval.files import Row, json_line, read_jsonl
from train.leftovers import MARK

FILE = "rehearsal.jsonl"


def note(event: str, **values: Any) -> None:
    """Append a line in a single write, so that lines of several processes do not mix."""
    with open(Path(os.environ[MARK]) / FILE, "ab", buffering=0) as notes:
        notes.write(json_line({"event": event, "replica": os.environ.get("VERL_REPLICA_RANK"), **values}))


def read_notes(run: Path) -> list[Row]:
    """Return all notes of all attempts."""
    return read_jsonl(run / FILE, {"event": str})
