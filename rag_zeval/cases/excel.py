"""Reads a sheet of an Excel file as people see it.

`python-calamine` reads the values of cells. The XML says which rows and columns are hidden, and how Excel shows a
number.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from posixpath import join
from typing import Any
from xml.etree.ElementTree import iterparse
from zipfile import ZipFile

from rag_zeval.errors import InputError

PERCENT = re.compile(r"0(?:\.0+)? ?%")
LEADING_ZEROS = re.compile(r"00+")
# Formats that show a number as it is, rounded, or with commas between thousands. The first are Excel's own, by number.
PLAIN_NUMBERS = {"0", "1", "2", "3", "4", "37", "38", "39", "40", "49"}
PLAIN = re.compile(r"General|@|(?:#,##)?#*0?(?:\.[0#]+)?", re.IGNORECASE)
PERCENT_NUMBERS = {"9": "0%", "10": "0.00%"}
MOST_CELLS = 50_000_000  # of a sheet, empty ones too: its reader needs memory for each, and ends the process without
DIGITS = 15  # that Excel keeps of a number
OTHERS = {"content.xml": ".ods", "xl/workbook.bin": ".xlsb"}  # by a part: we cannot see what is hidden in them
Formats = Mapping[tuple[int, int], str]  # of cells by row and column, from 0


class Formatted(str):
    """The text of a date, or of a number that Excel shows in a format of its own: "12", which it may show as $12."""


def read_sheet(content: bytes) -> tuple[list[list[Any]], set[int], set[int]]:
    """Return the rows of the only visible sheet that has a header and rows, and the numbers of hidden rows and columns.

    Both are counted from 0. A cell that is merged over several rows has its value in each of them. Raises InputError if
    several sheets have rows, if only a hidden one has, and for a format that does not tell us what is hidden.
    """
    import python_calamine

    book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
    archive = ZipFile(io.BytesIO(content))
    if other := next((kind for part, kind in OTHERS.items() if part in archive.namelist()), None):
        raise InputError(f"is a {other} file: save it as .xlsx")
    _check_size(archive)
    sheets = [book.get_sheet_by_name(name) for name in book.sheet_names]
    tables = [sheet.to_python(skip_empty_area=False) for sheet in sheets]
    filled = [at for at, rows in enumerate(tables) if sum(map(is_filled, rows)) > 1]
    visible = python_calamine.SheetVisibleEnum.Visible
    shown = [at for at in filled if book.sheets_metadata[at].visible == visible]
    if len(shown) > 1:
        names = ", ".join(book.sheet_names[at] for at in shown)
        raise InputError(f"has {len(shown)} sheets with rows: {names}; save the right one as its own file")
    if not shown:
        if filled:
            name = book.sheet_names[filled[0]]
            raise InputError(f"only the hidden sheet '{name}' has rows: show it, or save it as its own file")
        return [], set(), set()
    (at,) = shown
    rows = tables[at]
    hidden_rows, hidden_columns, formats = _appearance(archive, at)
    for row, cells in enumerate(rows):
        cells[:] = [_as_shown(cell, formats.get((row, column))) for column, cell in enumerate(cells)]
    for (top, left), (bottom, _) in sheets[at].merged_cell_ranges or ():
        for cells in rows[top + 1 : bottom + 1] if rows and left < len(rows[0]) else ():
            cells[left] = rows[top][left]
    return rows, hidden_rows, hidden_columns


def _check_size(archive: ZipFile) -> None:
    """Raise InputError if a cell is so far from the others that its sheet does not fit into memory."""
    for part in archive.namelist():
        if not (part.startswith("xl/worksheets/") and part.endswith(".xml")):
            continue
        right = low = "A1"
        for tag, of in _elements(archive, part, "dimension", "c"):
            if tag == "c":
                place = of.get("r", "A1")
                right, low = max(right, place, key=_column), max(low, place, key=_row)
            elif _cells_to(last := of.get("ref", "").rpartition(":")[2] or "A1", last) <= MOST_CELLS:
                break  # some programs always say that a sheet is large, and some do not say its size
        if _cells_to(right, low) > MOST_CELLS:
            raise InputError(f"a sheet reaches to the cells {right} and {low}: delete what is far from the table")


def _cells_to(right: str, low: str) -> int:
    return (_column(right) + 1) * _row(low)


def is_filled(cells: Sequence[Any]) -> bool:
    return any(cell not in ("", None) for cell in cells)


def _as_shown(cell: Any, code: str | None) -> Any:
    """Return a cell as Excel shows it, if its format is common. code: its format, None if that is a plain one."""
    if isinstance(cell, (date, time, timedelta)):
        return Formatted(cell)
    if not isinstance(cell, float):
        return cell
    number = int(cell) if cell.is_integer() else float(f"{cell:.{DIGITS}g}")  # 0.1 + 0.2 is 0.3
    if code is None:
        return number
    if PERCENT.fullmatch(code):
        return f"{cell * 100:.{DIGITS}g}%"
    if LEADING_ZEROS.fullmatch(code) and isinstance(number, int):
        return f"{number:0{len(code)}d}"
    return Formatted(number)


def _appearance(archive: ZipFile, at: int) -> tuple[set[int], set[int], Formats]:
    """Return the hidden rows and columns of sheet number `at`, and the formats of its cells that are no plain ones."""
    _, of_sheet = [*_elements(archive, "xl/workbook.xml", "sheet")][at]
    ids = {value for name, value in of_sheet.items() if name.endswith("}id")}
    links = _elements(archive, "xl/_rels/workbook.xml.rels", "Relationship")
    [target] = [of["Target"] for _, of in links if of.get("Id") in ids]
    codes = _codes(_elements(archive, "xl/styles.xml", "numFmt", "cellXfs", "cellStyles", "xf"))
    rows: set[int] = set()
    columns: set[int] = set()
    formats = {}
    row = column = -1
    for tag, of in _elements(archive, join("/xl", target).lstrip("/"), "col", "row", *(("c",) if codes else ())):
        is_hidden = of.get("hidden") in ("1", "true")
        if tag == "col":
            columns.update(range(int(of["min"]) - 1, int(of["max"])) if is_hidden else ())
        elif tag == "row":
            row, column = int(of["r"]) - 1 if "r" in of else row + 1, -1
            rows.update([row] if is_hidden else ())
        else:
            column = _column(of["r"]) if "r" in of else column + 1
            if of.get("s") in codes:
                formats[row, column] = codes[of["s"]]
    return rows, columns, formats


def _elements(archive: ZipFile, part: str, *names: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the name and the attributes of each element with one of these names in a part of the file."""
    if part not in archive.namelist():
        return
    with archive.open(part) as file:
        for event, element in iterparse(file, ("start", "end")):
            if event == "end":
                element.clear()  # it would stay in memory
            elif (name := element.tag.rpartition("}")[2]) in names:
                yield name, dict(element.attrib)


def _codes(elements: Iterator[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """Return the formats of numbers that are no plain ones, by the styles of cells that have them."""
    named: dict[str, str] = dict(PERCENT_NUMBERS)
    styles: list[str] = []
    in_cells = False
    for tag, of in elements:
        if tag == "numFmt":
            named[of["numFmtId"]] = of["formatCode"]
        elif tag == "xf" and in_cells:
            styles.append(of.get("numFmtId", "0"))
        else:
            in_cells = tag == "cellXfs"
    codes = {
        str(style): named.get(number, number) for style, number in enumerate(styles) if number not in PLAIN_NUMBERS
    }
    return {style: code for style, code in codes.items() if not PLAIN.fullmatch(code)}


def _column(place: str) -> int:
    """Return the number of a cell's column, from 0: 27 for AB7."""
    number = 0
    for letter in place.rstrip("0123456789"):
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _row(place: str) -> int:
    """Return the number of a cell's row, from 1: 7 for AB7."""
    return int(place.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
