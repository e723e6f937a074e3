"""Five versions beside each other: their numbers, what is missing, and the page in a real browser."""

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_zeval.cases.case import golden_hashes
from rag_zeval.files import json_line
from rag_zeval.golden.dashboard import build_dashboard

HOSTILE = "<script>alert('x')</script> {{ 7 * 191 }} \x1b[31m" + "long" * 60
SLICES = ("billing", "unanswerable", HOSTILE)
VERSIONS = ("v1", "v2", "v3", "v4", "v5")
METRICS = {
    "faithfulness": "rag_zeval@contexts",
    "relevance": "ragas_answer_relevancy",
    "correctness": "rag_zeval@truth",
}
Rows = list[dict[str, Any]]


def rows_of(version: int, result_row: Any) -> Rows:
    """Of 30 cases. v1 tells neither ids nor costs; v2 has no relevance; v4 is worse in one slice; v5 edits a truth."""
    rng, rows = random.Random(version), []
    for n in range(30):
        tag, truth = SLICES[n % 3], f"truth {n}{' edited' * (version == 5 and n == 0)}"
        fields = {"slice_tag": tag, "latency_s": rng.uniform(1, 2), "systems": ["rag"], "identity": "the judge"}
        if version > 1:
            gold = [] if tag == "unanswerable" else ["b", "z"]
            fields |= {"retrieved": ["a", "b", "c"], "gold_chunk_ids": gold, "cost_usd": rng.uniform(0.001, 0.002)}
            fields |= {"golden": golden_hashes(f"Question {n}?", truth, gold)}
        for metric in METRICS.values():
            score = 0.5 + (n % 7) / 20 - 0.4 * (version == 4 and tag == "billing")
            if version != 2 or "relevan" not in metric:
                rows.append(result_row(str(n), metric, None if (n, version) == (4, 3) else score, **fields))
    return rows


@pytest.fixture
def files(result_row: Any, tmp_path: Path) -> list[str]:
    for version, name in enumerate(VERSIONS, 1):
        lines = map(json_line, rows_of(version, result_row))
        (tmp_path / f"{name}.results.jsonl").write_bytes(b"".join(lines))
    return [str(tmp_path / f"{name}.results.jsonl") for name in VERSIONS]


def test_each_number_is_that_of_its_rows_and_what_lacks_is_missing(files: list[str], result_row: Any) -> None:
    found = build_dashboard(files)
    heads = [column.head for column in found.columns]
    assert (found.versions, list(found.cases)) == ([*VERSIONS], ["all", *sorted(SLICES)])
    for tag in found.cases:
        for version in range(5):
            rows = [row for row in rows_of(version + 1, result_row) if tag in ("all", row["slice_tag"])]
            cases = list({row["case"]: row for row in rows}.values())
            expected: dict[str, float | None] = {
                head: np.mean(scores) if (scores := [s for row in rows if row["metric"] == metric
                                                     for s in row["scores"] if s is not None]) else None
                for head, metric in METRICS.items()
            }  # fmt: skip
            expected["recall@5"] = 0.5 if version and tag != "unanswerable" else None
            expected["p95 latency (s)"] = np.quantile([row["latency_s"] for row in cases], 0.95)
            expected["cost of 1,000 ($)"] = 1000 * np.mean([row["cost_usd"] for row in cases]) if version else None
            assert found.cases[tag][version] == len(cases)
            for head, value in expected.items():
                cell, missing = (
                    found.cells.get((tag, version, heads.index(head))),
                    found.missing(tag, version, heads.index(head)),
                )
                if value is None:
                    assert cell is None and missing == ("not asked" if version and head == "recall@5" else "missing")
                else:
                    assert cell and cell.value and cell.value.value == pytest.approx(value) and not missing
                    assert cell.value.low <= cell.value.value <= cell.value.high
    moved = {place: cell.moved for place, cell in found.cells.items() if cell.moved and 1 <= place[2] <= 3}
    scores = range(1, 4)
    assert moved == {
        (tag, version, at): word
        for tag in ("all", "billing")
        for version, word in ((3, "worse"), (4, "better"))
        for at in scores
    }
    assert found.cells["billing", 2, 1].scored == 10 and found.cells["unanswerable", 2, 1].scored == 9
    assert [note for note in found.notes if "edited" in note] == [
        "from v4 to v5: edited cases (1) are left out of the change"
    ]
    lacking = [note for note in found.notes if note.startswith("missing in")]
    assert len(lacking) == 3 and "missing in v2: relevance (ragas_answer_relevancy)" in lacking


