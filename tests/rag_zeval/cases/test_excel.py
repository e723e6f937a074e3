"""An Excel file is read as people see it: without what is hidden, and with numbers as they are shown."""

import gzip
from datetime import date
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import openpyxl
import pytest

from rag_zeval.cases.reading import read_cases
from rag_zeval.cases.row_files import read_table
from rag_zeval.errors import InputError
from rag_zeval.files import Row

HEAD = ("question", "answer", "contexts")
ROWS = [("q1?", "a", "one"), ("q2?", "b", "two"), ("q3?", "c", "three")]


def book_of(*sheets: str) -> Any:
    """Return a book whose sheets hold ROWS."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name in sheets or ("cases",):
        sheet = book.create_sheet(name)
        for line in (HEAD, *ROWS):
            sheet.append(line)
    return book


def rows_of(path: Path) -> list[Row | InputError]:
    return [row for _, row in read_table(path)]


def test_a_cell_that_is_merged_over_several_rows_holds_for_each(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for line in HEAD, ("q1?", "a", "one"), (None, None, "two"), ("q2?", "a", "three"):
        book.active.append(line)
    for cells in ("A2:A3", "B2:B3", "H2:H3"):  # the last are empty, beside the table
        book.active.merge_cells(cells)
    book.save(tmp_path / "a.xlsx")
    found = [tuple(row.values()) for row in rows_of(tmp_path / "a.xlsx")]
    assert found == [("q1?", "a", "one"), ("q1?", "a", "two"), ("q2?", "a", "three")]


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_a_hidden_sheet_is_not_read(tmp_path: Path, state: str) -> None:
    book = book_of("old", "now", "<lists>")
    book["now"]["B2"] = "new"
    book["now"].row_dimensions[4].hidden = True
    book["old"].row_dimensions[2].hidden = True
    for name in ("old", "<lists>"):
        book[name].sheet_state = state
    book.active = book["now"]
    book.save(tmp_path / "a.xlsx")
    one, two, three = rows_of(tmp_path / "a.xlsx")
    assert [one, two] == [dict(zip(HEAD, line, strict=True)) for line in (("q1?", "new", "one"), ROWS[1])]
    assert "is hidden" in str(three)

    book["now"].delete_rows(2, 9)
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match=r"a\.xlsx: only the hidden sheet 'old' has rows: show it, or save it as"):
        rows_of(tmp_path / "a.xlsx")


def test_a_hidden_row_is_judged_only_if_it_is_shown(tmp_path: Path) -> None:
    """People hide rows by a filter: they may mean the rest, or all."""
    book = book_of()
    for number in (3, 4, 9):  # the last is empty
        book.active.row_dimensions[number].hidden = True
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(
        InputError, match=r"row 3: is hidden, as by a filter: show it, .* row 4: is hidden, .*; 2 of 3 "
    ):
        read_cases(tmp_path / "a.xlsx")
    read = read_cases(tmp_path / "a.xlsx", skip_bad_rows=True)
    assert [case.question for case in read.cases] == ["q1?"]
    assert len(read.left_out) == 2


def test_a_hidden_column_is_told_and_read_only_if_it_is_named(tmp_path: Path) -> None:
    book = book_of()
    sheet = book.active
    for number, cells in enumerate([("answer", "id", "old"), ("x", "7", "u"), ("y", "8", "v"), ("z", "9", "w")], 1):
        for column, cell in zip("DEF", cells, strict=True):
            sheet[f"{column}{number}"] = cell
    sheet.column_dimensions.group("D", "E", hidden=True)
    book.save(tmp_path / "a.xlsx")
    read = read_cases(tmp_path / "a.xlsx", system="a")
    assert [case.answers["a"] for case in read.cases] == ["a", "b", "c"] and read.unnamed == 3
    assert "not used: 'answer (hidden)', 'id (hidden)', 'old'" in str(read)
    read = read_cases(tmp_path / "a.xlsx", {"answer": "answer (hidden)"}, system="a")
    assert [case.answers["a"] for case in read.cases] == ["x", "y", "z"]
    sheet.column_dimensions["C"].hidden = True
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(
        InputError, match=r"no column found for the retrieved contexts or .*; columns: .*'contexts \(hidden\)'"
    ):
        read_cases(tmp_path / "a.xlsx")


@pytest.mark.parametrize(("part", "kind"), [("content.xml", ".ods"), ("xl/workbook.bin", ".xlsb")])
def test_a_workbook_of_which_we_cannot_see_what_is_hidden_is_refused(tmp_path: Path, part: str, kind: str) -> None:
    book_of().save(tmp_path / "a.xlsx")
    with ZipFile(tmp_path / "a.xlsx", "a") as archive:
        archive.writestr(part, b"")
    with pytest.raises(InputError, match=rf"a\.xlsx: is a {kind} file: save it as \.xlsx"):
        rows_of(tmp_path / "a.xlsx")


def test_a_cell_far_from_the_table_is_told(tmp_path: Path) -> None:
    book = book_of()
    book.active["XFD7"], book.active["A1048576"] = "a note", "another"
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(
        InputError, match=r"a\.xlsx: a sheet reaches to the cells XFD7 and A1048576: delete what is far"
    ):
        rows_of(tmp_path / "a.xlsx")
    del book.active["A1048576"]
    book.active["A7"] = None
    book.save(tmp_path / "a.xlsx")
    assert len(rows_of(tmp_path / "a.xlsx")) == 4


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (0.12, "0%", "12%"),
        (0.1234, "0.00%", "12.34%"),
        (7, "000", "007"),
        (0.1 + 0.2, "General", "0.3"),
        (1234.5, "#,##0.00", "1234.5"),
        (7.0, "0", "7"),
        ("0012", "@", "0012"),
    ],
)
def test_a_number_is_read_as_it_is_shown(tmp_path: Path, value: Any, code: str, text: str) -> None:
    book = book_of()
    book.active["B3"].value, book.active["B3"].number_format = value, code
    book.save(tmp_path / "a.xlsx")
    read = read_cases(tmp_path / "a.xlsx")
    assert [case.answers["a"] for case in read.cases] == ["a", text, "c"]
    assert "warning" not in str(read)


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (12, '"$"#,##0', "12"),
        (1.5, '0.0" km"', "1.5"),
        (date(2024, 5, 6), "d mmm", "2024-05-06"),
        (0.5, "# ?/?", "0.5"),
    ],
)
def test_another_format_is_told(tmp_path: Path, value: Any, code: str, text: str) -> None:
    book = book_of()
    book.active["B3"].value, book.active["B3"].number_format = value, code
    book.save(tmp_path / "a.xlsx")
    (tmp_path / "a.xlsx.gz").write_bytes(gzip.compress((tmp_path / "a.xlsx").read_bytes()))
    for name in ("a.xlsx", "a.xlsx.gz"):
        read = read_cases(tmp_path / name, system="a")
        assert [case.answers["a"] for case in read.cases] == ["a", text, "c"]
        assert f"warning: answer: 1 of 3 are dates, or numbers in a format such as $12, read as '{text}'" in str(read)
