"""Files: JSON that others wrote is read and checked, files are written whole or not at all, and hashed."""

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
T = TypeVar("T")  # what is made of a row
LONE_SURROGATES = "backslashreplace"  # half an emoji, which UTF-8 has no bytes for, becomes JSON's own escape
BLOCK = 1 << 20
# What a field must hold: a type (a bool is no int); a whole number of a range; one of several kinds; `[kind]`, a list
# of such; an object with certain fields, or `{str: kind}`, one whose values are all such.
Kind = Any
FieldTypes = Mapping[str, Kind]  # the fields of an object; one of the kind `Maybe` may be missing
DEEPEST = 100  # lists and objects in each other: more have no sense, and end what goes through them
MOST = 2**63  # numbers of a field are smaller: sums of them are no infinities, and fit into an array
COUNT = range(MOST)
NONE = type(None)
NUMBER_OR_NONE = (int, float, NONE)
ANSWER_SENTENCES = "answer_sentences"  # the field of a judge's card that is a number
MOST_DIGITS = 300  # of a whole number: more are no float, and take long to read


@dataclass(frozen=True)
class Maybe:
    """The kind of a field that an object may lack."""

    kind: Kind


MARKS = {  # byte order marks, and encodings; UTF-32's begins with UTF-16's
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
WEIGHT_FILES = (
    "*.safetensors",
    "*.bin",
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)


@contextmanager
def locate(where: object) -> Iterator[None]:
    """Put a place (a file, `file:line`, an entry) before what an InputError says that is raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


@contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Around the reading of a file: what the operating system refuses becomes an InputError that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def json_lines(
    lines: Iterable[str | bytes], read: Callable[[Row], T], decoder: json.JSONDecoder | None = None
) -> Iterator[tuple[int, T | InputError]]:
    """Yield `(line number from 1, what read makes of it)` for each JSONL line that is not blank: a file's, or a list's.

    In place of a line that is no JSON object, or of which `read` raises InputError, that InputError is yielded.
    decoder: of the line's text; by default NaN, infinities and numbers too large for a float are errors.
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

    required: fields and their types (see `check_fields`). growing: a last line without its end is left out, for it is
    still being written, or a kill tore it. has_nan: whether numbers may be NaN, as training writes them. Raises
    InputError naming file, line and field at the first line that does not fit, and when the file cannot be read.
    """
    with readable(path), open(path, "rb") as file:
        lines = (line for line in file if not growing or line.endswith(b"\n"))
        for number, row in json_lines(
            lines, partial(check_fields, required=required or {}), WITH_NAN if has_nan else DECODER
        ):
            if isinstance(row, InputError):
                raise InputError(f"{path}:{number}: {row}") from row
            yield number, row


def iter_unique(path: str | Path, required: FieldTypes) -> Iterator[tuple[int, Row]]:
    """As `iter_jsonl`, for rows with an "id". Raises InputError, naming file and line, for one that stands twice too:
    no mean and no choice of one of them would be right.
    """
    lines: dict[str, int] = {}
    for number, row in iter_jsonl(path, {"id": str, **required}):
        if lines.setdefault(row["id"], number) != number:
            raise InputError(f"{path}:{number}: duplicate id {row['id']!r}, as in line {lines[row['id']]}: remove one")
        yield number, row


def read_jsonl(path: str | Path, required: FieldTypes | None = None) -> list[Row]:
    """All rows of a JSONL file; checks and errors as `iter_jsonl`."""
    return [row for _, row in iter_jsonl(path, required)]


def read_json(
    path: str | Path, kind: type[dict[str, Any]] | type[list[Any]] = dict, *, nan_is_null: bool = False
) -> Any:
    """The JSON object (or, for `list`, the JSON list) that a file holds. Raises InputError naming file and line.

    nan_is_null: take NaN and infinities, which are no JSON, for null.
    """
    with readable(path):
        content = Path(path).read_bytes()
    with locate_json(path):
        return _parse(content, kind, NAN_IS_NULL if nan_is_null else DECODER)


@contextmanager
def locate_json(path: str | Path) -> Iterator[None]:
    """Put the file, and the line where JSON breaks off, before what an InputError of `parse_json` says."""
    try:
        yield
    except InputError as error:
        line = f":{error.__cause__.lineno}" if isinstance(error.__cause__, json.JSONDecodeError) else ""
        raise InputError(f"{path}{line}: {error}") from error


def iter_json_list(path: str | Path, required: FieldTypes) -> Iterator[tuple[str, Row]]:
    """Yield `(place, row)` for each object of the list that a JSON file holds; the place names file and row, from 0.

    NaN is null: RAGChecker's data have it where a score is missing. Raises InputError naming the place and the first
    field of `required` that is missing or has another type.
    """
    for number, row in enumerate(read_json(path, list, nan_is_null=True)):
        place = f"{path}: row {number}"
        yield place, check_object(place, row, required)


def check_object(where: object, value: Any, required: FieldTypes) -> Row:
    """The value, if it is a JSON object with the fields `required`. Raises InputError naming place and field."""
    with locate(where):
        return check_fields(value, required)


def parse_row(line: str | bytes) -> Row:
    """The JSON object of one line, behind the mark that editors put before UTF-8. Raises InputError if it is none."""
    row: Row = _parse(line, dict)
    return row


def whole_number(digits: str) -> int:
    """The number in JSON. Raises ValueError for one of more than MOST_DIGITS digits, which takes long to read."""
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has more than {MOST_DIGITS} digits")
    return int(digits)


def finite(digits: str) -> float:
    """The number in JSON. Raises ValueError for one that is too large for a float."""
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is too large a number")
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number")


DECODER = json.JSONDecoder(parse_int=whole_number, parse_float=finite, parse_constant=_no_number)
WITH_NAN = json.JSONDecoder(parse_int=whole_number)
NAN_IS_NULL = json.JSONDecoder(parse_int=whole_number, parse_float=finite, parse_constant=lambda _: None)


@contextmanager
def json_faults() -> Iterator[None]:
    """Around the decoding of JSON: what is wrong with it becomes an InputError, without a place."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text: {error.reason} at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets nested without end
        raise InputError(f"not valid JSON: {str(error).splitlines()[0]}") from error


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
    """The row, if it is a JSON object with the fields `required`, and all numbers in them are below MOST.

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
    """What is wrong with a value, to be put behind its name; None for nothing."""
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
    """`{"a.b": value}` for nested objects; a list is a value, and so is an empty object in another."""
    if isinstance(content, Mapping) and (content or not prefix):
        return {k: v for key, value in content.items() for k, v in flat(value, f"{prefix}{key}.").items()}
    return {prefix.removesuffix("."): content}


def first_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The dotted name of the first setting in which two runs differ, those of `now` first; None if they are the same.

    A setting that only one of them has counts as None in the other: `first_difference({"a": {"b": 1}}, {})` is "a.b".
    """
    old, new = flat(before), flat(now)
    return next((name for name in [*new, *old] if old.get(name) != new.get(name)), None)


def check_regular(path: Path) -> None:
    """Raise InputError if something is there that is no regular file: a pipe waits for ever, a device has no end."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is not a regular file; choose another")


def check_writable(path: Path) -> None:
    """Raise InputError if no file can be written there. It tries it beside `path`, and leaves nothing."""
    folder = path.parent
    try:
        while not os.path.lexists(folder):  # who writes makes the folders that are missing
            folder = folder.parent
        part = _part(folder / path.name)
        with opened_new(part):
            part.unlink()
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}; choose another") from error


def opened_new(path: Path) -> IO[bytes]:
    """A new file to write. What stands in its place is removed, and a link there is not followed."""
    path.unlink(missing_ok=True)
    return open(path, "xb")


def _part(path: Path) -> Path:
    """A file beside `path` of this process alone, since two may write the same `path`."""
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def json_line(row: Row) -> bytes:
    """The row as a line of a JSONL file, without keys. Raises ValueError for NaN and infinities."""
    return _encoded(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def _encoded(text: str) -> bytes:
    return scrub(text).encode("utf-8", LONE_SURROGATES)


def write_text(path: str | Path, text: str) -> None:
    """Replace a file in one step: a reader sees the old content or the new, never half. Keys are masked."""
    write_chunks(Path(path), [text])


def write_bytes(path: str | Path, content: bytes) -> None:
    """As `write_text`, for what is no text: the bytes are written as they are."""
    write_chunks(Path(path), [content])


def write_chunks(path: Path, chunks: Iterable[str | bytes], part: Path | None = None) -> None:
    """As `write_text`, piece by piece; bytes are written as they are. A file that is there keeps its permissions.

    Raises OSError naming `path` when the disk is full; no part of it is left.

    part: where the pieces go first; by default a file of this process alone.
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
    """Name the file in an error of writing it: the operating system does so only where one cannot be opened."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_json(path: str | Path, content: Any) -> None:
    """Write `content` as indented JSON in one step. NaN and infinities are refused (ValueError)."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def file_sha256(path: str | Path) -> str:
    """Hex sha256 of a file's bytes."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def model_sha256(folder: str | Path) -> str:
    """Hex sha256 over everything in a model folder that changes its output: weights, config, tokenizer.

    Raises InputError when the folder holds no model.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: no model in this folder (config.json is missing)")
    files = sorted({path for pattern in WEIGHT_FILES for path in folder.glob(pattern)})
    listing = "".join(f"{path.name} {file_sha256(path)}\n" for path in files)
    return hashlib.sha256(listing.encode()).hexdigest()


def model_revision(folder: str | Path) -> str | None:
    """The hub's commit (40 hex digits) that a model folder came from, by its own account; None if it has none.

    `hf download --local-dir` leaves a note beside each file, and the hub's cache calls the folder by it. Nobody checks
    that the files are still those: `model_sha256` says what is there.
    """
    folder = Path(folder).resolve()
    note = folder / ".cache" / "huggingface" / "download" / "config.json.metadata"
    if note.is_file():
        said = note.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
    else:
        said = folder.name if folder.parent.name == "snapshots" else ""
    return said if re.fullmatch(r"[0-9a-f]{40}", said) else None


def read_card(folder: str | Path) -> dict[str, Any]:
    """`rag_zeval.json` of a checkpoint folder, {} if there is none.

    Raises InputError if it is no object of texts with a whole number of "answer_sentences", if any, of 1 or more.
    """
    path = Path(folder) / "rag_zeval.json"
    if not path.is_file():
        return {}
    card: dict[str, Any] = read_json(path)
    with locate(path):
        check_fields(card, {name: int if name == ANSWER_SENTENCES else str for name in card})
        if card.get(ANSWER_SENTENCES, 1) < 1:
            raise InputError(f"field '{ANSWER_SENTENCES}' must be 1 or more, found {card[ANSWER_SENTENCES]}")
    return card
