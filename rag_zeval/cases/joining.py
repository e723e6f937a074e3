"""Adds the columns of another file to the rows with the same id, such as the questions to a file of answers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rag_zeval.cases.cells import as_id, is_nothing
from rag_zeval.cases.names import fields_of, same_name
from rag_zeval.cases.objects import read_objects
from rag_zeval.cases.paths import ABSENT, at_path, quoted_list
from rag_zeval.cases.row_files import PlacedRow, read_table
from rag_zeval.cases.survey import LOOKED_AT
from rag_zeval.errors import InputError
from rag_zeval.files import Row, locate
from rag_zeval.text import counted, one_line

Rows = Callable[[], Iterator[PlacedRow]]  # returns all rows anew


@dataclass
class Joined:
    """Another file, whose columns are added to the rows that have the same key.

    own, key: the column of the key in the rows, and in the other file.
    rows: those of the other file, by their keys.
    columns: those of the other file, and how each is called in the joined rows.
    questions: the columns of the questions, if both files have one.
    used: the keys that were found in the rows.
    """

    name: str
    own: str
    key: str
    rows: Mapping[str, Row]
    columns: Mapping[str, str]
    questions: tuple[str, str] | None
    used: set[str] = field(default_factory=set)

    def added_to(self, rows: Iterable[PlacedRow]) -> Iterator[PlacedRow]:
        """Yield the rows with the columns of the other file. A row without a partner becomes an InputError."""
        for place, row in rows:
            if isinstance(row, InputError):
                yield place, row
            elif (key := _key(row, self.own)) is None:
                yield place, InputError(f"column '{self.own}' is empty, so no row of {self.name} can be added")
            elif (other := self.rows.get(key)) is None:
                yield place, InputError(f"{self.name} has no row with the {self.key} '{one_line(key)}'")
            elif self.questions and _differ(*(_key(*one) for one in zip((row, other), self.questions, strict=True))):
                yield place, InputError(f"its question is not the one that {self.name} has for '{one_line(key)}'")
            else:
                self.used.add(key)
                yield place, row | {called: other[name] for name, called in self.columns.items() if name in other}

    def __str__(self) -> str:
        by = f"'{self.own}'" if self.own == self.key else f"'{self.own}' = '{self.key}'"
        renamed = [f"'{name}' is called '{called}'" for name, called in self.columns.items() if called != name]
        told = "".join(f"; its column {one}" for one in renamed)
        return f"joined with {self.name} by {by}: {len(self.used)} of its {counted(len(self.rows), 'row')} used{told}"


def join(name: str, rows: Rows, other: Any, encoding: str | None, own: str | None) -> tuple[Joined, Rows]:
    """Return how the rows of a file are joined with those of another one, and the joined rows.

    A column of the other file gets its name before it, as in `questions.answer`, if the rows have a column with that
    name or for that field.

    Args:
        name: The file that holds the rows.
        rows: Its rows.
        other: The other file, or an object as `read_cases` takes it.
        encoding: Of the other file.
        own: The column of the rows that holds the ids of the other file, if the user chose it.

    Raises:
        InputError: If the two share no id and no question, if several rows of the other file have the same, or if one
            of these rows cannot be read.
    """
    if isinstance(other, (str, Path)):
        called = str(other)
        there = dict(_readable(read_table(Path(other), encoding)))
    else:
        called = type(other).__name__
        with locate(called):
            there = dict(_readable(read_objects(other)))
    sample = [row for _, row in islice(rows(), LOOKED_AT) if not isinstance(row, InputError)]
    columns, others = _columns(sample), _columns(there.values())
    alike = [(one, column) for one in columns for column in others if _are_alike(one, column)]
    pairs = [(own, column) for column in others] if own else alike
    shared = [one for one in (_Shared.of(*pair, sample, there) for pair in pairs) if one.matched]
    if not shared:
        raise InputError(
            f"{name}: shares no id and no question with {called}, whose columns are {quoted_list(others) or 'none'}; "
            "add --map id=COLUMN for the column with the ids that that file has"
        )
    best = max(shared, key=lambda one: (one.repeated is None, one.matched, "id" in fields_of(one.key)))
    if best.repeated:
        raise InputError(f"{best.repeated}. Each row to join needs its own; or give {called} as FILE, and join {name}")
    held = {field for column in columns for field in fields_of(column)}
    stem = Path(called).name.partition(".")[0]
    joined = Joined(
        called,
        best.own,
        best.key,
        {key: there[place] for key, place in best.places.items()},
        {
            column: f"{stem}.{column}" if column in columns or held & {*fields_of(column)} else column
            for column in others
            if column != best.key
        },
        next(((one, column) for one, column in alike if fields_of(one) == fields_of(column) == ["question"]), None),
    )
    return joined, lambda: joined.added_to(rows())


@dataclass
class _Shared:
    """Two columns that may hold the same key.

    places: the rows of the other file by their keys. repeated: where the first key is that another row has, too.
    matched: number of rows with a key of the other file.
    """

    own: str
    key: str
    places: Mapping[str, str]
    repeated: str | None
    matched: int

    @classmethod
    def of(cls, own: str, key: str, rows: Sequence[Row], others: Mapping[str, Row]) -> "_Shared":
        places: dict[str, str] = {}
        repeated = None
        for place, row in others.items():
            value = _key(row, key)
            if value is not None and (first := places.setdefault(value, place)) != place:
                repeated = repeated or f"{place}: has the same '{key}' as {first}: '{one_line(value)}'"
        return cls(own, key, places, repeated, sum(_key(row, own) in places for row in rows))


def _readable(rows: Iterator[PlacedRow]) -> Iterator[tuple[str, Row]]:
    """Yield the rows that are not empty. Raises InputError at the first that cannot be read."""
    for place, row in rows:
        if isinstance(row, InputError):
            raise InputError(f"{place}: {row}")
        if not all(map(is_nothing, row.values())):
            yield place, row


def _columns(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(column for row in rows for column in row))


def _are_alike(own: str, other: str) -> bool:
    """Whether two columns may hold the same by their names: both an id or a question, or both have the same name."""
    return same_name(own) == same_name(other) or fields_of(own) == fields_of(other) in (["id"], ["question"])


def _key(row: Row, column: str) -> str | None:
    """Return an id or a question with single spaces, None if there is none."""
    value = at_path(row, column)
    with suppress(InputError):
        text = None if value is ABSENT else as_id(value)
        return " ".join(text.split()) if text else None
    return None


def _differ(some: str | None, other: str | None) -> bool:
    return None not in (some, other) and some != other
