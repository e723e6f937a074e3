"""Tables in the terminal, of text that others wrote."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

FILE_WIDTH = 1_000  # characters, where the output is no terminal: no cell is folded


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to stdout: brackets in a cell are no markup, and what does not print is a space."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from rag_zeval.models.language_model import one_line

    table = Table(box=SIMPLE)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else FILE_WIDTH).print(table)
