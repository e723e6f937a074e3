"""The card of a judge whose errors are known: it passes every claim of a long answer, and errs nowhere else."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.audit.judge_card import _groups_by_feature
from rag_zeval.csv_files import sheet_rows, sheet_text
from rag_zeval.files import json_line
from rag_zeval.statistics.judge_bias import JudgedAnswer

LONG = 30  # words
COST = {"cached": 0, "prompt_tokens": 9, "completion_tokens": 9, "paid_tokens": [1_000, 200], "seconds": 2.5}


@pytest.fixture
def card(result_row: Any, run: Any, tmp_path: Path) -> Callable[..., str]:
    """Writes the card of so many cases with two claims, judged in so many trials; its text."""

    def card(cases: int, trials: int, *words: object, system: str = "s", model: str | None = "a|b") -> str:
        truth, rows = random.Random(0), []
        for case in range(cases):
            true = [truth.random() < 0.5 for _ in range(2)]
            passed = [one or case % 2 == 1 for one in true]
            claims = [
                {"claim": f"{case} {at} {one}", "is_supported": said, "grounding_evidence": [], "analysis": ""}
                for at, (one, said) in enumerate(zip(true, passed, strict=True))
            ]
            for trial in range(trials):
                score = sum(passed) / 2 if trial == 0 or case else 1.0 - sum(passed) / 2
                told = {
                    "id": f"{case}#{trial}", "trial": trial, "systems": [system], "calls": 1, "reply": None,
                    "parts": {},
                    "trajectory": [{"id": "A", "atomic_claims": claims}], "slice_tag": "#1" if case % 4 > 1 else None,
                    "answers": [" ".join(["word"] * (LONG if case % 2 else 3))], "model": model,
                }  # fmt: skip
                rows.append({**result_row(str(case), "m", score, **told), **COST})
        (tmp_path / "r.jsonl").write_bytes(b"".join(map(json_line, rows)))
        assert run("sample", "r.jsonl", "--n", cases).returncode == 0
        labelled = [{**row, "label": row["claim"].split()[-1]} for _, row in sheet_rows(tmp_path / "sheet.csv")]
        (tmp_path / "sheet.csv").write_text(sheet_text(list(labelled[0]), [list(row.values()) for row in labelled]))
        (tmp_path / "p.json").write_text(json.dumps({"a|b": {"prompt": 1.0, "completion": 10.0}}))
        done = run("judge-card", "sheet.csv", "r.jsonl", "--out", "card.md", *words)
        assert (done.returncode, done.stdout) == (0, "judge card: card.md\n"), done.stderr
        return (tmp_path / "card.md").read_text()

    return card


def cells(card: str, name: str) -> list[str]:
    """The row of a table that begins with this cell."""
    [row] = [line for line in card.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[2:-1]]


def test_it_says_where_the_judge_errs_how_steady_it_is_and_what_it_costs(card: Any) -> None:
    text = card(80, 2, "--prices", "p.json", system="<b>|x")
    short, long = (float(cells(text, name)[1]) for name in ("answers of at most 3 words", "longer answers"))
    assert abs(short) < 0.1 and long > 0.3
    whole, overall = cells(text, "all"), (short + long) / 2
    assert float(whole[1]) == pytest.approx(overall, abs=0.05) and whole[4] == "80"
    value, low = re.findall(r"[+-]\d\.\d+", cells(text, "the answer's length")[1])[:2]
    assert float(value) > float(low) > 0
    assert cells(text, "its place in the prompt") == ["unknown", "unknown"]
    assert cells(text, "sensitivity")[0].startswith("1.000") and cells(text, "specificity")[0][:3] in ("0.4", "0.5")
    assert float(cells(text, "judge: not supported")[0]) == 0
    assert "79 of 80 answers got the same score in every trial" in text or "80 of 80" in text
    assert cells(text, "dollars") == [f"{160 * (1_000 + 200 * 10) / 1e6:.4f}"]
    assert cells(text, "seconds for each row that was not cached") == ["2.50"]
    assert r"\<b\>\|x: 160 of 160 answers have a score" in text and r"judged by m: a\|b" in text
    assert r"| slice: \#&#8203;1 |" in text


def test_groups_by_length_and_place_are_in_order_and_most_answers_may_be_the_longest() -> None:
    judged = [JudgedAnswer("q", place, "word " * min(place, 7), "", 1.0) for place in range(12, 0, -1)]
    items: Any = [one.position for one in judged]
    groups = _groups_by_feature(items, judged)
    assert list(groups.items()) == [
        ("answers of at most 6 words", [6, 5, 4, 3, 2, 1]),
        ("longer answers", [12, 11, 10, 9, 8, 7]),
        *((f"shown as number {place}", [place]) for place in range(1, 13)),
    ]


def test_what_is_not_known_is_said_and_is_no_zero(card: Any, run: Any, fill: Any, tmp_path: Path) -> None:
    text = card(12, 1, model=None)
    assert "Unknown: no answer was scored in two trials" in text and "the results name no model" in text
    assert cells(text, "dollars")[0].startswith("unknown")
    fill(tmp_path / "sheet.csv", tmp_path / "r.jsonl", lambda score: "yes")
    assert run("judge-card", "sheet.csv", "r.jsonl").returncode == 0
    text = (tmp_path / "judge-card.md").read_text()
    assert "error rates: unknown" in text and cells(text, "specificity")[0] == "undefined"
    assert run("judge-card", "sheet.csv", "r.jsonl", "--out", "r.jsonl").returncode == 2
    assert run("judge-card", "sheet.csv", "r.jsonl", "--threshold", 2).returncode == 2
