"""Reads the rows of golden sets, with the errors of invalid rows, and groups them by slice."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from rag_zeval.cases.case import ALL, NO_SLICE, slice_name
from rag_zeval.cases.cells import is_nothing
from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields, json_lines, locate, other_format, readable
from rag_zeval.results import check_no_result

T = TypeVar("T")


def read_lines(path: str | Path, read: Callable[[Row], T]) -> tuple[dict[int, T], dict[int, str]]:
    """Apply `read` to each row of a JSONL file. Returns the results and the errors, both by line number from 1.

    A row with an error has no result. Blank lines are skipped. Raises InputError if the file cannot be read, has no
    rows or is a result file.
    """
    good: dict[int, T] = {}
    bad: dict[int, str] = {}
    with readable(path), open(path, "rb") as lines:
        for number, row in json_lines(lines, dict):
            if isinstance(row, InputError):
                bad[number] = str(row)
                continue
            with locate(f"{path}:{number}"):
                check_no_result(row)
            try:
                good[number] = read(row)
            except InputError as error:
                bad[number] = str(error)
    if not good and not bad:
        raise InputError(f"{path}: no rows")
    if not good and (other := other_format(path)):
        number, why = next(iter(bad.items()))
        raise InputError(f"{path}:{number}: {why}{other}")
    return good, bad


def is_unanswerable(row: Row) -> bool:
    """Whether a row says that its question has no answer: its list of gold chunks is empty and its truth is null."""
    truths = [row[name] for name in ("truth", "gold_answer") if name in row]
    return row.get("gold_chunk_ids") == [] and truths != [] and all(truth is None for truth in truths)


def chunk_ids(row: Row, field: str) -> tuple[str, ...]:
    """Return a field's ids as texts. Raises InputError naming the field unless it lists texts or whole numbers.

    An empty text is no id: two chunks without an id are not the same chunk.
    """
    check_fields(row, {field: list})
    for id_ in row[field]:
        if isinstance(id_, bool) or not isinstance(id_, str | int):
            raise InputError(f"field '{field}' must hold ids, texts or whole numbers, found {type(id_).__name__}")
        if is_nothing(id_):
            raise InputError(f"field '{field}' holds an id that is empty: {id_!r}")
    return tuple(map(str, row[field]))


def never_match(lists: Iterable[tuple[Iterable[str], Iterable[str]]]) -> str | None:
    """Return a note if no retrieved id is a gold chunk of any question: there are none, or their names differ in kind.

    lists: for each question, the ids of the retrieved chunks and of the gold chunks.
    """
    retrieved: dict[str, None] = {}
    gold: dict[str, None] = {}
    for found, wanted in lists:
        retrieved |= dict.fromkeys(found)
        gold |= dict.fromkeys(wanted)
    if not gold or retrieved.keys() & gold.keys():
        return None
    if not retrieved:
        return "note: no question has a retrieved id. Check that the ids were taken from your system's responses"
    shown, named = next(iter(retrieved)), next(iter(gold))
    return (
        f"note: no retrieved id, such as {shown!r}, is a gold chunk of any question, such as {named!r}. "
        "Check that both name the same chunks"
    )


def by_slice(items: Iterable[T], tag: Callable[[T], str | None]) -> list[tuple[str, list[T]]]:
    """Return all items, then those of each slice, sorted by its name. There are no slices if no item has a tag."""
    everything = list(items)
    slices: dict[str, list[T]] = {}
    for item in everything:
        slices.setdefault(slice_name(tag(item)), []).append(item)
    return [(ALL, everything), *(sorted(slices.items()) if set(slices) != {NO_SLICE} else [])]
