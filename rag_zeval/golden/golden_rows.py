"""Reads the rows of golden sets, with the errors of invalid rows."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from rag_zeval.cases.cells import as_ids, is_empty_list, is_nothing, unfolded
from rag_zeval.cases.reading import BadRows, known
from rag_zeval.cases.row_files import read_table
from rag_zeval.errors import InputError
from rag_zeval.files import Row, locate
from rag_zeval.results import check_no_result

T = TypeVar("T")


def read_golden(path: Path, read: Callable[[Row], T]) -> dict[str, T | InputError]:
    """Apply `read` to each row of a file, in any format that `evaluate` reads.

    Returns by place, such as "golden.jsonl:3", what it returns or why the row is invalid. Raises InputError if the file
    cannot be read, has no rows or is a result file, and if no row is valid.
    """
    found: dict[str, T | InputError] = {}
    for place, row in read_table(path):
        if isinstance(row, InputError):
            found[place] = row
            continue
        with locate(place):
            check_no_result(row)
        try:
            found[place] = read(row)
        except InputError as error:
            found[place] = error
    if not found:
        raise InputError(f"{path}: no rows")
    bad = [f"{place}: {why}" for place, why in found.items() if isinstance(why, InputError)]
    if len(bad) == len(found):
        raise BadRows(bad, len(bad), len(bad), others=False)
    return found


def is_unanswerable(row: Row) -> bool:
    """Whether a row says that its question has no answer: its list of gold chunks is empty and its truth is null."""
    if unfolded(row.get("gold_chunk_ids")) != []:
        return False
    row = known(row, ["truth"])
    truths = [row[name] for name in ("truth", "gold_answer") if name in row]
    return truths != [] and all(truth is None for truth in truths)


def chunk_ids(row: Row, field: str) -> tuple[str, ...]:
    """Return a field's ids as `evaluate` reads them. Raises InputError naming the field if it has no list of ids.

    An empty text is no id: two chunks without an id are not the same chunk.
    """
    value = row.get(field)
    with locate(f"field '{field}'"):
        if is_nothing(value) and not is_empty_list(value):
            raise InputError("is missing or empty: write a list of ids, [] if there are none")
        items = unfolded(value)
        if isinstance(items, list) and any(map(is_nothing, items)):
            raise InputError(f"holds an id that is empty: {next(filter(is_nothing, items))!r}")
        return as_ids(value)


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
