"""Adds the columns of another file to the rows with the same id, such as the questions to a file of answers."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rag_zeval.cases.cells import is_nothing, is_object
from rag_zeval.cases.keys import Match, Pair, are_alike, best_match, columns_of, matching, paths_of, shown, way_out
from rag_zeval.cases.names import FIELDS, fields_of, plain_name
from rag_zeval.cases.objects import read_objects
from rag_zeval.cases.paths import option
from rag_zeval.cases.places import fields_inside
from rag_zeval.cases.row_files import PlacedRow, read_table
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
    called, there = _read(other, encoding)
    sample = [row for _, row in islice(rows(), LOOKED_AT) if not isinstance(row, InputError)]
    best, questions = _match(name, sample, called, there, names.get("id"))
    added = _added(columns_of(sample), columns_of(there.values()), called, best)
    if names.keys().isdisjoint({"answer", "truth"}):
        _check_meant(name, sample, called, [*there.values()], added, best, names.values())
    joined = Joined(called, best.pair, {key: there[place] for key, place in best.places.items()}, added, questions)
    return joined, lambda: joined.added_to(rows())


def _read(other: Any, encoding: str | None) -> tuple[str, dict[str, Row]]:
    """Return the name of the other file, and its rows by their places."""
    if isinstance(other, (str, Path)):
        return str(other), dict(_readable(read_table(Path(other), encoding)))
    called = type(other).__name__
    with locate(called):
        return called, dict(_readable(read_objects(other)))


def _match(
    name: str, sample: Sequence[Row], called: str, there: Mapping[str, Row], own: str | None
) -> tuple[Match, Pair | None]:
    """Return by which columns to join, and the columns of the questions. own: that of the ids, if the user chose it."""
    columns, others = columns_of(sample), columns_of(there.values())
    alike = [Pair(one, column) for one in columns for column in others if are_alike(one, column)]
    questions = next((pair for pair in alike if pair.is_of_questions), None)
    pairs = [Pair(own, path) for path in paths_of(there.values())] if own else alike
    matches = matching(pairs, sample, there, questions)
    if not own:  # two columns with the same name may have the same numbers by chance
        matches = [one for one in matches if one.pair.is_known or 2 * len(one.partners) >= len(sample)]
    if not matches:
        todo = way_out(pairs, name, sample, called, there)
        raise InputError(f"{name}: shares no id and no question with {called}; {todo}")
    return best_match(matches, name, called), questions


def _added(columns: Sequence[str], others: Sequence[str], called: str, best: Match) -> dict[str, str]:
    """Return the columns of the other file that are added, and how each is called then."""
    held = {field for column in columns for field in fields_of(column)}.difference(ASKED_ABOUT)
    stem = Path(called).name.partition(".")[0]
    return {
        column: f"{stem}.{column}" if column in columns or not held.isdisjoint(fields_of(column)) else column
        for column in others
        if column != best.pair.key and not (column in columns and best.are_same(column))
    }


def _check_meant(
    name: str,
    sample: Sequence[Row],
    called: str,
    there: Sequence[Row],
    added: Mapping[str, str],
    best: Match,
    chosen: Collection[str],
) -> None:
    """Raise InputError for two answers or two ground truths, of which only the user knows which is which."""
    columns, others = columns_of(sample), columns_of(there)
    same = [(one, one) for one in columns if {"answer", "truth"} & {*fields_of(one)} and best.are_texts(one)]
    for own, path in [*same, *_two_answers(columns, sample, others, there)]:
        column = path if path in others else path.partition(".")[0]
        other = f"{added.get(column)}{path[len(column) :]}"
        if column not in added or not {own, other}.isdisjoint(chosen):
            continue
        if "truth" in fields_of(own):
            ways = f"{option('truth', own)} for that of {name}, or {option('truth', other)} for that of {called}"
            raise InputError(f"{name} and {called} differ in column '{own}': add {ways}")
        raise InputError(
            f"{name} and {called} both hold answers: if '{other}' of {called} is the {FIELDS['truth']}, add "
            f"{option('answer', own)} {option('truth', other)}; if '{own}' of {name} is, {option('answer', other)} "
            f"{option('truth', own)}; if both are of systems, give both as FILE, without --join"
        )


def _two_answers(
    columns: Sequence[str], rows: Sequence[Row], others: Sequence[str], other_rows: Sequence[Row]
) -> list[tuple[str, str]]:
    """Return the places of the answers in the two files, if one is in an object or both have the same name."""
    one, path = _answer(columns, rows), _answer(others, other_rows)
    is_inside = one not in columns or path not in others
    return [(one, path)] if one and path and (is_inside or plain_name(one) == plain_name(path)) else []


def _answer(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return the column of the answers, or their path inside of objects; an empty text if there is none."""
    named = [column for column in columns if "answer" in fields_of(column)]
    flat = (column for column in named if not any(is_object(row.get(column)) for row in rows))
    return next(flat, "") or fields_inside(columns, rows).get("answer", "")


def _readable(rows: Iterator[PlacedRow]) -> Iterator[tuple[str, Row]]:
    """Yield the rows that are not empty. Raises InputError at the first that cannot be read."""
    for place, row in rows:
        if isinstance(row, InputError):
            raise InputError(f"{place}: {row}")
        if not all(map(is_nothing, row.values())):
            yield place, row
