import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.audit.sheet import read_items
from rag_zeval.csv_files import sheet_rows, sheet_text
from rag_zeval.files import json_line

SLICES = (None, "billing", "law")


@pytest.fixture
def write_results(tmp_path: Path, result_row: Any) -> Callable[..., Path]:
    """Writes result rows of cases with 1 to 4 claims, of which `support` decides; the file."""

    def write(cases: int = 40, support: Callable[[random.Random], bool] = lambda rng: rng.random() < 0.8) -> Path:
        sizes, verdicts = random.Random(0), random.Random(1)
        rows = []
        for case in range(cases):
            claims = [
                {"claim": f"Claim {case}.{number}.", "is_supported": support(verdicts), "grounding_evidence": [],
                 "analysis": "As it says."}
                for number in range(sizes.randint(1, 4))
            ]  # fmt: skip
            score = sum(claim["is_supported"] for claim in claims) / len(claims)
            told = {"slice_tag": SLICES[case % 3], "trajectory": [{"id": "A", "atomic_claims": claims}]}
            rows.append(result_row(str(case), "rag_zeval", score, **told))
        path = tmp_path / "results.jsonl"
        path.write_bytes(b"".join(map(json_line, rows)))
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
