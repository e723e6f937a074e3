"""Adds the columns of another file to the rows with the same id, such as the questions to a file of answers."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rag_zeval.cases.cells import is_nothing, is_object
from rag_zeval.cases.fields import FIELDS
from rag_zeval.cases.keys import Match, Pair, Side, are_alike, best_match, matching, shown, way_out
from rag_zeval.cases.names import field_of, plain_name
from rag_zeval.cases.objects import read_objects
from rag_zeval.cases.paths import option
from rag_zeval.cases.places import fields_inside
from rag_zeval.cases.row_files import PlacedRow, read_table, readable_rows
from rag_zeval.cases.survey import LOOKED_AT
from rag_zeval.errors import InputError
from rag_zeval.files import Row, locate
from rag_zeval.text import counted

Rows = Callable[[], Iterator[PlacedRow]]  # returns all rows anew
ASKED_ABOUT = ("question", "answer", "truth")  # fields for which the user chooses if a table has several columns


@dataclass
class Joined:
    """Another file, whose columns are added to the rows that have the same key.

    pair: the columns of the key. rows: those of the other file, by their keys.
    columns: those of the other file, and how each is called in the joined rows.
    questions: the columns of the questions, if both files have one.
    used: the keys that were found in the rows.
    """

    name: str
    pair: Pair
    rows: Mapping[str, Row]
    columns: Mapping[str, str]
    questions: Pair | None
    used: set[str] = field(default_factory=set)

    def added_to(self, rows: Iterable[PlacedRow]) -> Iterator[PlacedRow]:
        """Yield the rows with the columns of the other file. A row without a partner becomes an InputError."""
        own, name = self.pair.own, self.name
        for place, row in rows:
            if isinstance(row, InputError):
                yield place, row
            elif (key := self.pair.of(row)) is None:
                yield place, InputError(f"column '{own}' is empty, so no row of {name} can be added")
            elif (other := self.rows.get(key)) is None:
                yield place, InputError(f"{name} has no row with the {self.pair.key} '{shown(row, own)}'")
            elif self.questions and self.questions.differ(row, other):
                yield place, InputError(f"its question is not the one that {name} has for '{shown(row, own)}'")
            else:
                self.used.add(key)
                yield place, row | {called: other[column] for column, called in self.columns.items() if column in other}

    def __str__(self) -> str:
        own, key = self.pair.own, self.pair.key
        by = f"'{own}'" if own == key else f"'{own}' = '{key}'"
        renamed = [f"'{name}' is called '{called}'" for name, called in self.columns.items() if called != name]
        told = "".join(f"; its column {one}" for one in renamed)
        return f"joined with {self.name} by {by}: {len(self.used)} of its {counted(len(self.rows), 'row')} used{told}"


def join(name: str, rows: Rows, other: Any, encoding: str | None, names: Mapping[str, str]) -> tuple[Joined, Rows]:
    """Return how the rows of a file are joined with those of another one, and the joined rows.

    A column of the other file is left out if the rows have the same. Otherwise it gets the file's name before it, as in
    `questions.answer`, if the rows have a column with its name, or one for its field that they are to keep.

    Args:
        name: The file that holds the rows.
        rows: Its rows.
        other: The other file, or an object as `read_cases` takes it.
        encoding: Of the other file.
        names: The columns that the user chose, by field. That of "id" holds the ids of the other file.

    Raises:
        InputError: If the two share no id and no question, if it is open by which columns they are joined or which of
            two columns is meant, if several rows of the other file have the same key, or if one of them cannot be read.
    """
    first = {place: row for place, row in islice(rows(), LOOKED_AT) if not isinstance(row, InputError)}
    own, side = Side(name, first), _read(other, encoding)
    best, questions = _match(own, side, names.get("id"))
    added = _added(own, side, best)
    if names.keys().isdisjoint({"answer", "truth"}):
        _check_meant(own, side, added, best, names.values())
    joined = Joined(
        side.name, best.pair, {key: side.rows[place] for key, place in best.places.items()}, added, questions
    )
    return joined, lambda: joined.added_to(rows())


def _read(other: Any, encoding: str | None) -> Side:
    is_file = isinstance(other, (str, Path))
    name = str(other) if is_file else type(other).__name__
    with locate(name):
        rows = readable_rows(read_table(Path(other), encoding) if is_file else read_objects(other))
        return Side(name, {place: row for place, row in rows if not all(map(is_nothing, row.values()))})


def _match(own: Side, other: Side, ids: str | None) -> tuple[Match, Pair | None]:
    """Return by which columns to join, and the columns of the questions. ids: the column that the user chose."""
    alike = [Pair(one, column) for one in own.columns for column in other.columns if are_alike(one, column)]
    questions = next((pair for pair in alike if pair.is_of_questions), None)
    pairs = [Pair(ids, path) for path in other.paths] if ids else alike
    matches = matching(pairs, own, other, questions)
    if not ids:  # two columns with the same name may have the same numbers by chance
        matches = [one for one in matches if one.pair.is_known or 2 * len(one.partners) >= len(own.rows)]
    if not matches:
        todo = way_out(pairs, own, other)
        raise InputError(f"{own.name}: shares no id and no question with {other.name}; {todo}")
    return best_match(matches, own, other), questions


def _added(own: Side, other: Side, best: Match) -> dict[str, str]:
    """Return the columns of the other file that are added, and how each is called then."""
    held = {field_of(column) for column in own.columns} - {None, *ASKED_ABOUT}
    stem = Path(other.name).name.partition(".")[0]
    return {
        column: f"{stem}.{column}" if column in own.columns or field_of(column) in held else column
        for column in other.columns
        if column != best.pair.key and not (column in own.columns and best.are_same(column))
    }


def _check_meant(own: Side, other: Side, added: Mapping[str, str], best: Match, chosen: Collection[str]) -> None:
    """Raise InputError for two answers or two ground truths, of which only the user knows which is which."""
    same = [(one, one) for one in own.columns if field_of(one) in ("answer", "truth") and best.are_texts(one)]
    for one, path in [*same, *_two_answers(own, other)]:
        column = path if path in other.columns else path.partition(".")[0]
        two = f"{added.get(column)}{path[len(column) :]}"
        if column not in added or not {one, two}.isdisjoint(chosen):
            continue
        if field_of(one) == "truth":
            ways = f"{option('truth', one)} for that of {own.name}, or {option('truth', two)} for that of {other.name}"
            raise InputError(f"{own.name} and {other.name} differ in column '{one}': add {ways}")
        if any(field_of(column) == "truth" for column in (*own.columns, *other.columns)):
            ways = (
                f"to judge '{one}' of {own.name}, add {option('answer', one)}; to judge '{two}' of {other.name}, "
                f"{option('answer', two)}"
            )
        else:
            ways = (
                f"if '{two}' of {other.name} is the {FIELDS['truth']}, add {option('answer', one)} "
                f"{option('truth', two)}; if it is '{one}' of {own.name}, {option('answer', two)} "
                f"{option('truth', one)}"
            )
        both = f"{option('answer', one)} {option('answer', two)}"
        raise InputError(f"{own.name} and {other.name} both hold answers: {ways}; if both are of systems, {both}")


def _two_answers(own: Side, other: Side) -> list[tuple[str, str]]:
    """Return the places of the answers in the two files, if one is in an object or both have the same name."""
    one, path = _answer(own), _answer(other)
    is_inside = one not in own.columns or path not in other.columns
    return [(one, path)] if one and path and (is_inside or plain_name(one) == plain_name(path)) else []


def _answer(side: Side) -> str:
    """Return the column of the answers, or their path inside of objects; an empty text if there is none."""
    rows = [*side.rows.values()]
    named = [column for column in side.columns if field_of(column) == "answer"]
    flat = (column for column in named if not any(is_object(row.get(column)) for row in rows))
    return next(flat, "") or fields_inside(side.columns, rows).get("answer", "")
