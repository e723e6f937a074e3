"""Joins rows that hold one retrieved passage each: one row for each answer, with all its passages."""

from collections.abc import Iterable, Iterator

from rag_zeval.cases.cells import is_nothing
from rag_zeval.cases.columns import Columns
from rag_zeval.cases.paths import option
from rag_zeval.cases.row_files import PlacedRow
from rag_zeval.errors import InputError
from rag_zeval.files import Row


def grouped(rows: Iterable[PlacedRow], columns: Columns) -> Iterator[PlacedRow]:
    """Yield one row for each answer, with the passages of all its rows.

    If a query has several answers, or an id several questions, an InputError is yielded in place of its row.
    """
    groups: dict[tuple[str, ...], list[tuple[str, Row]]] = {}
    for place, row in rows:
        if isinstance(row, InputError):
            yield place, row
            continue
        id_, question, *rest = (columns.value(row, name) for name in ("id", "question", "run", "system"))
        key = tuple(map(str, (question if is_nothing(id_) else id_, *rest)))
        groups.setdefault(key, []).append((place, row))
    for group in groups.values():
        merged: Row = {}
        for _, row in group:
            merged.update({name: value for name, value in row.items() if is_nothing(merged.get(name))})
        why = _conflict(group, columns)
        yield group[0][0], InputError(why) if why else merged | _passages([row for _, row in group], columns)


def _conflict(rows: list[tuple[str, Row]], columns: Columns) -> str | None:
    """Return in words what differs between rows that should be passages of one answer, or None."""
    for name in ("question", "answer"):
        places: dict[str, str] = {}  # of each text, its first
        for place, row in rows:
            if not is_nothing(value := columns.value(row, name)):
                places.setdefault(" ".join(str(value).split()), place)
        if len(places) > 1:
            first, second, *_ = places.values()
            told = f"its query has {len(places)} different {name}s, at {first} and {second}: give each its own id"
            is_open = name == "answer" and "system" not in columns.of
            return f"{told}; if they are of several systems, add {option('system', 'COLUMN')}" if is_open else told
    return None


def _passages(rows: list[Row], columns: Columns) -> Row:
    """Return the passages of an answer's rows, and their ids, under the names of their columns.

    They are ordered by their ids if these are ranks: the numbers from 0 or 1 on, without gaps. Other numbers are ids of
    documents, which say nothing about the order.
    """
    there = [row for row in rows if not is_nothing(columns.value(row, "passage"))]
    numbers = [str(columns.value(row, "context_ids")).strip("[] ") for row in there]
    for first in (0, 1):
        ranks = {str(first + at): at for at in range(len(there))}
        if ranks.keys() == set(numbers):
            there = [row for _, row in sorted(zip(numbers, there, strict=True), key=lambda pair: ranks[pair[0]])]
    names = [name for name in ("passage", "context_ids") if name in columns.of]
    return {columns.of[name]: [columns.value(row, name) for row in there] for name in names}
