"""Reads files of questions: golden sets, test sets and rankings. Their columns are recognised as those of cases are."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rag_zeval.cases.case_file import indented
from rag_zeval.cases.cells import has_several_truths, is_empty_list, is_nothing
from rag_zeval.cases.columns import Columns
from rag_zeval.cases.doubts import several_truths
from rag_zeval.cases.paths import at_path, has_path
from rag_zeval.cases.row_files import PlacedRow, read_table
from rag_zeval.cases.source import BadRows, Source
from rag_zeval.cases.wanted import Wanted
from rag_zeval.errors import InputError
from rag_zeval.files import Row, locate

T = TypeVar("T")


@dataclass(frozen=True)
class QuestionFile:
    """The rows of a file of questions, with our names for their fields, and how its columns were read.

    rows: by place, such as "golden.jsonl:3": the fields that the row has, or why it cannot be read.
    """

    name: str
    columns: Columns
    rows: Mapping[str, Row | InputError]

    @property
    def readable(self) -> dict[str, Row]:
        return {place: row for place, row in self.rows.items() if not isinstance(row, InputError)}

    def value(self, row: Row, field: str, convert: Callable[[Any], T]) -> T:
        """Return the converted value of a field, which may be missing. An InputError names the column."""
        with locate(f"column '{self.columns.of.get(field, field)}'"):
            return convert(row.get(field))

    def lines(self) -> Iterator[str]:
        """Yield the report on the file: which column holds each field, in how many rows, and what is not used."""
        rows = self.readable.values()

        def count(name: str) -> int:
            field = "passage" if name == "contexts" and "passage" in self.columns.of else name
            return sum(not is_nothing(row.get(field)) or is_empty_list(row.get(field)) for row in rows)

        yield f"{self.name}: {len(rows)} {'row' if len(rows) == 1 else 'rows'} ({self.columns.layout})"
        yield from self.columns.lines(count, len(rows))
        yield from self.columns.unread_lines()
        several = sum(has_several_truths(row.get("truth")) for row in rows)
        truths = several_truths(several, len(rows), self.columns.of.get("truth", ""))
        yield from (f"  warning: {warning}" for warning in (*truths, *self.columns.warnings()))

    def __str__(self) -> str:
        return indented(self.lines())


def read_question_file(
    path: Path,
    fields: Collection[str],
    needs: Mapping[str, Collection[str]],
    names: Mapping[str, str | Sequence[str]] | None = None,
    kept: Collection[str] = (),
) -> QuestionFile:
    """Read the rows of a file in any format that `evaluate` reads.

    fields: those to read. needs: for each field that the file must have, the fields of which one is enough. names: the
    columns that the user chose. kept: columns that are read under their own names.
    Raises InputError if the file cannot be read, has no rows or is a result file, if no row is valid, if a field is
    missing, and if two columns could hold it.
    """
    wanted = Wanted.of(names or {}, needs, fields)
    source = Source(str(path), partial(_rows, path, wanted.names), wanted)
    columns = replace(source.columns, unused=tuple(name for name in source.columns.unused if name not in kept))
    rows = {place: row if isinstance(row, InputError) else _named(row, columns, kept) for place, row in source.rows()}
    bad = [f"{place}: {why}" for place, why in rows.items() if isinstance(why, InputError)]
    if len(bad) == len(rows):
        raise BadRows(bad, len(bad), others=False)
    return QuestionFile(str(path), columns, rows)


def _rows(path: Path, names: Mapping[str, str]) -> Iterator[PlacedRow]:
    """Yield the rows. Raises InputError for a result file, in which a question has a row for each metric and trial."""
    for place, row in read_table(path, None, names):
        if not isinstance(row, InputError) and row.keys() >= {"case", "metric", "trial", "systems", "scores"}:
            raise InputError(f"{place}: is a result of `rag-zeval evaluate`: name the file that was evaluated")
        yield place, row


def _named(row: Row, columns: Columns, kept: Collection[str]) -> Row:
    named = {field: at_path(row, path) for field, path in columns.of.items() if has_path(row, path)}
    return {name: row[name] for name in kept if name in row} | named
