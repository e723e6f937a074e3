"""Chooses the columns of a file or an object, and gives its rows: one for each question or answer."""

from collections.abc import Callable, Iterable, Iterator

from rag_zeval.cases.cells import is_nothing
from rag_zeval.cases.columns import Columns, choose
from rag_zeval.cases.names import UNNAMED
from rag_zeval.cases.paths import option
from rag_zeval.cases.printed import unquoted
from rag_zeval.cases.row_files import PlacedRow
from rag_zeval.cases.survey import Survey
from rag_zeval.cases.systems import naming_systems
from rag_zeval.cases.wanted import Wanted
from rag_zeval.errors import InputError
from rag_zeval.files import Row, locate
from rag_zeval.text import one_line

MOST_TOLD = 20  # bad rows of a file that are listed one by one


class BadRows(InputError):
    """Raised for rows that cannot be read; its lines give the reason for each.

    reasons: for each bad row. rows: how many rows there are. others: whether some can be read.
    """

    def __init__(self, reasons: list[str], rows: int, others: bool):
        bad = len(reasons)
        shown = [one_line(reason) for reason in reasons[:MOST_TOLD]]
        if bad > MOST_TOLD:
            shown.append(f"and {bad - MOST_TOLD} more")
        if bad > 1 or others:
            way_out = f"fix {'it' if bad == 1 else 'them'}{', or add --skip-bad-rows' if others else ''}"
            shown.append(f"{bad} of {rows} rows cannot be read; {way_out}")
        self._lines = shown
        super().__init__("; ".join(shown))

    @property
    def lines(self) -> list[str]:
        return self._lines


class Source:
    """The rows of a file or an object, and the columns that hold the wanted fields.

    rows: returns all rows anew. They are read twice: first for the columns, then for the fields.
    Raises InputError if there are no rows, if none can be read, and as `choose` does.
    """

    def __init__(self, name: str, rows: Callable[[], Iterator[PlacedRow]], wanted: Wanted):
        self.name = name
        self._rows = rows
        self.survey = Survey.of(rows(), {path for _, path in wanted.paths})
        number, header = self.survey.rows, self.survey.header
        if not number:
            raise InputError(f"{name}: no rows")
        if not self.survey.sample:
            reasons = [f"{place}: {row}" for place, row in rows()]
            raise InputError(header) if header else BadRows(reasons, number, others=False)
        if (parent := self.survey.parent) is not None:
            raise InputError(
                f"{name}: rows are parts of other rows, by column '{parent}': write one row for each question, with "
                f"its answer and contexts. If each row is an answer of its own, remove '{parent}'"
            )
        try:
            with locate(name):
                self.wanted = wanted.as_written(self.survey)
                if not any(count for name, count in self.survey.there.items() if not name.startswith(UNNAMED)):
                    raise InputError("all cells of the columns with a name are blank")
                self.columns: Columns = choose(self.survey, self.wanted)
        except InputError:
            if header is None:
                raise
            raise InputError(header) from None

    def rows(self) -> Iterator[PlacedRow]:
        """Return the rows, of which one stands for all passages of an answer."""
        return _grouped(self._filled(), self.columns) if "passage" in self.columns.of else self._filled()

    def _filled(self) -> Iterator[PlacedRow]:
        """Yield all rows except empty ones, which spreadsheets have."""
        for place, row in self._rows():
            if isinstance(row, InputError):
                yield place, row
            elif not all(map(is_nothing, row.values())):
                for name in self.survey.encoded:
                    row[name] = unquoted(row.get(name))
                yield place, row

    def naming(self, field: str) -> tuple[str, ...]:
        """Return the unused columns that may name the system of each row: rows with the same field differ in them."""
        rows = (row for _, row in self.rows() if not isinstance(row, InputError))
        keyed = ((" ".join(str(self.columns.value(row, field)).split()), row) for row in rows)
        return () if "system" in self.columns.of else tuple(naming_systems(keyed, self.columns.unused))


def _grouped(rows: Iterable[PlacedRow], columns: Columns) -> Iterator[PlacedRow]:
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
