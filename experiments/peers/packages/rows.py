"""Reads the rows that a package scores, and writes its scores. Imports only the standard library.

The scripts in this folder run in the package's own environment: `SCRIPT ROWS URL SCORES`.
"""

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MODEL, KEY, AT_ONCE = "judge", "none", 8
Row = dict[str, Any]


def score_file(score: Callable[[list[Row], str], Iterable[tuple[str, float | None]]]) -> None:
    """Score the rows of a file, and write {id: score} once all are scored.

    A row has id, question, answer, ground_truth and contexts (a list of texts). `score(rows, url)` returns the id and
    score of each row. NaN and None mean a missing score.
    """
    rows, url, scores = sys.argv[1:]
    found = dict(score(json.loads(Path(rows).read_text(encoding="utf-8")), url))
    missing_is_none = {id_: None if value is None or value != value else float(value) for id_, value in found.items()}
    Path(scores).write_text(json.dumps(missing_is_none), encoding="utf-8")
