"""`rag-zeval report` as a user meets it; the page itself: tests/rag_zeval/report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.files import json_line

CLAIM = {"claim": "c", "is_supported": True, "grounding_evidence": ["r"], "analysis": ""}
ROW: dict[str, Any] = {
    "id": "1|m", "case": "1", "slice_tag": None, "metric": "m", "trial": 0, "systems": ["$\\frac{", "b"],
    "question": "q", "reference": "r", "answers": ["a", "b"], "scores": [1, None],
    "statuses": ["ok", "failed: no claims"], "status": "failed: no claims",
    "trajectory": [{"atomic_claims": [CLAIM]}, {"atomic_claims": []}],
    "reply": None, "parts": {}, "calls": 1, "cached": 0, "prompt_tokens": None, "completion_tokens": 3, "seconds": 1,
    "latency_s": None,
}  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., None]:
    """Writes r.jsonl, of a good row and others."""

    def write(*rows: dict[str, Any]) -> None:
        (tmp_path / "r.jsonl").write_bytes(b"".join(map(json_line, [ROW, *rows])))

    return write


def test_page_and_figures_are_written(run: Any, write: Any, tmp_path: Path) -> None:
    write({**ROW, "id": "2|m", "case": "2", "slice_tag": "s"}, {"id": "spent before", "calls": 7})
    done = run("report", "r.jsonl", "--html", "p.html", "--figures", "figures")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "report: p.html", *(f"figure: figures/{name}.png" for name in ("means", "histograms", "slices"))
    ]  # fmt: skip
    assert (tmp_path / "p.html").read_text().count('\n{"case":') == 2
    for path in (tmp_path / "figures").iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"question": 7}, "field 'question' must be str, found int"),
        ({"answers": ["a"]}, "field 'answers': has 1, must have one for each of 'systems'"),
        ({"scores": [True, None]}, "field 'scores': holds True"),
        ({"statuses": ["ok", None]}, "field 'statuses': holds None"),
        ({"trajectory": [None]}, "field 'trajectory': has 1, must have one for each of 'systems'"),
        ({"trajectory": [{"atomic_claims": [{**CLAIM, "claim": 1}]}] * 2}, "field 'claim' must be str, found int"),
        ({"trajectory": [{"atomic_claims": [{**CLAIM, "grounding_evidence": [1]}]}] * 2}, "must be a list of strings"),
    ],
)
def test_a_bad_row_is_named_before_anything_is_written(
    change: Any, said: str, run: Any, write: Any, tmp_path: Path
) -> None:
    write({**ROW, "id": "2|m", **change})
    done = run("report", "r.jsonl", "--html", "p.html", "--figures", "figures")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: r.jsonl:2: ") and said in done.stderr and done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["r.jsonl"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["r.jsonl"], "nothing to write: add --html FILE or --figures FOLDER"),
        (["r.jsonl", "--html", "r.jsonl"], "--html r.jsonl is the same file as INPUT"),
        (["no.jsonl", "--html", "p.html"], "no.jsonl: cannot be read"),
        (["empty.jsonl", "--html", "p.html"], "empty.jsonl: no rows"),
        (["nan.jsonl", "--html", "p.html"], "nan.jsonl:1: not valid JSON: NaN is not a number"),
    ],
)
def test_what_cannot_be_used_is_one_line(words: list[str], said: str, run: Any, write: Any, tmp_path: Path) -> None:
    write()
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "nan.jsonl").write_text(json.dumps({**ROW, "scores": [float("nan"), 1.0]}))
    done = run("report", *words)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
