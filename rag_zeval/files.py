"""Reads and checks JSON that others wrote, writes files whole or not at all, and hashes files."""

import codecs
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from rag_zeval.errors import InputError
from rag_zeval.secrets import scrub

Row = dict[str, Any]
T = TypeVar("T")  # what a row is turned into
LONE_SURROGATES = "backslashreplace"  # UTF-8 cannot encode half an emoji, so it becomes an escape of JSON
BLOCK = 1 << 20
# What a field must hold: a type (a bool is not an int), a range of whole numbers, or a tuple of alternatives. `[kind]`
# is a list of values of that kind. A mapping names the fields of an object; `{str: kind}` allows any fields of a kind.
Kind = Any
FieldTypes = Mapping[str, Kind]  # the fields of an object; those of the kind `Maybe` may be missing
TORN = "; the line does not end: if a run that wrote it was interrupted, run the same command again, which repairs it"
DEEPEST = 100  # levels of nested lists and objects: deeper ones make no sense, and break recursive code
MOST = 2**63  # numbers in a field are smaller, so their sums are finite and they fit into an array
COUNT = range(MOST)
NONE = type(None)
NUMBER_OR_NONE = (int, float, NONE)
MOST_DIGITS = 300  # of a whole number: longer ones may not fit into a float, and are slow to read


@dataclass(frozen=True)
class Maybe:
    """The kind of a field that an object may lack."""

    kind: Kind


MARKS = {  # byte order mark -> encoding; UTF-32's comes first, because it begins with UTF-16's
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
TABLES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".feather", ".arrow", ".xlsx", ".gz")


@contextmanager
def locate(where: object) -> Iterator[None]:
    """Prepend a place (a file, `file:line`, an entry) to the message of any InputError raised inside that lacks it."""
    try:
        yield
    except InputError as error:
        if str(error).startswith(f"{where}:"):
            raise
        raise InputError(f"{where}: {error}") from error


@contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Put this around the reading of a file. An error of the operating system becomes an InputError with its name."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def json_lines(
    lines: Iterable[str | bytes], read: Callable[[Row], T], decoder: json.JSONDecoder | None = None
) -> Iterator[tuple[int, T | InputError]]:
    """Yield `(line number from 1, read(row))` for each JSONL line that is not blank.

    If a line is no JSON object, or `read` raises InputError, the InputError is yielded in place of the result.
    decoder: parses a line; by default NaN, infinities and numbers too large for a float are errors.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            found: T | InputError
            try:
                found = read(_parse(line, dict, decoder or DECODER))
            except InputError as error:
                found = error
            yield number, found


def iter_jsonl(
    path: str | Path, required: FieldTypes | None = None, *, growing: bool = False, has_nan: bool = False
) -> Iterator[tuple[int, Row]]:
    """Yield `(line number from 1, row)` for each non-empty line of a JSONL file.

    required: fields and their types (see `check_fields`). growing: leave out a last line that does not end in a line
    break, because it is still being written or a kill tore it. has_nan: whether numbers may be NaN, as training writes
    them. Raises InputError, naming file, line and field, at the first line that does not fit. It is also raised if the
    file cannot be read.
    """
    line = b"\n"

    def whole() -> Iterator[bytes]:
        nonlocal line
        for line in file:
            if not growing or line.endswith(b"\n"):
                yield line

    with readable(path), open(path, "rb") as file:
        for number, row in json_lines(
            whole(), partial(check_fields, required=required or {}), WITH_NAN if has_nan else DECODER
        ):
            if isinstance(row, InputError):
                torn = TORN if row.__cause__ is not None and not line.endswith(b"\n") else ""
                raise InputError(f"{path}:{number}: {row}{torn or other_format(path)}") from row
            yield number, row


def other_format(path: str | Path) -> str:
    """Return the end of a message about a line that is no JSON, if the file's name says that it is another table."""
    suffix = Path(path).suffix.lower()
    is_other = suffix in TABLES and suffix not in (".json", ".jsonl", ".ndjson")
    return f"; the file must be JSONL, with one JSON object in each line, not {suffix}" if is_other else ""


def iter_unique(path: str | Path, required: FieldTypes) -> Iterator[tuple[int, Row]]:
    """As `iter_jsonl`, for rows with an "id". Also raises InputError, naming file and line, for a duplicate id.

    Neither the mean of duplicates nor a choice of one of them would be right.
    """
    lines: dict[str, int] = {}
    for number, row in iter_jsonl(path, {"id": str, **required}):
        if lines.setdefault(row["id"], number) != number:
            raise InputError(f"{path}:{number}: duplicate id {row['id']!r}, as in line {lines[row['id']]}: remove one")
        yield number, row


def read_jsonl(path: str | Path, required: FieldTypes | None = None) -> list[Row]:
    """Return all rows of a JSONL file. Checks and errors are those of `iter_jsonl`."""
    return [row for _, row in iter_jsonl(path, required)]


