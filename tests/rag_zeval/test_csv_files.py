"""Sheets come back as they were written, whatever program saved them."""

import csv
from pathlib import Path

import pytest

from rag_zeval.csv_files import sheet_rows, sheet_text


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
@pytest.mark.parametrize("column", ["label", "x" * 200_000])
def test_a_sheet_may_have_any_line_ends_and_a_long_first_line(tmp_path: Path, end: str, column: str) -> None:
    csv.field_size_limit(1 << 17)  # the default, which reading a file raises
    path = tmp_path / "sheet.csv"
    path.write_bytes(sheet_text(["id", column], [["a", "=yes"], ["b", ""]]).replace("\r\n", end).encode())
    assert list(sheet_rows(path)) == [(2, {"id": "a", column: "=yes"}), (3, {"id": "b", column: ""})]
