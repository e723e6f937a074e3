"""The sheet: read back as it was written, safe to open, and blind."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.audit.sheet import LABELS
from rag_zeval.csv_files import sheet_rows, sheet_text
from rag_zeval.errors import InputError

Run = Callable[..., CompletedProcess[str]]

CELLS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")) | st.text(
    "'=+-@\t\r\n\",;a", max_size=9
)


def read_back(text: str) -> list[dict[str, str]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sheet.csv"
        path.write_bytes(text.encode("utf-8"))
        return [row for _, row in sheet_rows(path)]


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5))
def test_any_text_is_read_back_as_it_was(rows: list[tuple[str, str, str]]) -> None:
    names = ("id", "claim", "note")
    assert read_back(sheet_text(names, rows)) == [dict(zip(names, row, strict=True)) for row in rows]


@given(CELLS)
def test_no_cell_begins_as_a_formula_does(cell: str) -> None:
    text = sheet_text(["id"], [[cell]])
    [_, [written]] = csv.reader(io.StringIO(text, newline=""))
    assert not written.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))
    assert written == cell or written == "'" + cell
    assert text.splitlines()[0] == '\ufeff"id"'  # what has no quotes could be split at another separator


def test_a_long_text_a_nul_and_semicolons_are_read(tmp_path: Path) -> None:
    long = "x" * 200_000
    assert read_back(sheet_text(["id", "note"], [[long, "a\0b"]])) == [{"id": long, "note": "a\ufffdb"}]
    path = tmp_path / "excel.csv"
    path.write_text("id;label;note\nr1;yes;a, b\n")
    assert list(sheet_rows(path)) == [(2, {"id": "r1", "label": "yes", "note": "a, b"})]


def test_people_see_texts_and_nothing_that_depends_on_a_verdict(
    write_results: Callable[..., Path], run: Run, tmp_path: Path
) -> None:
    """With all claims drawn, the sheet of a judge and of one that says the contrary are the same bytes."""
    sheets = []
    for name, share in (("first", 0.8), ("second", 0.2)):
        results = write_results(support=lambda rng, share=share: rng.random() < share)
        assert run("sample", results, "--n", 10_000, "--out", f"{name}.csv").returncode == 0
        sheets.append((tmp_path / f"{name}.csv").read_bytes())
    assert sheets[0] == sheets[1]
    columns = sheets[0].decode("utf-8-sig").splitlines()[0]
    assert columns == '"id","question","reference","answer","claim","label","note"'
    rows = [row for _, row in sheet_rows(tmp_path / "first.csv")]
    assert len({row["id"] for row in rows}) == len(rows) > 50
    assert {(row["label"], row["note"]) for row in rows} == {("", "")}
    claims = [row["claim"] for row in rows]
    assert claims != sorted(claims)


@pytest.mark.parametrize(
    ("told", "columns"),
    [
        ({"reference_kind": "truth"}, {"ground truth": "It is so."}),
        ({"reference_kind": "contexts"}, {"retrieved contexts": "It is so."}),
        ({"reference_kind": "reference"}, {"reference": "It is so."}),
        (
            {"reference_kind": "truth", "chunks": ["One.", "Two."]},
            {"ground truth": "It is so.", "retrieved contexts": "One.\n\nTwo."},
        ),
        ({"reference_kind": None, "reference": ""}, {}),
        ({}, {"reference": "It is so."}),  # of before it was told
    ],
)
def test_people_are_told_what_to_judge_by(
    write_results: Callable[..., Path], run: Run, tmp_path: Path, told: dict[str, object], columns: dict[str, str]
) -> None:
    path = write_results(cases=2)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**row, **told}) + "\n" for row in rows))
    assert run("sample", path, "--unit", "answer").returncode == 0
    for _, row in sheet_rows(tmp_path / "sheet.csv"):
        assert list(row) == ["id", "question", *columns, "answer", "label", "note"]
        assert {name: row[name] for name in columns} == columns


def test_the_place_in_the_sheet_says_nothing_of_the_verdict(write_results: Callable[..., Path]) -> None:
    from rag_zeval.audit.items import draw, read_items

    items = read_items(write_results(cases=400), "claim").items
    drawn = [item for item, _ in draw(items, 400, 0)]
    places = {score: [at for at, item in enumerate(drawn) if item.score == score] for score in (0.0, 1.0)}
    means = [sum(found) / len(found) for found in places.values()]
    apart = 400 * (1 / 12 / len(places[0.0]) + 1 / 12 / len(places[1.0])) ** 0.5  # one standard error
    assert abs(means[0] - means[1]) < 3 * apart


def test_a_sheet_that_is_there_is_not_written_over(
    write_results: Callable[..., Path], run: Run, tmp_path: Path
) -> None:
    results = write_results()
    assert run("sample", results).returncode == 0
    before = (tmp_path / "sheet.csv").read_bytes()
    again = run("sample", results, "--seed", 1)
    assert (again.returncode, "may hold labels" in again.stderr) == (2, True)
    assert (tmp_path / "sheet.csv").read_bytes() == before
    (tmp_path / "sheet.csv").unlink()
    assert run("sample", results, "--seed", 1).returncode == 2  # its plan is still there
    onto = run("sample", results, "--out", results)
    assert onto.returncode == 2 and results.read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'id,label\n"r1,yes\n', ":2: cannot be read from this point on"),
        (b"id,label\nr1,yes,more\n", ":2: has more cells"),
        (b"id,label\nr\xe9,yes\n", ": is not UTF-8 text"),
    ],
)
def test_what_is_no_sheet_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "sheet.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        list(sheet_rows(path))
    assert str(error.value).startswith(f"{path}{message}")


def test_words_mean_the_same_of_claims_and_answers() -> None:
    for word, value in LABELS["claim"].items():
        if not word.isdigit():
            assert LABELS["answer"][word] == value
