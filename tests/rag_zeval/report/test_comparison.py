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
