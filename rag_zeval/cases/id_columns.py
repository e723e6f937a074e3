"""Decides which columns hold ids of chunks: of those that were retrieved, and of the gold ones."""

from collections.abc import Collection
from functools import partial
from typing import Any

from rag_zeval.cases.cells import is_readable, look_like_ids
from rag_zeval.cases.names import IDS, ONE_ID, field_of, plain_name
from rag_zeval.cases.printed import unfolded
from rag_zeval.cases.survey import Survey


def id_columns(field: str, free: Collection[str], taken: Collection[str], survey: Survey, is_needed: bool) -> list[str]:
    """Return the columns that hold the ids of a field: those named so, or else those in which all items look like ids.

    free: the columns to choose from. taken: the fields that are found. is_needed: whether the ids must be there.
    Otherwise columns that cannot be read as ids do not count.
    """
    named = [name for name in free if field_of(name) == field]
    if field == "context_ids" and not {"contexts", "passage"} & {*taken}:  # one id may be that of the gold document
        named = [name for name in named if plain_name(name) not in ONE_ID or not survey.all_are(_is_one, name)]
    found = named or [name for name in free if looks_like(field, name, survey)]
    if is_needed or field in found or field == "context_ids":
        return found
    return [name for name in found if all(map(is_readable, survey.values(name)))]


def looks_like(field: str, name: str, survey: Survey) -> bool:
    """Whether a column holds ids and not texts, if its name leaves that open: `expected`, `relevant_docs`.

    A name of one word may mean anything else, too. So its values must be lists, and no numbers.
    """
    plain = plain_name(name)
    if plain not in IDS[field]:
        return False
    if "_" in plain:
        return survey.all_are(partial(look_like_ids, or_number=True), name)
    return survey.all_are(lambda value: not _is_one(value) and look_like_ids(value), name)


def _is_one(value: Any) -> bool:
    return not isinstance(unfolded(value), list)
