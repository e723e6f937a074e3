from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.audit.items import read_items
from rag_zeval.csv_files import sheet_rows, sheet_text

SLICES = (None, "billing", "law")


def claim(text: str, supported: bool, analysis: str = "As it says.") -> dict[str, Any]:
    return {"claim": text, "is_supported": supported, "grounding_evidence": [], "analysis": analysis}


def result_row(case: str, claims: Sequence[dict[str, Any]] | None, **other: Any) -> dict[str, Any]:
    """A row as `rag-zeval evaluate` writes it, as far as others read it."""
    score = sum(c["is_supported"] for c in claims) / len(claims) if claims else None
    status = "ok" if claims else "failed: format: no list"
    return {
        "id": f"{case}|rag_zeval",
        "case": case,
        "slice_tag": None,
        "metric": "rag_zeval",
        "trial": 0,
        "systems": ["answer"],
        "question": f"Question {case}?",
        "reference": "It is so.",
        "answers": [f"Answer {case}."],
        "scores": [score],
        "statuses": [status],
        "status": status,
        "trajectory": None if claims is None else [{"id": "A", "atomic_claims": list(claims)}],
        "latency_s": None,
        **other,
    }


@pytest.fixture
def write_results(tmp_path: Path) -> Callable[..., Path]:
    """Writes result rows of cases with 1 to 4 claims, of which `support` decides; the file."""

    def write(cases: int = 40, support: Callable[[random.Random], bool] = lambda rng: rng.random() < 0.8) -> Path:
        sizes, verdicts = random.Random(0), random.Random(1)
        rows = []
        for case in range(cases):
            texts = [f"Claim {case}.{number}." for number in range(sizes.randint(1, 4))]
            claims = [claim(text, support(verdicts)) for text in texts]
            rows.append(result_row(str(case), claims, slice_tag=SLICES[case % 3]))
        path = tmp_path / "results.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


@pytest.fixture
def fill() -> Callable[..., None]:
    """Labels a sheet: `say(score)` is what a person writes for what the judge gave this score."""

    def fill(sheet: Path, results: Path, say: Callable[[float], str], unit: str = "claim", note: str = "") -> None:
        scores = {item.id: item.score for item in read_items(results, unit).items}
        rows = [{**row, "label": say(scores[row["id"]]), "note": note} for _, row in sheet_rows(sheet)]
        sheet.write_text(sheet_text(list(rows[0]), [list(row.values()) for row in rows]), encoding="utf-8", newline="")

    return fill
