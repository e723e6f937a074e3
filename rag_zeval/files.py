"""Run files: rows appended as they are done, JSON written whole or not at all, hashes of what was read."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from rag_zeval.errors import InputError

Row = dict[str, Any]
LONE_SURROGATES = "backslashreplace"  # half an emoji, which UTF-8 has no bytes for, becomes JSON's own escape
FieldTypes = Mapping[str, type | tuple[type, ...]]

WEIGHT_FILES = (
    "*.safetensors",
    "*.bin",
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)


def iter_jsonl(path: str | Path, required: FieldTypes | None = None) -> Iterator[tuple[int, Row]]:
    """Yield `(line number from 1, row)` for each non-empty line of a JSONL file.

    `required` maps field names to the type each must have (bool is not accepted as int). Raises InputError
    naming file, line and field at the first line that does not fit, and when the file cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    try:
                        row = parse_row(line)
                        check_fields(row, required or {})
                    except InputError as error:
                        raise InputError(f"{path}:{number}: {error}") from error
                    yield number, row
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error


def read_jsonl(path: str | Path, required: FieldTypes | None = None) -> list[Row]:
    """All rows of a JSONL file; checks and errors as `iter_jsonl`."""
    return [row for _, row in iter_jsonl(path, required)]


def parse_row(line: str) -> Row:
    """The JSON object of one line. Raises InputError if it is none."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets nested without end
        raise InputError(f"not valid JSON: {str(error).splitlines()[0]}") from error
    if not isinstance(row, dict):
        raise InputError(f"expected a JSON object, found {type(row).__name__}")
    return row


def check_fields(row: Row, required: FieldTypes) -> None:
    """Raise InputError naming the first field of `required` that is missing or has another type."""
    for field, kind in required.items():
        if field not in row:
            raise InputError(f"field '{field}' is missing")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(row[field], kinds) or (isinstance(row[field], bool) and bool not in kinds):
            names = " or ".join(k.__name__ for k in kinds)
            raise InputError(f"field '{field}' must be {names}, found {type(row[field]).__name__}")


class StoredRows(Mapping[str, Row]):
    """The rows of a JSONL file by their "id", read from the file when they are looked at: a long file fits in memory.

    A last line without its end, as a kill leaves it, is none. Raises InputError when another is no row, or an id
    stands twice.
    """

    def __init__(self, path: Path):
        self._path = path
        self._starts: dict[str, int] = {}
        self.size = 0  # bytes of whole lines
        if path.exists():
            with open(path, "rb") as lines:
                for number, line in enumerate(lines, 1):
                    if line.endswith(b"\n"):
                        self._find(f"{path}:{number}", line)

    def _find(self, where: str, line: bytes) -> None:
        try:
            row = parse_row(line.decode("utf-8"))
            check_fields(row, {"id": str})
        except (InputError, UnicodeDecodeError) as error:
            raise InputError(f"{where}: {error}") from error
        if row["id"] in self._starts:
            raise InputError(f"{where}: field 'id': {row['id']!r} stands twice")
        self.add(row["id"], len(line))

    def add(self, id_: str, length: int) -> None:
        """Take note of a row written behind the others, of `length` bytes with its end of line."""
        self._starts[id_] = self.size
        self.size += length

    def __getitem__(self, id_: str) -> Row:
        start = self._starts[id_]
        with open(self._path, "rb") as lines:
            lines.seek(start)
            try:
                return parse_row(lines.readline().decode("utf-8"))
            except (InputError, UnicodeDecodeError) as error:  # somebody else wrote into it
                raise InputError(f"{self._path}: row '{id_}': {error}") from error

    def __contains__(self, id_: object) -> bool:
        return id_ in self._starts

    def __iter__(self) -> Iterator[str]:
        return iter(self._starts)

    def __len__(self) -> int:
        return len(self._starts)


class RowWriter:
    """Append-only JSONL of finished rows, each with a string "id"; a restart finds in `done` what is there already.

    A last line torn by a kill is cut off when the file is opened, so its row is simply done again.
    Raises InputError when a complete line is not a row, an id stands twice, or another process is writing the file.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "ab")  # noqa: SIM115 (closed in __exit__)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until it is closed, or this process ends
            self.done = StoredRows(self.path)
        except BlockingIOError as error:
            self._file.close()
            raise InputError(f"{self.path}: another run is writing this file") from error
        except InputError:
            self._file.close()
            raise
        self._file.truncate(self.done.size)

    def append(self, row: Row) -> None:
        """Write one row and hand it to the operating system. Raises ValueError if its id is there already."""
        if row["id"] in self.done:
            raise ValueError(f"row {row['id']!r} is written already")
        line = json_line(row)
        self._file.write(line)
        self._file.flush()
        self.done.add(row["id"], len(line))

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()


def json_line(row: Row) -> bytes:
    """The row as a line of a JSONL file. Raises ValueError for NaN and infinities."""
    return (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8", LONE_SURROGATES)


def write_text(path: str | Path, text: str) -> None:
    """Replace a file in one step: a reader sees the old content or the new, never half."""
    write_bytes(path, text.encode("utf-8", LONE_SURROGATES))


def write_bytes(path: str | Path, content: bytes) -> None:
    """As `write_text`."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def write_json(path: str | Path, content: Any) -> None:
    """Write `content` as indented JSON in one step. NaN and infinities are refused (ValueError)."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def file_sha256(path: str | Path) -> str:
    """Hex sha256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _digest(file)


def _digest(file: IO[bytes]) -> str:  # hashlib.file_digest came with Python 3.11
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def model_sha256(folder: str | Path) -> str:
    """Hex sha256 over everything in a model folder that changes its output: weights, config, tokenizer.

    Raises InputError when the folder holds no model.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: no model here (config.json is missing)")
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
