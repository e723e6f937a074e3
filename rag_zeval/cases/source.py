"""Chooses the columns of a file or an object, and gives its rows: one for each question or answer."""

from collections.abc import Callable, Iterator
from itertools import islice

from rag_zeval.cases.cells import is_nothing
from rag_zeval.cases.columns import Columns, choose
from rag_zeval.cases.passages import grouped
from rag_zeval.cases.printed import unquoted
from rag_zeval.cases.row_files import PlacedRow
from rag_zeval.cases.survey import UNNAMED, Survey
from rag_zeval.cases.systems import naming_systems
from rag_zeval.cases.wanted import Wanted
from rag_zeval.errors import InputError
from rag_zeval.files import locate
from rag_zeval.text import one_line

MOST_TOLD = 20  # bad rows of a file that are listed one by one


class BadRows(InputError):
    """Raised for rows that cannot be read; its lines give the reason for each.

    reasons: for each bad row, or for the first of them. bad, rows: how many rows are bad, and how many there are.
    others: whether some rows can be read.
    """

    def __init__(self, reasons: list[str], bad: int, rows: int, others: bool):
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
            reasons = [f"{place}: {row}" for place, row in islice(rows(), MOST_TOLD)]
            raise InputError(header) if header else BadRows(reasons, number, number, others=False)
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
        return grouped(self._filled(), self.columns) if "passage" in self.columns.of else self._filled()

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
