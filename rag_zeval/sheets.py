"""CSV that people open in a spreadsheet program: nothing in it becomes a formula, and it comes back as it was."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.files import Row

FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")  # what a program may take for a formula, behind any apostrophes
NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")


def sheet_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """CSV that `sheet_rows` reads back as it was, but for NUL, which no CSV holds, and which becomes U+FFFD.

    All cells are quoted. An apostrophe stands before what could be taken for a formula, as OWASP's page on CSV
    injection has it, and is taken off in reading. The mark at the start has Excel read UTF-8.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerow(columns)
    writer.writerows([_shielded(cell) for cell in row] for row in rows)
    return "\ufeff" + file.getvalue()


def _shielded(cell: str) -> str:
    cell = cell.replace("\0", "\ufffd")
    return f"'{cell}" if FORMULA.match(cell) and not NUMBER.fullmatch(cell) else cell


def sheet_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield `(the line a row begins on, its cells by column)`, separated by commas, or by semicolons as Excel may do.

    Raises InputError naming the file, and the line where there is one.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text; save it as CSV in UTF-8") from error
    header = text.partition("\n")[0]
    delimiter = ";" if ";" in header and "," not in header else ","
    csv.field_size_limit(1 << 30)  # a reference may be longer than the 128 KiB that are the default
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, restval="", strict=True)
    line = 2
    try:
        for row in reader:
            if None in row:
                raise InputError(f"{path}:{line}: has more cells than the first row names")
            yield line, {name: _bare(cell) for name, cell in row.items()}
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}:{line}: is not CSV: {error}") from error


def _bare(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell
