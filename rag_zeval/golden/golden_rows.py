"""The rows of golden sets: those that can be used and what is wrong with the others, their ids, and their slices."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from rag_zeval.cases.case import ALL, NO_SLICE
from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields, json_lines, readable

T = TypeVar("T")


def read_lines(path: str | Path, read: Callable[[Row], T]) -> tuple[dict[int, T], dict[int, str]]:
    """What `read` makes of each row of a JSONL file, and what is wrong with the others, both by line number from 1.

    Raises InputError if the file cannot be read or holds no line; blank lines are none.
    """
    good: dict[int, T] = {}
    bad: dict[int, str] = {}
    with readable(path), open(path, "rb") as lines:
        for number, found in json_lines(lines, read):
            if isinstance(found, InputError):
                bad[number] = str(found)
            else:
                good[number] = found
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


def by_slice(items: Iterable[T], tag: Callable[[T], str | None]) -> list[tuple[str, list[T]]]:
    """All items, then those of each slice, by name; no slices where no item has a tag."""
    everything = list(items)
    slices: dict[str, list[T]] = {}
    for item in everything:
        slices.setdefault(tag(item) or NO_SLICE, []).append(item)
    return [(ALL, everything), *(sorted(slices.items()) if set(slices) != {NO_SLICE} else [])]