def read_json(path: str | Path, kind: type[dict[str, Any]] | type[list[Any]] = dict, *, has_nan: bool = False) -> Any:
    """Return the JSON object (or, for `list`, the JSON list) that a file holds. Raises InputError naming file and line.

    has_nan: as in `iter_jsonl`.
    """
    with readable(path):
        content = Path(path).read_bytes()
    with locate_json(path):
        return _parse(content, kind, WITH_NAN if has_nan else DECODER)


@contextmanager
def locate_json(path: str | Path) -> Iterator[None]:
    """Prepend the file, and the line of a JSON syntax error, to the message of an InputError that is raised inside."""
    try:
        yield
    except InputError as error:
        line = f":{error.__cause__.lineno}" if isinstance(error.__cause__, json.JSONDecodeError) else ""
        raise InputError(f"{path}{line}: {error}") from error


def check_object(where: object, value: Any, required: FieldTypes) -> Row:
    """Return the value if it is a JSON object with the fields `required`. Raises InputError naming place and field."""
    with locate(where):
        return check_fields(value, required)


def parse_row(line: str | bytes) -> Row:
    """Return the JSON object of one line. A byte order mark is skipped. Raises InputError if the line is no object."""
    row: Row = _parse(line, dict)
    return row


def whole_number(digits: str) -> int:
    """Parse a whole number in JSON. Raises ValueError if it has more than MOST_DIGITS digits: it is slow to read."""
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has more than {MOST_DIGITS} digits")
    return int(digits)


def finite(digits: str) -> float:
    """Parse a number with a fraction or exponent in JSON. Raises ValueError if it is too large for a float."""
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is too large a number")
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number")


DECODER = json.JSONDecoder(parse_int=whole_number, parse_float=finite, parse_constant=_no_number)
WITH_NAN = json.JSONDecoder(parse_int=whole_number)
TRAILING_COMMA = re.compile(r",\s*[\]}]")


@contextmanager
def json_faults() -> Iterator[None]:
    """Put this around the decoding of JSON. Its errors become InputErrors, without a place."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text: {error.reason} at byte {error.start}") from error
    except json.JSONDecodeError as error:
        at = f"not valid JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        raise InputError(at + _not_in_json(error.doc, error.pos)) from error
    except (ValueError, RecursionError) as error:  # a number with too many digits, brackets nested too deep
        raise InputError(f"not valid JSON: {str(error).splitlines()[0]}") from error


def _not_in_json(text: str, at: int) -> str:
    """Return what to do if a fault is something that other formats allow, such as a comment."""
    if text.startswith(("//", "/*", "#"), at):
        return ": JSON has no comments, so remove this one"
    # Python 3.13 names the comma, earlier ones what comes after it
    if TRAILING_COMMA.match(text, at) or (text.startswith(("]", "}"), at) and text[:at].rstrip().endswith(",")):
        return ": remove the comma after the last item"
    if text.startswith("'", at):
        return ": JSON has no single quotation marks, as Python prints them; write the file with json.dump"
    return ""


def _parse(content: str | bytes, kind: type, decoder: json.JSONDecoder = DECODER) -> Any:
    with json_faults():
        text = content if isinstance(content, str) else content.decode("utf-8")
        value = decoder.decode(text.removeprefix("\ufeff").rstrip("\r\n"))
    if not isinstance(value, kind):
        name = "object" if kind is dict else "list"
        raise InputError(f"expected a JSON {name}, found {type(value).__name__}")
    if text.count("[") + text.count("{") > DEEPEST and _is_deep(value):
        raise InputError(f"lists and objects stand more than {DEEPEST} deep in each other")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        inner = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = list(chain.from_iterable(inner))
    return bool(level)


def check_fields(row: Any, required: FieldTypes) -> Row:
    """Return the row if it is a JSON object with the fields `required`. Finite numbers in them must be below MOST.

    Raises InputError naming the first field that is missing or holds something else.

    >>> check_fields({"id": "a", "scores": [1, None]}, {"id": str, "scores": [NUMBER_OR_NONE], "note": Maybe(str)})
    {'id': 'a', 'scores': [1, None]}
    """
    if fault := _fault_of_object(row, required):
        raise InputError(fault)
    return cast(Row, row)


_TYPES: Mapping[type, str] = {range: "int", list: "list", dict: "dict"}
_NUMBERS = {int, float}
TOO_LARGE = " must be a number below 2^63"


def _fault_of_object(row: Any, required: FieldTypes) -> str | None:
    if not isinstance(row, dict):
        return f"expected a JSON object, found {type(row).__name__}"
    for name, kind in required.items():
        if name in row:
            if fault := _fault(row[name], kind.kind if isinstance(kind, Maybe) else kind):
                return f"field '{name}'{fault}"
        elif not isinstance(kind, Maybe):
            return f"field '{name}' is missing"
    return None


def _fault(value: Any, kind: Kind) -> str | None:
    """Return what is wrong with a value, as text to append to its name; None if nothing is."""
    kinds, own = kind if isinstance(kind, tuple) else (kind,), type(value)
    if own in kinds:
        return TOO_LARGE if own in _NUMBERS and MOST <= abs(value) < math.inf else None
    for one in kinds:
        if type(one) is own:
            return _fault_inside(value, one)
        if own is int and isinstance(one, range):
            return None if value in one else TOO_LARGE if abs(value) >= MOST else " must be a whole number, 0 or more"
    names = " or ".join(one.__name__ if isinstance(one, type) else _TYPES[type(one)] for one in kinds)
    return f" must be {names}, found {own.__name__}"


def _fault_inside(value: Any, kind: Any) -> str | None:
    if isinstance(kind, list):
        for number, item in enumerate(value, 1):
            if fault := _fault(item, kind[0]):
                return f": item {number}{fault}"
    elif str in kind:
        for key, inner in value.items():
            if fault := _fault(inner, kind[str]):
                return f": '{key}'{fault}"
    elif fault := _fault_of_object(value, kind):
        return f": {fault}"
    return None


def flat(content: Any, prefix: str = "") -> Row:
    """Flatten nested objects to `{"a.b": value}`. A list is a value, and so is an empty object inside another."""
    if isinstance(content, Mapping) and (content or not prefix):
        return {k: v for key, value in content.items() for k, v in flat(value, f"{prefix}{key}.").items()}
    return {prefix.removesuffix("."): content}


def first_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return the dotted name of the first setting in which two runs differ; None if they do not differ.

    Settings of `now` are compared first. A setting that only one run has counts as None in the other:
    `first_difference({"a": {"b": 1}}, {})` is "a.b". An empty object counts as None too.
    """
    old, new = ({name: value for name, value in flat(run).items() if value != {}} for run in (before, now))
    return next((name for name in [*new, *old] if old.get(name) != new.get(name)), None)