def test_the_command_prints_the_table_and_refuses_what_it_cannot_show(
    files: list[str], run: Any, result_row: Any, tmp_path: Path
) -> None:
    shown = run("dashboard", *files, "--metric=rag_zeval@truth", "--metric=cost_per_1000", "--html=page.html")
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"all +v1 +30 +0\.\d{3} +missing", shown.stdout) and "\x1b" not in shown.stdout
    assert re.search(r"billing +v4 +10 +0\.\d{3} worse +\d\.\d\d", shown.stdout)
    assert re.search(r"unanswerable +v3 +10 +0\.\d{3} \(9 of 10\)", shown.stdout)
    other = [{**row, "case": f"x{row['case']}", "id": f"x{row['id']}", "question": f"Why {row['case']}?",
              "identity": "another"} for row in rows_of(1, result_row)]  # fmt: skip
    (tmp_path / "v6.jsonl").write_bytes(b"".join(map(json_line, other)))
    said = run("dashboard", files[4], "v6.jsonl").stdout
    assert "from v5 to v6: no change is shown: v6.jsonl: has no case in common with" in said
    again = [{**row, "identity": "another", "slice_tag": "all"} for row in rows_of(5, result_row)]
    (tmp_path / "v6.jsonl").write_bytes(b"".join(map(json_line, again)))
    said = run("dashboard", files[4], "v6.jsonl").stdout
    assert re.search(r"all +v6 +30 ", said) and re.search(r"all \(slice\) +v5 +0 +no cases", said)
    judge = "the judge or its prompt changed, which may have moved faithfulness, relevance, correctness"
    assert f"from v5 to v6: {judge}" in said
    for words, message in [
        ([files[0], files[0]], "dashboard: the same result file is given twice; remove one"),
        ([*files, "--metric=blue"], "--metric blue: no file has it."),
        ([*files, f"--html={files[0]}"], "is the same file as INPUT"),
        (["gone.jsonl"], "gone.jsonl: cannot be read"),
    ]:
        refused = run("dashboard", *words)
        assert refused.returncode == 2 and message in refused.stderr and len(refused.stderr.splitlines()) == 1


def test_a_trend_that_is_flat_is_drawn_flat(result_row: Any, run: Any, tmp_path: Path) -> None:
    rows = [result_row(str(n), "m", 0.2, slice_tag=f"s{n % 4 % 3}") for n in range(24)]  # their mean is not quite 0.2
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(b"".join(map(json_line, rows)))
    assert run("dashboard", "a.jsonl", "b.jsonl", "--metric=m", "--html=page.html").returncode == 0
    assert re.findall(r'cy="([\d.]+)"', (tmp_path / "page.html").read_text()) == ["18.0"] * 8
    assert "no file has its numbers; name some of yours with --metric: m" in run("dashboard", "a.jsonl").stderr


def test_slices_show_the_cases_of_each_version(result_row: Any, tmp_path: Path) -> None:
    def cells(*tags: tuple[str | None, ...]) -> dict[str, list[tuple[int, str]]]:
        for score, of_version in zip((1.0, 0.0), tags, strict=True):
            rows = [result_row(str(n), "m", score, slice_tag=of_version[n % len(of_version)]) for n in range(40)]
            (tmp_path / f"{score}.jsonl").write_bytes(b"".join(map(json_line, rows)))
        found = build_dashboard([str(tmp_path / f"{score}.jsonl") for score in (1.0, 0.0)], ["m"])
        moved = {place: cell.moved for place, cell in found.cells.items()}
        return {
            tag: [(n, moved.get((tag, version, 0), "")) for version, n in enumerate(counts)]
            for tag, counts in found.cases.items()
        }

    whole = [(40, ""), (40, "worse")]
    assert cells(("a",), ("a",)) == {"all": whole}  # a single slice has all cases
    untagged = {"(none)": [(40, ""), (20, "worse")], "a": [(0, ""), (20, "")]}  # worse than what is not shown
    assert cells((None,), ("a", None)) == {"all": whole, **untagged}


