"""Reads and writes CSV.

`csv_rows` reads every CSV file: people's own files, which `cases.row_files` turns into cases, and our sheets.
People edit a sheet in a spreadsheet program. `sheet_text` writes it so that no cell becomes a formula, and `sheet_rows`
restores the original texts.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.files import Row, readable
from rag_zeval.text import one_line

DELIMITERS = ",;\t|"
LOOKED_AT = 1 << 16  # characters of the first line; the csv module rejects much longer cells
FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")  # what a program may take for a formula, also after apostrophes
INNER = r"([;\t|\r\n][\s\"]*)"  # where a cell begins if a program assumes another delimiter, as Excel may
UNSHIELDED, SHIELDED = re.compile(INNER + r"(?='*[=+\-@＝＋－＠])"), re.compile(INNER + r"'(?='*[=+\-@＝＋－＠])")
MARK_IN_TEXT = "if the mark is part of the text, put the cell in quotation marks and write the mark twice"
AFTER_QUOTE = re.compile(rf"(?<=\") +(?=[{DELIMITERS}\r\n])")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")


def delimiter_of(header: str) -> str:
    """Return the delimiter that splits the first line into the most columns."""
    return max(DELIMITERS, key=lambda mark: len(next(csv.reader([header[:LOOKED_AT]], delimiter=mark), [])))


def is_spaced(header: str, delimiter: str) -> bool:
    """Whether a space follows each delimiter of the first line, as in `question, answer, contexts`."""
    names = next(csv.reader([header[:LOOKED_AT]], delimiter=delimiter), [])
    return len(names) > 1 and all(name.startswith(" ") for name in names[1:])


def csv_rows(
    path: Path, lines: Iterable[str], delimiter: str, start: int = 1, spaced: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield `(line on which the row begins, cells)` for each row, the header first.

    start: the number of the first of `lines`. spaced: whether spaces around a cell are no part of it.
    Raises InputError, naming `path` and the line, where a row is no CSV.
    """
    csv.field_size_limit(1 << 30)  # a reference may exceed the default limit, 128 KiB
    taken: list[str] = []  # the lines of a row

    def noted() -> Iterator[str]:
        for one in lines:
            taken.append(one)
            yield AFTER_QUOTE.sub("", one) if spaced else one

    reader = csv.reader(noted(), delimiter=delimiter, strict=True, skipinitialspace=spaced)
    line = start
    try:
        for cells in reader:
            if len(taken) > 1 and _are_rows(taken, cells, delimiter):
                raise InputError(
                    f"{path}:{line}: a quotation mark begins a cell here, which ends in line {line + len(taken) - 1}; "
                    f"but each of these lines looks like a row: {MARK_IN_TEXT}"
                )
            taken.clear()
            yield line, [cell.rstrip(" ") for cell in cells] if spaced else cells
            line = start + reader.line_num
    except csv.Error as error:
        why, advice = str(error), ""
        if "expected after" in why:
            advice = '; inside a quoted cell, write a quotation mark twice ("")'
        elif "end of data" in why:
            why, advice = "no quotation mark ends a cell that begins with one", f": {MARK_IN_TEXT}"
        raise InputError(f"{path}:{line}: cannot be read from this point on: {why}{advice}") from error


def _are_rows(lines: Sequence[str], cells: Sequence[str], delimiter: str) -> bool:
    """Whether the lines of a row look like a row each, because a quotation mark of a text was taken for that of a cell.

    Then it and the mark that ends the cell are the only ones. If only the last cell has several lines, they may well be
    those of a text.
    """
    if sum(one.count('"') for one in lines) != 2:
        return False
    several = any("\n" in cell or "\r" in cell for cell in cells[:-1])
    width = len(cells) - 1
    return several and all(one.count(delimiter) == width and f"{delimiter} " not in one for one in lines)


def sheet_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return CSV that `sheet_rows` reads back unchanged, except that NUL, which CSV cannot hold, becomes U+FFFD.

    All cells are quoted. An apostrophe is put before whatever a program could take for a formula, as OWASP's page on
    CSV injection recommends. Some programs assume semicolons, tabs or bars as delimiters, so this is also done inside a
    cell, where such a program would begin a new one. `sheet_rows` removes the apostrophes. The byte order mark makes
    Excel read UTF-8.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerow(columns)
    writer.writerows([_shielded(cell) for cell in row] for row in rows)
    return "\ufeff" + file.getvalue()


def _shielded(cell: str) -> str:
    cell = UNSHIELDED.sub(r"\1'", cell.replace("\0", "\ufffd"))
    return f"'{cell}" if FORMULA.match(cell) and not NUMBER.fullmatch(cell) else cell


def sheet_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield `(line on which the row begins, {column: cell})` for each row of a sheet. Missing cells are empty.

    Raises InputError naming the file, and the line if there is one.
    """
    with readable(path):
        content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text; save it as CSV in UTF-8") from error
    names: list[str] = []
    lines = io.StringIO(text, newline="")  # which end in \n, \r\n or \r
    for line, cells in csv_rows(path, lines, delimiter_of(next(io.StringIO(text, newline=""), ""))):
        if len(cells) > len(names) > 0:
            raise InputError(f"{path}:{line}: has more cells than the first row names")
        if names and cells:
            yield line, {name: _bare(cell) for name, cell in zip_longest(names, cells, fillvalue="")}
        if cells and not names:
            names = cells
            if twice := next((name for name in names if name and names.count(name) > 1), None):
                raise InputError(f"{path}:{line}: names the column '{one_line(twice)}' twice: rename or remove one")


def _bare(cell: str) -> str:
    cell = cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell
    return SHIELDED.sub(r"\1", cell)
