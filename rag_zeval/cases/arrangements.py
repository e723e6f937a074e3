"""Finds the rows in a JSON value: in a list, in columns, by their ids, or under any name in an object."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rag_zeval.cases.chat import role_of
from rag_zeval.cases.name_words import field_said_by
from rag_zeval.cases.names import RECORDS, field_in_record, field_of, plain_name, unique_names
from rag_zeval.cases.paths import at_path
from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.text import QUESTION_MARKS

ASKED = {"question", "answer"}  # a row is told from other objects by the fields that it names
DEEPEST = 3  # names in the path to rows
EXAMPLE = '{"question": ..., "answer": ...}'
LOOKED_AT = 100  # rows of a list by whose names it is told from others
COLUMNS, LIST, BY_ID = 2, 1, 0  # kinds of rows that name no field, the most likely first


class _Rows(NamedTuple):
    """Rows that an object may hold: where, how they are written, and how many fields of ASKED each of them names."""

    path: tuple[str, ...]
    rows: Sequence[Row]
    kind: int
    named: int

    def rank(self) -> tuple[int, int, bool, int]:
        return self.named, self.kind, self.named > 0 or len(self.rows) > 1, -len(self.path)


def rows_of(content: Any, source: object, chosen: Mapping[str, str] | None = None) -> Sequence[Any]:
    """Return the rows in a JSON value: a list of objects, or one of the arrangements in which tools write rows.

    The arrangements are columns (`{"question": [...]}`); pandas' `columns`, `index`, `split` and `table`; rows by their
    ids (`{"q1": {...}, "q2": {...}}`), or one text of each (`{"q1": "...", "q2": "..."}`), in a column with the name of
    the file; an object that holds rows under any name; and an object that is itself a row.
    chosen: the columns that the user chose, by field. They tell the rows from other lists as well as known names do.
    Raises InputError naming `source` for rows without column names, if several lists could hold the rows, and if the
    value is neither a list nor an object.
    """
    if isinstance(content, list):
        if content and all(isinstance(item, list) for item in content):
            raise InputError(f"{source}: has rows without column names; write each row as {EXAMPLE}")
        return content
    if not isinstance(content, Mapping):
        raise InputError(f"{source}: must hold a JSON list or object, found {type(content).__name__}")
    if any(isinstance(value, str) and field_of(name) == "question" for name, value in content.items()):
        return [content]
    held = _held(content, chosen or {})
    if len(held) > 1:
        names = " or ".join(repr(".".join(one.path)) for one in held)
        raise InputError(
            f"{source}: could hold its rows in {names}; save the right one, or all in one list, as its own file. If "
            "they are of several systems, give each row a field 'system'"
        )
    if held:
        return held[0].rows
    if len(content) > 1 and all(isinstance(value, list) for value in content.values()) and _named(content) >= ASKED:
        told = ", ".join(f"'{name}' has {len(value)}" for name, value in content.items())
        raise InputError(f"{source}: its columns differ in length: {told}; write each row as {EXAMPLE}")
    are_values = all(value is None or isinstance(value, (str, int, float)) for value in content.values())
    if len(content) > 1 and all(map(_is_key, content)) and are_values:
        key = "question" if any(name.rstrip().endswith(QUESTION_MARKS) for name in content) else "id"
        stem = Path(str(source)).name.partition(".")[0]
        is_named = field_of(stem) == "answer" or field_said_by(stem) != "answer"
        return [{key: name, stem if is_named else "answer": value} for name, value in content.items()]
    return [content]


def _held(content: Mapping[str, Any], chosen: Mapping[str, str]) -> list[_Rows]:
    """Return the rows that an object holds: none if it is itself a row, several if it may hold them in several places.

    The objects that name most of a question and an answer are the rows. If none names one, the outermost list of
    alike objects holds them.
    """

    def named(row: Mapping[str, Any]) -> set[str]:
        of = {field for field, path in chosen.items() if isinstance(at_path(row, path), str)}
        return (of | _named(row)) & ASKED

    found = []
    for path, rows, kind in _arranged(content):
        some = rows[:LOOKED_AT]
        counts = Counter(field for row in some for field in named(row))
        of = sum(2 * count > len(some) for count in counts.values())  # a few rows may be errors
        least = 2 if kind == BY_ID and path else 1  # results by system name an answer, too
        if of >= least or kind == COLUMNS or _may_be_rows(path, rows, kind):
            found.append(_Rows(path, rows, kind, of))
    best = max((one.rank() for one in found), default=None)
    held = [one for one in found if one.rank() == best]
    if held and held[0].kind != COLUMNS:
        lists = {one.path for one in found}
        own = named({name: value for name, value in content.items() if (name,) not in lists and not _are_rows(value)})
        if any(isinstance(value, str) and value.rstrip().endswith(QUESTION_MARKS) for value in content.values()):
            own.add("question")
        if own and len(own) >= held[0].named:
            return []
    return held


def _arranged(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Sequence[Row], int]]:
    """Yield the path, the rows and the kind of whatever is arranged as rows may be."""
    if _are_objects(value):
        yield path, value, LIST
    elif isinstance(value, Mapping):
        if not path and (rows := _of_columns(value)) is not None:
            yield path, rows, COLUMNS
        elif _are_objects([*value.values()]) and any(not _are_objects([*row.values()]) for row in value.values()):
            yield path, _with_ids(value), BY_ID
        for name, inner in value.items() if len(path) < DEEPEST else ():
            yield from _arranged(inner, (*path, name))


def _of_columns(content: Mapping[str, Any]) -> Sequence[Row] | None:
    """Return the rows of an object that holds columns, or rows by their number, as pandas writes them; None if none."""
    values = list(content.values())
    columns, data = content.get("columns"), content.get("data")
    if isinstance(columns, list) and isinstance(data, list) and all(isinstance(row, list) for row in data):  # split
        return [dict(zip(unique_names(columns), row, strict=False)) for row in data]
    if values and all(isinstance(value, list) for value in values) and not all(map(_are_objects, values)):
        is_even = len({len(value) for value in values}) == 1
        return [dict(zip(content, row, strict=True)) for row in zip(*values, strict=True)] if is_even else None
    is_even = _are_objects(values) and len({tuple(value) for value in values}) == 1
    if (
        is_even
        and all(map(_is_key, values[0]))
        and (not all(map(_is_key, content)) or all(map(str.isdigit, values[0])))
    ):
        return _with_ids({key: {name: column[key] for name, column in content.items()} for key in values[0]})  # columns
    return _with_ids(content) if _are_objects(values) and all(map(str.isdigit, content)) else None  # index


def _with_ids(rows: Mapping[str, Row]) -> list[Row]:
    """Return rows with their names as ids, unless they have ids of their own, or their names only number them."""
    if [*rows] == [*map(str, range(len(rows)))]:
        return [*rows.values()]
    return [row if "id" in _named(row) else {"id": key, **row} for key, row in rows.items()]


def _is_key(name: str) -> bool:
    """Whether a name looks like an id or a question, and not like that of a column."""
    return any(map(str.isdigit, name)) or name.rstrip().endswith(QUESTION_MARKS)


def _may_be_rows(path: tuple[str, ...], rows: Sequence[Row], kind: int) -> bool:
    """Whether objects that name no field may be rows: they are alike, and are no messages and no contexts.

    A single one must be in an outer list. Objects by their ids must be several, and all that there is, because the
    totals of systems or categories are written so, too.
    """
    is_other = not _are_rows(rows) or field_of(path[-1] if path else "") == "contexts"
    least = 1 if kind == LIST and len(path) == 1 else 2
    is_there = len(rows) >= least and (len(path) < DEEPEST if kind == LIST else not path)
    names = [*map(set, rows[:LOOKED_AT])]
    return is_there and not is_other and 2 * len(set.intersection(*names)) >= len(set.union(*names))


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _are_rows(value: Any) -> bool:
    """Whether a value is a list of objects that are no chat messages."""
    return _are_objects(value) and not all(map(role_of, value))


def _named(row: Mapping[str, Any]) -> set[str]:
    """Return the fields that a row names, also in records such as `inputs`."""
    held = [name for name, value in row.items() if isinstance(value, Mapping) and plain_name(name) in RECORDS]
    paths = [*row, *(f"{name}.{key}" for name in held for key in row[name])]
    return {field for path in paths if (field := field_of(path) or field_in_record(path))}
