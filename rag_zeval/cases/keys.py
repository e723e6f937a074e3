"""Finds the columns by which the rows of two files belong together: ids, questions, or another name that both have."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from unicodedata import normalize

from rag_zeval.cases.cells import as_id, as_ids, is_nothing
from rag_zeval.cases.missing import TEXTS, is_text
from rag_zeval.cases.names import fields_of, same_name
from rag_zeval.cases.paths import ABSENT, at_path, option, quoted_list
from rag_zeval.cases.printed import unfolded
from rag_zeval.cases.survey import UNNAMED
from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.text import one_line

LONGEST_ID = 200  # characters
LEAST_WORDS = 3  # of a question, by which a prompt that contains it is recognised


@dataclass(frozen=True)
class Pair:
    """A column or path of the rows and one of the other file that may hold the same."""

    own: str
    key: str

    @property
    def is_known(self) -> bool:
        """Whether both names say that ids or questions are there."""
        return fields_of(self.own) == fields_of(self.key) in (["id"], ["question"])

    @property
    def is_of_questions(self) -> bool:
        return fields_of(self.own) == fields_of(self.key) == ["question"]

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

    places: the rows of the other file by their keys. repeated: where the first key is that another row has, too.
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
        return not any(isinstance(unfolded(value), (list, Mapping)) for value in values)


def matching(
    pairs: Iterable[Pair], sample: Sequence[Row], there: Mapping[str, Row], questions: Pair | None = None
) -> list[Match]:
    """Return the pairs by which some of the first rows have partners among those of the other file."""
    indexes: dict[tuple[str, bool], tuple[dict[str, str], str | None]] = {}
    found = []
    for pair in pairs:
        kind = pair.key, pair.is_of_questions
        if kind not in indexes:
            indexes[kind] = _indexed(pair, there)
        places, repeated = indexes[kind]
        placed = [(row, places[key]) for row in sample if (key := pair.of(row)) in places]
        partners = [(row, place, there[place]) for row, place in placed]
        if partners:
            agreed = sum(not (questions and questions.differ(row, other)) for row, _, other in partners)
            found.append(Match(pair, places, repeated, partners, agreed))
    return found


def _indexed(pair: Pair, there: Mapping[str, Row]) -> tuple[dict[str, str], str | None]:
    """Return the places of rows by their keys, and what to say of the first key that different rows have."""
    places: dict[str, str] = {}
    repeated = None
    for place, row in there.items():
        key = pair.of_other(row)
        if key is not None and there[first := places.setdefault(key, place)] != row:
            repeated = repeated or f"{place}: has the same '{pair.key}' as {first}: '{shown(row, pair.key)}'"
    return places, repeated


def best_match(matches: Sequence[Match], name: str, called: str) -> Match:
    """Return by which columns to join. Raises InputError if that is open, or if several partners of a row are found."""
    most = max(one.agreed for one in matches)
    likely = [one for one in matches if 2 * one.agreed >= most]
    unique = [one for one in likely if one.repeated is None]
    if not unique:
        told = max(likely, key=lambda one: one.agreed).repeated
        raise InputError(f"{told}. Each row to join needs its own; or give {called} as FILE, and join {name}")
    best = max(unique, key=lambda one: (one.agreed, "id" in fields_of(one.pair.key)))
    for one in unique:
        places = [[place for _, place, _ in match.partners] for match in (one, best)]
        if one.agreed == best.agreed and one.pair.own != best.pair.own and places[0] != places[1]:
            own = [match.pair.own for match in (best, one)]
            ways = " or ".join(option("id", path) for path in own)
            raise InputError(f"{name}: columns {quoted_list(own)} could each hold the ids of {called}: add {ways}")
    return best


def way_out(tried: Sequence[Pair], name: str, sample: Sequence[Row], called: str, there: Mapping[str, Row]) -> str:
    """Return what to do if rows have no partners by the columns that were tried."""
    columns, others = columns_of(sample), columns_of(there.values())
    for file, names in ((name, columns), (called, others)):
        if text := next(filter(is_text, names), None):
            return f"the first line of {file} must name the columns, such as id,question; '{one_line(text)}' is no name"
    keys = [Pair("", key) for key in paths_of(there.values())]
    pairs = [Pair(own, pair.key) for pair in keys for own in paths_of(sample)]
    if unique := [one for one in matching(pairs, sample, there) if one.repeated is None]:
        pair = max(unique, key=lambda one: len(one.partners)).pair
        return f"if '{pair.own}' holds its '{pair.key}', add {option('id', pair.own)}"
    lists = [own for own in paths_of(sample) if any(isinstance(at_path(row, own), list) for row in sample)]
    for pair in keys if lists else ():
        known = _indexed(pair, there)[0].keys()
        if listed := [own for own in lists if any(_has_one(at_path(row, own), known) for row in sample)]:
            return (
                f"its rows are listed by '{pair.key}' in {quoted_list(listed)}: write the texts of those that were "
                "retrieved into your rows, as column 'contexts'"
            )
    first = next(iter(there.values()), {})
    for pair in tried:
        if sample and "id" in fields_of(pair.key) and pair.of(sample[0]) and pair.of_other(first):
            ids = f"'{shown(sample[0], pair.own)}', the other '{shown(first, pair.key)}'"
            return f"both must have the same ids, but '{pair.own}' says {ids}"
    return f"its columns are {quoted_list(others) or 'none'}. Both need a column with the same ids, such as 'id'"


def _has_one(value: Any, ids: Iterable[str]) -> bool:
    with suppress(InputError):
        return not {*as_ids(value)}.isdisjoint(ids)
    return False


def columns_of(rows: Iterable[Row]) -> list[str]:
    """Return the columns in which a row has a value."""
    found: dict[str, None] = {}
    for row in rows:  # which may be many
        found |= {column: None for column, value in row.items() if column not in found and not is_nothing(value)}
    return [*found]


def paths_of(rows: Iterable[Row]) -> list[str]:
    """Return the columns of rows, and the paths of what is in their objects."""
    inside = {
        f"{name}.{key}": None for row in rows for name, held in row.items() if isinstance(held, Mapping) for key in held
    }
    return [*columns_of(rows), *inside]


def are_alike(own: str, other: str) -> bool:
    """Whether two columns may hold the same by their names: both an id or a question, or both have the same name.

    Texts that are judged are no keys, nor are numbers of rows, which pandas writes into a column without a name.
    """
    pair = Pair(own, other)
    is_same = same_name(own) == same_name(other) and not own.startswith(UNNAMED)
    return pair.is_known or (is_same and set(TEXTS).isdisjoint(fields_of(own)))


def _key(row: Row, path: str, is_question: bool) -> str | None:
    """Return an id, or a question without what people write in one way or another. None if there is none."""
    value = at_path(row, path)
    with suppress(InputError):
        text = "" if value is ABSENT else " ".join((as_id(value) or "").split())
        if is_question:
            return normalize("NFKC", text).casefold().strip(" .?!:\"'“”‘’") or None
        return text if 0 < len(text) <= LONGEST_ID else None
    return None


def shown(row: Row, path: str) -> str:
    """Return the value at a path for a message, on one line."""
    return one_line(str(at_path(row, path)))
