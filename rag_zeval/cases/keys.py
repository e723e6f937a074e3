"""Finds the columns by which the rows of two files belong together: ids, questions, or another name that both have."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unicodedata import normalize

from rag_zeval.cases.cells import as_id, as_ids, is_nothing, is_several
from rag_zeval.cases.fields import TEXTS
from rag_zeval.cases.name_words import is_no_name
from rag_zeval.cases.names import UNNAMED, field_of, same_name
from rag_zeval.cases.paths import at_path, option, quoted_list
from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.text import one_line

LONGEST_ID = 200  # characters
LEAST_WORDS = 3  # of a question, by which a prompt that contains it is recognised


@dataclass(frozen=True)
class Side:
    """A file to join. rows: its rows, or the first of them, by their places."""

    name: str
    rows: Mapping[str, Row]

    @cached_property
    def columns(self) -> list[str]:
        """The columns in which a row has a value."""
        found: dict[str, None] = {}
        for row in self.rows.values():  # which may be many
            found |= {column: None for column, value in row.items() if column not in found and not is_nothing(value)}
        return [*found]

    @cached_property
    def paths(self) -> list[str]:
        """The columns, and the paths of what is in their objects."""
        objects = [
            (name, held) for row in self.rows.values() for name, held in row.items() if isinstance(held, Mapping)
        ]
        return [*self.columns, *dict.fromkeys(f"{name}.{key}" for name, held in objects for key in held)]


@dataclass(frozen=True)
class Pair:
    """A column or path of the rows and one of the other file that may hold the same."""

    own: str
    key: str

    @property
    def is_known(self) -> bool:
        """Whether both names say that ids or questions are there."""
        return field_of(self.own) == field_of(self.key) in ("id", "question")

    @property
    def is_of_questions(self) -> bool:
        return field_of(self.own) == field_of(self.key) == "question"

    def of(self, row: Row) -> str | None:
        """Return what a row is joined by, None if it has no such text."""
        return _key(row, self.own, self.is_of_questions)

    def of_other(self, row: Row) -> str | None:
        """Return the same for a row of the other file."""
        return _key(row, self.key, self.is_of_questions)

    def differ(self, row: Row, other: Row) -> bool:
        """Whether two rows have different texts. A question does not differ from a prompt that contains it."""
        short, long = sorted((self.of(row) or "", self.of_other(other) or ""), key=len)
        is_inside = short in long and len(short.split()) >= LEAST_WORDS
        return bool(short) and short != long and not (is_inside and self.is_of_questions)


@dataclass(frozen=True)
class Match:
    """Two columns by which rows have partners.

    places: where the rows of the other file are, by their keys.
    repeated: what to say of the first key that two rows of the other file have; None if there is none.
    partners: rows, and where the partner of each is, with that partner.
    agreed: how many of them have no other question than their partners.
    """

    pair: Pair
    places: Mapping[str, str]
    repeated: str | None
    partners: Sequence[tuple[Row, str, Row]]
    agreed: int

    def are_same(self, column: str) -> bool:
        """Whether rows and their partners have the same in a column."""
        pair = Pair(column, column)
        texts = [(row, other) for row, _, other in self.partners if row.get(column) != other.get(column)]
        return all(pair.of(row) and pair.of_other(other) and not pair.differ(row, other) for row, other in texts)

    def are_texts(self, column: str) -> bool:
        """Whether rows and their partners have no lists and objects in a column."""
        values = [one for row, _, other in self.partners for one in (row.get(column), other.get(column))]
        return not any(map(is_several, values))


def matching(pairs: Iterable[Pair], own: Side, other: Side, questions: Pair | None = None) -> list[Match]:
    """Return the pairs by which some of the first rows have partners among those of the other file."""
    indexes: dict[tuple[str, bool], tuple[dict[str, str], str | None]] = {}
    found = []
    for pair in pairs:
        kind = pair.key, pair.is_of_questions
        if kind not in indexes:
            indexes[kind] = _indexed(pair, other)
        places, repeated = indexes[kind]
        placed = [(row, places[key]) for row in own.rows.values() if (key := pair.of(row)) in places]
        partners = [(row, place, other.rows[place]) for row, place in placed]
        if partners:
            agreed = sum(not (questions and questions.differ(row, partner)) for row, _, partner in partners)
            found.append(Match(pair, places, repeated, partners, agreed))
    return found


def _indexed(pair: Pair, other: Side) -> tuple[dict[str, str], str | None]:
    """Return the places of rows by their keys, and what to say of the first key that different rows have."""
    places: dict[str, str] = {}
    repeated = None
    for place, row in other.rows.items():
        key = pair.of_other(row)
        if key is not None and other.rows[first := places.setdefault(key, place)] != row:
            repeated = repeated or f"{place}: has the same '{pair.key}' as {first}: '{shown(row, pair.key)}'"
    return places, repeated


def best_match(matches: Sequence[Match], own: Side, other: Side) -> Match:
    """Return by which columns to join. Raises InputError if that is open, or if several partners of a row are found."""
    most = max(one.agreed for one in matches)
    likely = [one for one in matches if 2 * one.agreed >= most]
    unique = [one for one in likely if one.repeated is None]
    if not unique:
        told = max(likely, key=lambda one: one.agreed).repeated
        raise InputError(f"{told}. Each row to join needs its own; or give {other.name} as FILE, and join {own.name}")
    best = max(unique, key=lambda one: (one.agreed, field_of(one.pair.key) == "id"))
    for one in unique:
        places = [[place for _, place, _ in match.partners] for match in (one, best)]
        if one.agreed == best.agreed and one.pair.own != best.pair.own and places[0] != places[1]:
            columns = [match.pair.own for match in (best, one)]
            ways = " or ".join(option("id", path) for path in columns)
            raise InputError(
                f"{own.name}: columns {quoted_list(columns)} could each hold the ids of {other.name}: add {ways}"
            )
    return best


def way_out(tried: Sequence[Pair], own: Side, other: Side) -> str:
    """Return what to do if rows have no partners by the columns that were tried."""
    for side in (own, other):
        if text := next(filter(is_no_name, side.columns), None):
            no_name = f"'{one_line(text)}' is no name"
            return f"the first line of {side.name} must name the columns, such as id,question; {no_name}"
    pairs = [Pair(path, key) for key in other.paths for path in own.paths]
    if unique := [one for one in matching(pairs, own, other) if one.repeated is None]:
        pair = max(unique, key=lambda one: len(one.partners)).pair
        return f"if '{pair.own}' holds its '{pair.key}', add {option('id', pair.own)}"
    rows = own.rows.values()
    lists = [path for path in own.paths if any(isinstance(at_path(row, path), list) for row in rows)]
    for key in other.paths if lists else ():
        known = _indexed(Pair("", key), other)[0].keys()
        if listed := [path for path in lists if any(_has_one(at_path(row, path), known) for row in rows)]:
            return (
                f"its rows are listed by '{key}' in {quoted_list(listed)}: write the texts of those that were "
                "retrieved into your rows, as column 'contexts'"
            )
    first, first_other = (next(iter(side.rows.values()), {}) for side in (own, other))
    for pair in tried:
        if field_of(pair.key) == "id" and pair.of(first) and pair.of_other(first_other):
            ids = f"'{shown(first, pair.own)}', the other '{shown(first_other, pair.key)}'"
            return f"both must have the same ids, but '{pair.own}' says {ids}"
    return f"its columns are {quoted_list(other.columns) or 'none'}. Both need a column with the same ids, such as 'id'"


def _has_one(value: Any, ids: Iterable[str]) -> bool:
    with suppress(InputError):
        return not {*as_ids(value)}.isdisjoint(ids)
    return False


def are_alike(own: str, other: str) -> bool:
    """Whether two columns may hold the same by their names: both an id or a question, or both have the same name.

    Texts that are judged are no keys, nor are numbers of rows, which pandas writes into a column without a name.
    """
    pair = Pair(own, other)
    is_same = same_name(own) == same_name(other) and not own.startswith(UNNAMED)
    return pair.is_known or (is_same and field_of(own) not in TEXTS)


def _key(row: Row, path: str, is_question: bool) -> str | None:
    """Return an id, or a question without what people write in one way or another. None if there is none."""
    with suppress(InputError):
        text = " ".join((as_id(at_path(row, path)) or "").split())
        if is_question:
            return normalize("NFKC", text).casefold().strip(" .?!:\"'“”‘’") or None
        return text if 0 < len(text) <= LONGEST_ID else None
    return None


def shown(row: Row, path: str) -> str:
    """Return the value at a path for a message, on one line."""
    return one_line(str(at_path(row, path)))
