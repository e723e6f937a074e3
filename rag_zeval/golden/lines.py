"""The rows of a JSONL file of which some may be bad: what can be used, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields, parse_row

T = TypeVar("T")


def read_lines(path: str | Path, read: Callable[[Row], T]) -> tuple[dict[int, T], dict[int, str]]:
    """What `read` makes of each row, and what it or JSON finds wrong with the others, both by line number from 1.

    Raises InputError if the file cannot be read or holds no line; blank lines are none.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    good: dict[int, T] = {}
    bad: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                good[number] = read(parse_row(line))
            except InputError as error:
                bad[number] = str(error)
    if not good and not bad:
        raise InputError(f"{path}: no rows")
    return good, bad


def is_unanswerable(row: Row) -> bool:
    """Whether a row says that nothing answers its question: an empty list of gold chunks, and a true answer of null."""
    return row.get("gold_chunk_ids") == [] and row.get("truth", "") is None


def chunk_ids(row: Row, field: str) -> tuple[str, ...]:
    """The ids in a list of texts or whole numbers. Raises InputError naming the field if it is another thing."""
    check_fields(row, {field: list})
    for id_ in row[field]:
        if isinstance(id_, bool) or not isinstance(id_, str | int):
            raise InputError(f"field '{field}' must hold ids, texts or whole numbers, found {type(id_).__name__}")
    return tuple(map(str, row[field]))
