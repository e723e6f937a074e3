"""Result rows as other commands read them: what they were judged by, and files of before that was told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.results import read_judged

CLAIM = {"claim": "c", "is_supported": True, "grounding_evidence": [], "analysis": ""}
ROW: Row = {
    "id": "1|m", "case": "1", "slice_tag": None, "metric": "m", "trial": 0, "systems": ["a", "b"], "question": "q",
    "reference": "r", "answers": ["one", ""], "scores": [1.0, None], "statuses": ["ok", "failed: no answer"],
    "status": "failed: no answer", "trajectory": [{"atomic_claims": [CLAIM]}, None], "latency_s": None,
}  # fmt: skip


def write(folder: Path, **told: Any) -> Path:
    (folder / "results.jsonl").write_text(json.dumps({**ROW, **told}) + "\n")
    return folder / "results.jsonl"


def test_a_file_of_before_it_was_told_shows_what_it_has(tmp_path: Path) -> None:
    first, second = read_judged(write(tmp_path))
    assert (first.reference, first.reference_kind, first.chunks) == ("r", None, ())
    assert first.sources == [("reference", "r")]
    assert (first.claims, second.claims, second.status) == ((CLAIM,), None, "failed: no answer")


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"reference_kind": 3}, "field 'reference_kind' must be str or NoneType"),
        ({"chunks": "c"}, "field 'chunks' must be list"),
        ({"chunks": [3]}, "field 'chunks': must be a list of strings"),
        ({"trajectory": [None]}, "field 'trajectory': has 1, must have one for each of 'systems'"),
    ],
)
def test_what_is_none_of_ours_is_named(tmp_path: Path, told: Row, message: str) -> None:
    path = write(tmp_path, **told)
    with pytest.raises(InputError) as error:
        read_judged(path)
    assert str(error.value).startswith(f"{path}:1: {message}")
