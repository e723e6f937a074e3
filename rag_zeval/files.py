"""Files of a run: JSONL read line by line, files written whole or not at all, hashes of what was read."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rag_zeval.errors import InputError

Row = dict[str, Any]
LONE_SURROGATES = "backslashreplace"  # half an emoji, which UTF-8 has no bytes for, becomes JSON's own escape
BLOCK = 1 << 20
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
        with open(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    try:
                        row = parse_row(line.decode("utf-8"))
                        check_fields(row, required or {})
                    except UnicodeDecodeError as error:
                        reason = f"not UTF-8 text: {error.reason} at byte {error.start}"
                        raise InputError(f"{path}:{number}: {reason}") from error
                    except InputError as error:
                        raise InputError(f"{path}:{number}: {error}") from error
                    yield number, row
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def read_jsonl(path: str | Path, required: FieldTypes | None = None) -> list[Row]:
    """All rows of a JSONL file; checks and errors as `iter_jsonl`."""
    return [row for _, row in iter_jsonl(path, required)]


def parse_row(line: str) -> Row:
    """The JSON object of one line, behind the mark that editors put before UTF-8. Raises InputError if it is none."""
    try:
        row = json.loads(line.removeprefix("\ufeff"))
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


def check_regular(path: Path) -> None:
    """Raise InputError if something is there that is no regular file: a pipe waits for ever, a device has no end."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is no regular file; name another")


def json_line(row: Row) -> bytes:
    """The row as a line of a JSONL file. Raises ValueError for NaN and infinities."""
    return (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8", LONE_SURROGATES)


def write_text(path: str | Path, text: str) -> None:
    """Replace a file in one step: a reader sees the old content or the new, never half."""
    write_bytes(path, text.encode("utf-8", LONE_SURROGATES))


def write_bytes(path: str | Path, content: bytes) -> None:
    """As `write_text`."""
    write_chunks(Path(path), [content])


def write_chunks(path: Path, chunks: Iterable[bytes], part: Path | None = None) -> None:
    """As `write_text`, piece by piece. Raises OSError naming `path` when the disk is full; no part of it is left.

    part: where the pieces go first; by default a file of this process alone, since two may write the same `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = part or path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with naming(path), open(part, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
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
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _digest(file)


def _digest(file: IO[bytes]) -> str:  # hashlib.file_digest came with Python 3.11
    digest = hashlib.sha256()
    while block := file.read(BLOCK):
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