def test_a_column_that_no_version_has_is_left_out_and_named(result_row: Any, run: Any, tmp_path: Path) -> None:
    rows = [result_row(str(n), "rag_zeval@truth", n % 2) for n in range(6)]
    (tmp_path / "a.jsonl").write_bytes(b"".join(map(json_line, rows)))
    table, *notes = run("dashboard", "a.jsonl").stdout.split("not shown, as no version has it: ")
    assert "correctness" in table and "missing" not in table and "recall" not in table
    assert len(notes) == 5 and notes[0].startswith("recall@5 needs the columns")


@pytest.mark.parametrize("gold", ["d1", "guide.pdf"])
def test_a_recall_of_0_by_other_kinds_of_ids_is_noted(gold: str, result_row: Any, run: Any, tmp_path: Path) -> None:
    fields = {"retrieved": ["d1", "d2"], "gold_chunk_ids": [gold]}
    rows = [result_row(str(n), "rag_zeval@truth", 1.0, **fields) for n in range(6)]
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(b"".join(map(json_line, rows)))
    for words in (["dashboard", "a.jsonl"], ["compare", "a.jsonl", "b.jsonl", "--metric=recall@5"]):
        is_noted = "note: a.jsonl: no retrieved id, such as 'd1', is a gold chunk" in run(*words).stderr
        assert is_noted == (gold != "d1")


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        (["ragchecker_noise_sensitivity_in_irrelevant", "ccrs_qr"], "relevance is ccrs_qr"),
        (["ares_context_relevance@contexts", "ares_answer_relevance@contexts"],
         "relevance is ares_answer_relevance@contexts"),
        (["trulens_groundedness@truth"], "correctness is trulens_groundedness@truth"),
        (["bleu@contexts", "trulens_groundedness@contexts"], "faithfulness is trulens_groundedness@contexts"),
        (["rag_zeval@truth", "rag_zeval@contexts", "is_correct"],
         "faithfulness is rag_zeval@contexts, correctness is rag_zeval@truth"),
    ],
)  # fmt: skip
def test_a_column_shows_a_metric_of_its_kind_and_says_which(
    metrics: list[str], said: str, result_row: Any, run: Any, tmp_path: Path
) -> None:
    rows = [result_row(str(n), metric, 0.5) for n in range(6) for metric in metrics]
    (tmp_path / "a.jsonl").write_bytes(b"".join(map(json_line, rows)))
    assert said in run("dashboard", "a.jsonl").stdout.splitlines()


def test_the_page_shows_all_at_every_width(browser: Any, files: list[str], run: Any, tmp_path: Path) -> None:
    assert run("dashboard", *files, "--html=page.html").returncode == 0
    for width in (1400, 1000, 390):
        browser.open(tmp_path / "page.html", width=width)
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth"), width
        assert browser.run("[document.scripts.length, document.images.length, document.styleSheets.length]") == [
            0,
            0,
            1,
        ]
        assert browser.problems == []
        rows = browser.texts("tbody tr")
        assert len(rows) == 4 * 6 and browser.texts(".slice .name")[1:] == sorted(SLICES)
        assert sum("missing" in row for row in rows) == 4 * 2 and "1337" not in "".join(rows)
        drawn = browser.run("[...document.querySelectorAll('svg')].map((one) => one.querySelectorAll('circle').length)")
        assert sorted(set(drawn)) == [0, 4, 5] and len(drawn) == 4 * 6  # recall of the unanswerable has no point, not 0
        head = browser.run("getComputedStyle(document.querySelector('tbody td'), '::before').content")
        assert (head == '"recall@5"') == (width < 1200)  # above that, the head of the table says it
    assert run("dashboard", *files, "--metric=rag_zeval@truth", "--html=one.html").returncode == 0
    browser.open(tmp_path / "one.html", width=600)
    assert browser.texts("thead th")[1:] == ["rag_zeval@truth"]  # a table as long as it fits
    assert run("dashboard", *files, "--metric=latency_p95", "--html=one.html").returncode == 0
    browser.open(tmp_path / "one.html")
    assert browser.texts("thead .note") == ["lower is better"]
