"""Decides which columns hold ids of chunks: of those that were retrieved, and of the gold ones."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from rag_zeval.cases.cells import as_ids, is_nothing, look_like_ids, unfolded
from rag_zeval.cases.names import IDS, ONE_ID, fields_of, plain_name
from rag_zeval.errors import InputError
from rag_zeval.files import Row


def id_columns(
    field: str, free: Collection[str], taken: Collection[str], sample: Sequence[Row], is_needed: bool
) -> list[str]:
    """Return the columns that hold the ids of a field: those named so, or else those in which all items look like ids.

    free: the columns to choose from. taken: the fields that are found. is_needed: whether the ids must be there.
    Otherwise columns that cannot be read as ids do not count.
    """
    named = [name for name in free if field in fields_of(name)]
    if field == "context_ids" and not {"contexts", "passage"} & {*taken}:  # one id may be that of the gold document
        named = [name for name in named if plain_name(name) not in ONE_ID or not all_values(_is_one, name, sample)]
    found = named or [name for name in free if looks_like(field, name, sample)]
    if is_needed or field in found or field == "context_ids":
        return found
    return [name for name in found if all(is_readable(row.get(name)) for row in sample)]


def looks_like(field: str, name: str, sample: Sequence[Row]) -> bool:
    """Whether a column holds ids and not texts, if its name leaves that open: `expected`, `relevant_docs`.

    A name of one word may mean anything else, too. So its values must be lists, and no numbers.
    """
    plain = plain_name(name)
    if plain not in IDS[field]:
        return False
    if "_" in plain:
        return all_values(partial(look_like_ids, or_number=True), name, sample)
    return all_values(lambda value: not _is_one(value) and look_like_ids(value), name, sample)


def all_values(test: Callable[[Any], bool], name: str, sample: Sequence[Row]) -> bool:
    """Whether a column has values, and all pass the test."""
    values = filled(name, sample)
    return bool(values) and all(map(test, values))


def filled(name: str, sample: Sequence[Row]) -> list[Any]:
    """Return the values of a column."""
    return [row[name] for row in sample if not is_nothing(row.get(name))]


def _is_one(value: Any) -> bool:
    return not isinstance(unfolded(value), list)


def is_readable(value: Any) -> bool:
    """Whether a value can be read as ids. `d1, d2` in one text cannot."""
    with suppress(InputError):
        as_ids(value)
        return True
    return False