def check_regular(path: Path) -> None:
    """Raise InputError if `path` exists and is no regular file. A pipe would block for ever, a device has no end."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is not a regular file; choose another")


def check_several_readings(path: Path) -> None:
    """Raise InputError for a folder, and for a pipe or a device, which cannot be read several times as files are."""
    if path.is_dir():
        file = next((file for file in sorted(path.iterdir()) if file.suffix in TABLES), None)
        raise InputError(f"{path}: is a folder; name a file in it{f', such as {file}' if file else ''}")
    if str(path) == "-" or (path.exists() and not path.is_file()):
        raise InputError(f"{path}: is a pipe or a device, which can be read only once; save its content as a file")


def check_writable(path: Path) -> None:
    """Raise InputError if no file can be written at `path`. It tries with a file beside it, and removes that file."""
    folder = path.parent
    try:
        while not os.path.lexists(folder):  # the writer will create missing folders
            folder = folder.parent
        part = _part(folder / path.name)
        with opened_new(part):
            part.unlink()
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}; choose another") from error


def opened_new(path: Path) -> IO[bytes]:
    """Open a new file for writing. An existing file is removed first, and a link is not followed."""
    path.unlink(missing_ok=True)
    return open(path, "xb")


def _part(path: Path) -> Path:
    """Return a path beside `path` for this process alone, because two processes may write the same `path`."""
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def json_line(row: Row) -> bytes:
    """Return the row as a line of a JSONL file. API keys are masked. Raises ValueError for NaN and infinities."""
    return _encoded(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def _encoded(text: str) -> bytes:
    return scrub(text).encode("utf-8", LONE_SURROGATES)


def write_text(path: str | Path, text: str) -> None:
    """Replace a file in one step: a reader sees the old content or the new, never half of it. API keys are masked."""
    write_chunks(Path(path), [text])


def write_bytes(path: str | Path, content: bytes) -> None:
    """As `write_text`, for bytes, which are written unchanged."""
    write_chunks(Path(path), [content])


def write_chunks(path: Path, chunks: Iterable[str | bytes], part: Path | None = None) -> None:
    """As `write_text`, piece by piece. Bytes are written unchanged. An existing file keeps its permissions.

    part: the temporary file that takes the pieces first; by default one that only this process uses. Raises OSError
    naming `path` if the disk is full; the temporary file is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = part or _part(path)
    try:
        with naming(path), opened_new(part) as file:
            file.writelines(chunk if isinstance(chunk, bytes) else _encoded(chunk) for chunk in chunks)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file's name to an OSError. The operating system names the file only if it cannot be opened."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_json(path: str | Path, content: Any) -> None:
    """Write `content` as indented JSON in one step. Raises ValueError for NaN and infinities."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def file_sha256(path: str | Path) -> str:
    """Return the hex sha256 of a file's bytes."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
