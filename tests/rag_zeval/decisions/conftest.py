from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.decisions.sides import Side
from rag_zeval.files import json_line
from rag_zeval.results import Judged

Scores = Mapping[str, float | None]  # by case


@pytest.fixture(scope="session")
def side() -> Callable[..., Side]:
    """A side of these scores by case, of one metric; each case's slice is what stands before a colon in its id."""

    def side(scores: Scores, metric: str = "m", name: str = "x") -> Side:
        judged = {}
        for case, score in scores.items():
            status = "failed: no claims" if score is None else "ok"
            judged[case] = Judged(case, f"{case}?", _tag(case), "answer", metric, "a", "r", score, status, None)
        return Side(name, {metric: judged})

    return side


@pytest.fixture
def write_results(tmp_path: Path, result_row: Any) -> Callable[..., Path]:
    """Writes a result file of these scores by metric and case; keywords are fields of every row."""

    def write(name: str, scores: Mapping[str, Scores] | Scores, /, **fields: Any) -> Path:
        by_metric = scores if all(isinstance(one, Mapping) for one in scores.values()) else {"m": scores}
        rows = [
            result_row(case, metric, score, **{"slice_tag": _tag(case), **fields})
            for metric, of_case in by_metric.items()
            for case, score in of_case.items()
        ]
        (tmp_path / name).write_bytes(b"".join(map(json_line, rows)))
        return tmp_path / name

    return write


def _tag(case: str) -> str | None:
    return case.rpartition(":")[0] or None


@pytest.fixture
def claims() -> Callable[[Sequence[tuple[str, bool]]], list[dict[str, Any]]]:
    """A trajectory of one answer with these claims and verdicts."""

    def claims(verdicts: Sequence[tuple[str, bool]]) -> list[dict[str, Any]]:
        made = [
            {"claim": text, "is_supported": held, "grounding_evidence": ["It is so."], "analysis": f"Why: {text}"}
            for text, held in verdicts
        ]
        return [{"id": "A", "answer": None, "atomic_claims": made}]

    return claims
