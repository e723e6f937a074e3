"""Prints tables of text from users and models in the terminal."""

import os
import sys
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from rag_zeval.text import one_line

LOG_WIDTH = 140  # characters of a table with a frame, if the output is no terminal: a log shows long lines
FILE_WIDTH = 1_000  # characters, if the output is no terminal: so wide that cells of lists are not folded


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table without a frame to stdout. If that is no terminal, each cell stays on one line."""
    width = None if sys.stdout.isatty() else FILE_WIDTH
    _print(heads, ([one_line(cell) for cell in row] for row in rows), width, box=SIMPLE)


def print_framed(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with a frame to stdout, as wide as the terminal or $COLUMNS at most.

    A cell may have several lines. No heads are shown if all are "".
    """
    is_set = sys.stdout.isatty() or "COLUMNS" in os.environ
    _print(heads, rows, None if is_set else LOG_WIDTH)


def _print(heads: Sequence[str], rows: Iterable[Sequence[str]], width: int | None, **look: object) -> None:
    """Print a table in which long cells are folded, never cut, so that names that differ at their ends stay distinct.

    Brackets in a cell are not read as markup. Characters that do not print become spaces. If rows are folded, lines
    separate them.
    """
    console = Console(width=width)
    columns = [Column(Text(head), overflow="fold") for head in heads]
    table = Table(*columns, show_header=any(heads), **look)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text("\n".join(map(one_line, cell.split("\n")))) for cell in row))
    table.show_lines = console.measure(table, options=console.options.update(width=FILE_WIDTH)).maximum > console.width
    console.print(table)
