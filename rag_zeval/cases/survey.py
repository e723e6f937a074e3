"""Looks through all rows of a file once, for what its columns hold."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from rag_zeval.cases.cells import is_list, is_nothing, is_object, look_like_ids
from rag_zeval.cases.names import IDS, plain_name
from rag_zeval.cases.paths import at_path, has_path
from rag_zeval.cases.printed import unquoted
from rag_zeval.cases.row_files import LaterHeader, PlacedRow
from rag_zeval.errors import InputError
from rag_zeval.files import Row

LOOKED_AT = 100  # rows whose values are compared with what a column's name says
DECIMAL_COMMA = re.compile(r"\s*\d+,(?:\d{1,2}|\d{4,})\s*|\s*0,\d+\s*")  # 1,234 may be a thousand
PARENT = re.compile(r"parent.*id\Z", re.IGNORECASE)  # parent_id, parentObservationId, parent_run_id
TEXT, QUOTED, OBJECT, ERROR = "text", "JSON string", "object", "error"  # kinds of values


@dataclass
class Survey:
    """What the columns of a file hold.

    rows: number of all rows, also of those that cannot be read.
    there: the columns, and how many rows have a value in each. A column that is null in every row counts, too.
    kinds: the kinds of values in each column, until a text is found.
    commas: the columns with a number that has a decimal comma.
    reached: the paths of the user that lead to something in some row.
    sample: the first rows.
    header: the place of a row that seems to be the header, and what to do.
    """

    rows: int = 0
    there: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    commas: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    sample: list[Row] = field(default_factory=list)
    header: str | None = None

    @classmethod
    def of(cls, rows: Iterable[PlacedRow], paths: Collection[str]) -> "Survey":
        """Return the survey of these rows. paths: those that the user chose."""
        found = cls()
        for place, row in rows:
            found.rows += 1
            if isinstance(row, InputError):
                found.header = found.header or (f"{place}: {row}" if isinstance(row, LaterHeader) else None)
                continue
            found._add(row)
            found.reached.update(path for path in paths if has_path(row, path))
        return found

    def _add(self, row: Row) -> None:
        for name, value in row.items():
            if is_nothing(value):
                self.there[name] += 0
                continue
            self.there[name] += 1
            if TEXT not in (kinds := self.kinds[name]):
                kinds.add(_kind(value))
            if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value):
                self.commas.add(name)
        if len(self.sample) < LOOKED_AT:
            self.sample.append(row)

    @cached_property
    def wrappers(self) -> set[str]:
        """The columns that hold only objects, and so no text."""
        return {name for name, kinds in self.kinds.items() if OBJECT in kinds and not {TEXT, QUOTED} & kinds}

    @cached_property
    def encoded(self) -> set[str]:
        """The columns in which every text is a JSON string."""
        return {name for name, kinds in self.kinds.items() if QUOTED in kinds and TEXT not in kinds}

    @cached_property
    def parent(self) -> str | None:
        """The column with the id of another row, if rows are parts of others: the steps of a trace, or a thread."""
        paths = {path for row in self.sample for path in _paths(row)}
        for name in filter(PARENT.search, self.there):
            parents = {str(value) for value in self.values(name)}
            has_roots = 0 < self.there[name] < self.rows
            for path in paths if has_roots else ():
                ids = list(map(str, self.values(path)))
                own = any(str(at_path(row, name)) == str(at_path(row, path)) for row in self.sample)
                if not own and len(ids) == len({*ids}) and parents.issubset(ids):
                    return name
        return None

    def values(self, path: str) -> list[Any]:
        """Return the values of a column, or at a path, in the first rows."""
        found = (at_path(row, path) for row in self.sample)
        return [value for value in found if not is_nothing(value)]

    def holds_ids(self, field: str, name: str) -> bool:
        """Whether a column holds ids and not texts, if its name leaves that open: `expected`, `relevant_docs`.

        A name of one word may mean anything else, too. So its values must be lists, and no numbers.
        """
        plain = plain_name(name)
        if plain not in IDS[field]:
            return False
        if "_" in plain:
            return self.all_are(partial(look_like_ids, or_number=True), name)
        return self.all_are(lambda value: is_list(value) and look_like_ids(value), name)

    def all_are(self, test: Callable[[Any], bool], path: str) -> bool:
        """Whether there are values at a path, and all pass the test."""
        values = self.values(path)
        return bool(values) and all(map(test, values))


def _paths(row: Row) -> Iterator[str]:
    """Yield the columns of a row, and the fields of objects in them."""
    for name, value in row.items():
        yield from (f"{name}.{field}" for field in value) if isinstance(value, Mapping) else (name,)


def _kind(value: Any) -> str:
    if is_object(value):
        return OBJECT
    if isinstance(value, Mapping):  # which takes the place of an answer
        return ERROR
    return TEXT if unquoted(value) is value else QUOTED
