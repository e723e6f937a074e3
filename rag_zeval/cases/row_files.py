"""Reads the rows of files: delimited text, Excel, Parquet, Arrow, and JSON in many arrangements, also packed by gzip.

Every reader yields one row at a time, with its place. So delimited text, JSON lines and Parquet files need not fit into
memory.
"""

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rag_zeval.cases.arrangements import rows_of
from rag_zeval.cases.excel import is_filled, read_sheet
from rag_zeval.cases.names import field_of, spaced_once, unique_names, written_name
from rag_zeval.cases.text_files import FORMATS, NO_TABLE, encoding_of, head_of, named_faults, opened, opened_as_text
from rag_zeval.csv_files import DELIMITERS, csv_rows, delimiter_of, is_spaced
from rag_zeval.errors import InputError, needed
from rag_zeval.files import (
    Row,
    check_several_readings,
    finite,
    json_faults,
    json_lines,
    locate,
    locate_json,
    whole_number,
)

PlacedRow = tuple[str, Row | InputError]  # a place, and the row there or why it cannot be read
PARQUET_ROWS = 1_000  # in memory at a time
PACKED = (b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c")  # by bzip2, xz, zstd and 7-Zip
MARKDOWN_RULE = re.compile(r"\s*(:?--+:?)?\s*")  # a cell of the line below a Markdown table's header
ARROW_STREAM = b"\xff\xff\xff\xff"  # as `datasets.save_to_disk` writes it
MARKUP = re.compile(rb"\s*<[!?/]?[a-z][^<>]*>", re.IGNORECASE)  # how a web page begins, and XML
BAR = "\ue07c"  # stands for an escaped bar
TITLE_ROWS = 20  # a header is looked for in so many rows below the first line
LONGEST_NAME = 40  # characters of a column's name that may be known
HIDDEN = "is hidden, as by a filter: show it, delete it, or give `rag-zeval evaluate` the option --skip-bad-rows"


def read_table(path: Path, encoding: str | None = None, chosen: Mapping[str, str] | None = None) -> Iterator[PlacedRow]:
    """Return the rows of a file, without empty ones.

    Binary formats are recognised by their content. Text is read as its suffix says (.csv, .tsv, .json, .jsonl, .ndjson,
    .yaml or .yml). With another suffix it is JSON if it begins with "{" or "[".
    encoding: of a text file. Default: that of its byte order mark, or UTF-8.
    chosen: the columns that the user chose, by field, see `arrangements.rows_of`.
    Raises InputError, now or while rows are read, if the file cannot be read. It names the file, and if possible the
    line.
    """
    check_several_readings(path)
    head = head_of(path)
    if head.startswith((b"PAR1", b"ARROW1", b"FEA1", ARROW_STREAM)):
        return _columnar(path, head)
    if head.startswith(b"PK\x03\x04"):
        return _excel(path)
    _check_text(path, head)
    encoding = encoding_of(path, head, encoding)
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeError:
        text = ""  # the reader of the text reports it
    if "\0" in text.partition("\n")[0]:  # such as a tar archive
        raise InputError(f"{path}: {NO_TABLE}")
    start = text.lstrip()[:1]
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((".yaml", ".yml")):
        return _yaml(path, chosen)
    if name.endswith((".csv", ".tsv")) or (
        start not in ("{", "[") and not name.endswith((".json", ".jsonl", ".ndjson"))
    ):
        return _delimited(path, encoding, "\t" if name.endswith(".tsv") else None)
    return _json(path, encoding, chosen)


def readable_rows(rows: Iterable[PlacedRow]) -> Iterator[tuple[str, Row]]:
    """Yield rows with their places. Raises InputError at the first that cannot be read."""
    for place, row in rows:
        if isinstance(row, InputError):
            raise InputError(f"{place}: {row}")
        yield place, row


def _check_text(path: Path, head: bytes) -> None:
    """Raise InputError for a file of a known format that we do not read."""
    if head.startswith(PACKED):
        raise InputError(f"{path}: is packed; unpack it, or pack it by gzip")
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        raise InputError(
            f"{path}: is in the old Excel format .xls, or has a password: save it as .xlsx without one, or as CSV"
        )
    if MARKUP.match(head):
        raise InputError(f"{path}: is a web page or XML, not a table; save the table as {FORMATS}")


def _delimited(path: Path, encoding: str, delimiter: str | None) -> Iterator[PlacedRow]:
    with opened_as_text(path, encoding) as text:
        # each of several joined files may begin with a mark
        file: Iterator[str] = (line.removeprefix("\ufeff") for line in text)
        start = 1
        if path.name.lower().removesuffix(".gz").endswith(".md"):
            file, start = _only_table(path, list(file))
        first = next(file, "")
        if first.lower().startswith("sep=") and len(first.strip()) == len("sep=") + 1:  # Excel's own line
            delimiter, first, start = first[len("sep=")], next(file, ""), 2
        while first and not first.strip(f'{DELIMITERS}" \r\n'):  # an empty row, which spreadsheets may begin with
            first, start = next(file, ""), start + 1
        names: list[str] = []
        delimiter = delimiter if delimiter and delimiter in first else delimiter_of(first)
        lines: Iterable[str] = chain([first], file)
        is_markdown = False
        if delimiter == "|":
            second = next(file, "")
            is_markdown = all(map(MARKDOWN_RULE.fullmatch, second.split("|")))
            lines = chain([first, second], file)
        if is_markdown:  # in its cells, \| is a bar
            lines = (line.replace(r"\|", BAR) for line in lines)
        spaced = not is_markdown and is_spaced(first, delimiter)
        is_empty = True
        for line, written in csv_rows(path, lines, delimiter, start, spaced):
            # Markdown has spaces around a cell, to align it
            cells = [cell.strip().replace(BAR, "|") for cell in written] if is_markdown else written
            if not names:
                names = _header(path, cells)
            elif any(cell.strip() for cell in cells) and not (is_markdown and line == start + 1):
                is_cut = is_markdown and len(cells) != len(names)
                with locate(f"{path}:{line}"):
                    found = _wrong_number(names, cells) if is_cut else _cells(names, cells, line - start)
                if isinstance(found, WrongNumber) and not is_cut and len(cells) > len(names):
                    found = InputError(f"{found}; put a cell that contains {delimiter!r} in quotation marks")
                yield f"{path}:{line}", found
                is_empty = False
        if names and is_empty:
            hint = "" if any(map(field_of, names)) else "; if that line is a row, add one with the columns' names above"
            raise InputError(f"{path}: no rows below the first line{hint}")


def _only_table(path: Path, lines: Sequence[str]) -> tuple[Iterator[str], int]:
    """Return the lines of the only table of a Markdown document, and the number of its first line.

    All lines are returned if there is none. Raises InputError if there are several.
    """
    below = [at for at, line in enumerate(lines) if "|" in line and all(map(MARKDOWN_RULE.fullmatch, line.split("|")))]
    heads = [at - 1 for at in below if at and "|" in lines[at - 1]]
    if len(heads) > 1:
        places = " and ".join(str(at + 1) for at in heads)
        raise InputError(f"{path}: has tables at lines {places}; save the right one as its own file")
    start = heads[0] if heads else 0
    ends = (at for at in range(start, len(lines)) if heads and not lines[at].strip())
    return iter(lines[start : next(ends, len(lines))]), start + 1


def _header(path: Path, cells: Sequence[Any]) -> list[str]:
    """Return the names of columns. A column without a name is called by its number, such as `(column 2)`.

    So are columns that have the same name, as in `Score (column 5)`. Raises InputError if it names a known field.
    """
    names = [spaced_once(cell) for cell in cells]
    count = Counter(name for name in names if not field_of(name))
    numbered = [f"{name} (column {at})".strip() if count[name] > 1 else name for at, name in enumerate(names, 1)]
    with locate(path):
        return [name or f"(column {number})" for number, name in enumerate(unique_names(numbered), 1)]


class LaterHeader(InputError):
    """Raised for a row that seems to be the header, below a title or another line."""


def _cells(names: Sequence[str], cells: Sequence[Any], number: int) -> Row | InputError:
    """Return a row as values by column name, or an InputError if it is another header or has too few or many cells.

    Empty cells are None; in a column without a name they are left out. Cells beyond the last name must be empty.
    number: of the row, from 1. Raises InputError for a header with another order, because all rows after it have it.
    """
    written = [*map(written_name, names)]
    if spaced_once(cells[0]) in written:
        found = [*map(spaced_once, cells[: len(names)])]
        if found == written:
            return InputError("repeats the names of the columns; remove the line")
        if sorted(found) == sorted(written):
            raise InputError("names the columns in another order; save what begins here as its own file")
    if number <= TITLE_ROWS:
        filled = [str(cell) for cell in cells if cell not in ("", None)]
        known = {field_of(cell) for cell in filled if len(cell) < LONGEST_NAME} - {None}
        named = [name for name in names if not name.startswith("(column ")]
        if len(known) > 1 and (2 * len(known) > len(filled) or 2 * len(named) < len(filled)):
            return LaterHeader("seems to name the columns, which the first line must do; remove what is before")
    if len(cells) < len(names) or any(cell not in ("", None) for cell in cells[len(names) :]):
        return _wrong_number(names, cells)
    row = zip(names, cells, strict=False)
    return {name: cell if cell != "" else None for name, cell in row if cell != "" or not name.startswith("(column ")}


class WrongNumber(InputError):
    """Raised for a row with more or fewer cells than the header."""


def _wrong_number(names: Sequence[str], cells: Sequence[Any]) -> InputError:
    return WrongNumber(f"has {len(cells)} cells where the first line has {len(names)} columns")


def _columnar(path: Path, head: bytes) -> Iterator[PlacedRow]:
    is_parquet = head.startswith(b"PAR1")
    with needed("pyarrow", f"{path}: reading {'Parquet' if is_parquet else 'Arrow files'}"):
        import pyarrow.feather
        import pyarrow.parquet
    with named_faults(path), path.open("rb") as file:
        if is_parquet:  # in parts: rows that repeat a document need much memory
            table = pyarrow.parquet.ParquetFile(file)
            names, parts = table.schema_arrow.names, table.iter_batches(PARQUET_ROWS)
        elif head.startswith(ARROW_STREAM):
            table = pyarrow.ipc.open_stream(file)
            names, parts = table.schema.names, iter(table)
        else:
            table = pyarrow.feather.read_table(file)
            names, parts = table.schema.names, table.to_batches(PARQUET_ROWS)
        with locate(path):
            unique_names(names)
        yield from _placed(path, chain.from_iterable(part.to_pylist() for part in parts))


def _excel(path: Path) -> Iterator[PlacedRow]:
    """Yield the rows of the only visible sheet that has a header and rows. A hidden row is an InputError.

    The name of a hidden column says so, as in `answer (hidden)`. So it is told, and read only if the user names it.
    """
    with needed("python-calamine", f"{path}: reading Excel files"):
        from python_calamine import CalamineError
    with named_faults(path), opened(path) as file, locate(path):
        try:
            sheet, hidden, hidden_columns = read_sheet(file.read())
        except CalamineError as error:
            raise InputError(
                f"is a ZIP file, but no Excel file that can be read; unpack it, or save it as {FORMATS}"
            ) from error
    rows = [(number, cells) for number, cells in enumerate(sheet) if is_filled(cells)]
    header = enumerate(rows[0][1] if rows else ())
    names = _header(path, [f"{name} (hidden)" if at in hidden_columns and name else name for at, name in header])
    for at, (number, cells) in enumerate(rows[1:], 1):
        place = f"{path}: row {number + 1}"
        with locate(place):
            found = _cells(names, cells, at)
        yield place, InputError(HIDDEN) if number in hidden else found


def _placed(path: Path, rows: Iterable[Any]) -> Iterator[PlacedRow]:
    for number, row in enumerate(rows, 1):
        found = row if isinstance(row, dict) else InputError(f"expected a JSON object, found {type(row).__name__}")
        yield f"{path}: row {number}", found


def _yaml(path: Path, chosen: Mapping[str, str] | None) -> Iterator[PlacedRow]:
    """Return the rows of a YAML file, which is arranged like JSON. All values are texts."""
    with needed("pyyaml", f"{path}: reading YAML"):
        from rag_zeval.yaml_file import read_yaml_texts
    return _placed(path, rows_of(read_yaml_texts(path), path, chosen))


def _json(path: Path, encoding: str, chosen: Mapping[str, str] | None) -> Iterator[PlacedRow]:
    """Yield the rows of JSON lines, of a list, of an object that holds rows or columns, or of objects in sequence."""
    with opened_as_text(path, encoding) as file:
        first, second = islice(chain((line for line in file if line.strip()), ("", "")), 2)
    try:
        with json_faults():
            value = DECODER.decode(first.removeprefix("\ufeff").strip())
    except InputError:
        # of an object with line breaks, or of one bad line of many: inside an object, another one follows only [ : or ,
        follows = second.lstrip().startswith("{") and not first.rstrip().endswith(("[", ":", ","))
        is_lines = first.lstrip().startswith("{") and (first.rstrip().endswith("}") or follows)
    else:
        is_lines = isinstance(value, dict) and (bool(second) or rows_of(value, path, chosen) == [value])
    with opened_as_text(path, encoding) as file:
        if is_lines:
            yield from ((f"{path}:{number}", row) for number, row in json_lines(file, dict, DECODER))
            return
        content = _values(path, file.read())
    yield from _placed(path, rows_of(content[0], path, chosen) if len(content) == 1 else content)


def _values(path: Path, text: str) -> list[Any]:
    """Return the JSON values that follow each other in a text. So pretty-printed objects need no list around them."""
    values, at = [], 0
    text = text.strip().removeprefix("\ufeff")
    with locate_json(path), json_faults():
        while at < len(text):
            value, at = DECODER.raw_decode(text, at)
            values.append(value)
            while at < len(text) and (text[at].isspace() or text[at] == ","):
                at += 1
    return values


def _object(pairs: list[tuple[str, Any]]) -> Row:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"an object has two fields named '{twice}'")
    return content


DECODER = json.JSONDecoder(  # reads NaN and infinities as null
    parse_int=whole_number, parse_float=finite, parse_constant=lambda _: None, object_pairs_hook=_object
)
