"""Decides which columns hold ids of chunks: of those that were retrieved, and of the gold ones."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from rag_zeval.cases.cells import as_chunks, as_ids, is_nothing, look_like_ids, unfolded
from rag_zeval.cases.names import IDS, ONE_ID, fields_of, plain_name
from rag_zeval.cases.paths import at_path
from rag_zeval.errors import InputError
from rag_zeval.files import Row


def id_columns(
    field: str, free: Mapping[str, int], taken: Mapping[str, str], sample: Sequence[Row], is_needed: bool
) -> list[str]:
    """Return the columns that hold the ids of a field: those named so, or else those in which all items look like ids.

    free: the columns to choose from, and how many rows have a value in each. is_needed: whether the ids must be there.
    Otherwise columns that cannot be read as ids do not count, and none does if several hold gold chunks.
    """
    named = [name for name in free if field in fields_of(name)]
    if field == "context_ids":
        named = [name for name in named if plain_name(name) not in ONE_ID or _is_as_many(name, taken, sample)]
    found = named or [name for name in free if looks_like(field, name, sample)]
    if is_needed or field in found or (field == "context_ids" and named):
        return found
    found = [name for name in found if all(_is_readable(row.get(name)) for row in sample)]
    return found if sum(free[name] > 0 for name in found) < 2 else []


def looks_like(field: str, name: str, sample: Sequence[Row]) -> bool:
    """Whether a column holds ids and not texts, if its name leaves that open: `expected`, `relevant_docs`.

    A name of one word may mean anything else, too. So its values must be lists, and no numbers.
    """
    plain = plain_name(name)
    if plain not in IDS[field]:
        return False
    if "_" in plain:
        return all_values(partial(look_like_ids, or_number=True), name, sample)
    return all_values(lambda value: isinstance(unfolded(value), list) and look_like_ids(value), name, sample)


def all_values(test: Callable[[Any], bool], name: str, sample: Sequence[Row]) -> bool:
    """Whether a column has values, and all pass the test."""
    values = [row[name] for row in sample if not is_nothing(row.get(name))]
    return bool(values) and all(map(test, values))


def _is_as_many(name: str, taken: Mapping[str, str], sample: Sequence[Row]) -> bool:
    """Whether the ids of a column can be those of the retrieved contexts: of a single id, only beside one context."""
    if not all_values(lambda value: not isinstance(unfolded(value), list), name, sample) or "passage" in taken:
        return True
    for row in sample if "contexts" in taken else ():
        with suppress(InputError):
            if len(as_chunks(at_path(row, taken["contexts"]))[0]) == 1:
                return True
    return False


def _is_readable(value: Any) -> bool:
    with suppress(InputError):  # raised for `d1, d2` in one text
        as_ids(value)
        return True
    return False
