"""What the commands on golden sets read in a row: its ids, and whether its question has an answer."""

from typing import Any

from rag_zeval.cases.cells import as_ids, is_empty_list, is_nothing
from rag_zeval.cases.printed import unfolded
from rag_zeval.errors import InputError
from rag_zeval.files import Row


def is_unanswerable(row: Row) -> bool:
    """Whether a row says that its question has no answer: its list of gold chunks is empty and its truth is null."""
    return unfolded(row.get("gold_chunk_ids")) == [] and row.get("truth", "") is None


def list_of_ids(value: Any) -> tuple[str, ...]:
    """Return ids as `evaluate` reads them. Raises InputError if the value is no list of ids.

    An empty text is no id: two chunks without an id are not the same chunk.
    """
    if is_nothing(value) and not is_empty_list(value):
        raise InputError("is missing or empty: write a list of ids, [] if there are none")
    items = unfolded(value)
    if isinstance(items, list) and any(map(is_nothing, items)):
        raise InputError(f"holds an id that is empty: {next(filter(is_nothing, items))!r}")
    return as_ids(value)
