"""The page of `rag-zeval compare`, in a browser."""

from pathlib import Path
from typing import Any

import pytest

from rag_zeval.files import json_line


@pytest.mark.parametrize("width", [1200, 380])
def test_the_page_shows_all_at_every_width(
    width: int, browser: Any, make_row: Any, make_claim: Any, run: Any, tmp_path: Path
) -> None:
    long, right = "x" * 500, [make_claim("So.")]
    for name, claims in (("a.jsonl", right), ("b.jsonl", [*right, *right, make_claim("Not so.", False)])):
        texts = {"question": long, "answers": [long * 60], "reference": long * 60}
        rows = [make_row(f"{long}{at}", [claims], slice_tag=tag, **texts) for at, tag in enumerate([long, "b", "b"])]
        (tmp_path / name).write_bytes(b"".join(map(json_line, rows)))
    assert run("compare", "a.jsonl", "b.jsonl", "--html=page.html").returncode == 0
    browser.open(tmp_path / "page.html", width=width)
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    assert browser.problems == [] and browser.run("document.documentElement.scrollWidth <= window.innerWidth")
    lines = "[...document.querySelectorAll('td')].map((one) => { const range = document.createRange(); "
    lines += "range.selectNodeContents(one); return range.getClientRects().length })"
    assert set(browser.run(lines)) == {1}, "a number is broken over lines"
    assert browser.texts(".change") == ["1.000 → 0.667"] * 3
    assert browser.run("Math.max(...[...document.querySelectorAll('.sides')].map((one) => one.offsetHeight))") < 3000


def test_the_page_says_how_many_changed_questions_it_leaves_out(
    make_row: Any, make_claim: Any, run: Any, tmp_path: Path
) -> None:
    sides = {"a.jsonl": [True] * 12 + [False], "b.jsonl": [False] * 12 + [True]}
    for name, verdicts in sides.items():
        rows = [make_row(str(at), [[make_claim("So.", verdict)]]) for at, verdict in enumerate(verdicts)]
        (tmp_path / name).write_bytes(b"".join(map(json_line, rows)))
    assert run("compare", "a.jsonl", "b.jsonl", "--html=page.html").returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert "<h3>Got worse: the 10 that changed most of 12 questions</h3>" in page
    assert "<h3>Got better: 1 question</h3>" in page


def test_a_question_can_be_read_to_its_end_and_a_metric_is_explained(
    make_row: Any, make_claim: Any, run: Any, browser: Any, tmp_path: Path
) -> None:
    question = "Is it so, and " * 30 + "why?"
    for name, verdict in (("a.jsonl", True), ("b.jsonl", False)):
        row = make_row("1", [[make_claim("So.", verdict)]], question=question, metric="rag_zeval@contexts")
        (tmp_path / name).write_bytes(json_line(row))
    assert run("compare", "a.jsonl", "b.jsonl", "--html=page.html").returncode == 0
    browser.open(tmp_path / "page.html")
    browser.run("document.querySelector('details').open = true")
    assert browser.texts("details .asked") == [question]
    notes = " ".join(browser.texts(".note"))
    assert "rag_zeval@contexts is faithfulness" in notes and "corrected" not in notes  # there are no labels
