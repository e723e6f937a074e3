"""How CSV is read and written.

`csv_rows` is the reader of all of it: of people's files, which `cases.row_files` makes cases of, and of the sheets that
people open in a spreadsheet program. In those nothing becomes a formula, and they come back as they were.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.files import Row, readable

DELIMITERS = ",;\t|"
FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")  # what a program may take for a formula, behind any apostrophes
INNER = r"([;\t|\r\n][\s\"]*)"  # where a cell begins for a program that takes another delimiter, as Excel may
UNSHIELDED, SHIELDED = re.compile(INNER + r"(?='*[=+\-@＝＋－＠])"), re.compile(INNER + r"'(?='*[=+\-@＝＋－＠])")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")


def delimiter_of(header: str) -> str:
    """The one that makes most columns of the first line."""
    return max(DELIMITERS, key=lambda mark: len(next(csv.reader([header], delimiter=mark), [])))


def csv_rows(path: Path, lines: Iterable[str], delimiter: str, start: int = 1) -> Iterator[tuple[int, list[str]]]:
    """Yield `(the line a row begins on, its cells)`, the header first. start: the number of the first of `lines`.

    Raises InputError naming `path` and the line from which on this is no CSV.
    """
    csv.field_size_limit(1 << 30)  # a reference may be longer than the 128 KiB that are the default
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    line = start
    try:
        for cells in reader:
            yield line, cells
            line = start + reader.line_num
    except csv.Error as error:
        raise InputError(f"{path}:{line}: cannot be read from this point on: {error}") from error


def sheet_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """CSV that `sheet_rows` reads back as it was, but for NUL, which no CSV holds, and which becomes U+FFFD.

    All cells are quoted. An apostrophe stands before what could be taken for a formula, as OWASP's page on CSV
    injection has it, also within a cell where a program that takes semicolons, tabs or bars for delimiters would begin
    one; it is taken off in reading. The mark at the start has Excel read UTF-8.
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
    """Yield `(the line a row begins on, its cells by column)` of a sheet; cells that a program left out are empty.

    Raises InputError naming the file, and the line where there is one.
    """
    with readable(path):
        content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text; save it as CSV in UTF-8") from error
    names: list[str] = []
    for line, cells in csv_rows(path, io.StringIO(text, newline=""), delimiter_of(text.partition("\n")[0])):
        if len(cells) > len(names) > 0:
            raise InputError(f"{path}:{line}: has more cells than the first row names")
        if names and cells:
            yield line, {name: _bare(cell) for name, cell in zip_longest(names, cells, fillvalue="")}
        names = names or cells


def _bare(cell: str) -> str:
    cell = cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell
    return SHIELDED.sub(r"\1", cell)
