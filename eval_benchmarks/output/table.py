"""A table: a title, heads and lines of cells; and tables with notes as Markdown, LaTeX, and in the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from eval_benchmarks.output.page import fill

TEXT_HEADS = {  # numbers are set to the right
    *"benchmark run method setting candidates scorer model metric minus".split(),
    "data set",
}
NONE = "-"
FILE_WIDTH = 160  # characters, where the output is no terminal
LATEX_ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # after a line's end it would open an option, as * would
    "*": "{*}",
} | {mark: "\\" + mark for mark in "&%$#_{}"}


@dataclass(frozen=True)
class Table:
    """A title, heads and lines of cells; columns of text stand before those of numbers."""

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]

    @property
    def text_columns(self) -> int:
        """How many columns of text stand before the numbers."""
        return sum(head in TEXT_HEADS for head in self.heads)


def open_console() -> Console:
    """Standard output, at its own width or FILE_WIDTH."""
    console = Console()
    return console if console.is_terminal else Console(width=FILE_WIDTH)


def markdown(tables: Sequence[Table], notes: Sequence[str]) -> str:
    """The tables, and the notes."""
    return fill("tables.md", tables=tables, notes=notes)


def latex(tables: Sequence[Table], notes: Sequence[str]) -> str:
    """To be put into a paper with \\input: a longtable with booktabs rules for each, heads repeated on each page.

    The notes stand behind them as a list.
    """
    return fill("tables.tex", {"latex": escape_latex}, tables=tables, notes=notes)


def escape_latex(text: str) -> str:
    """Text as LaTeX prints it, on one line."""
    return "".join(LATEX_ESCAPED.get(mark, mark) for mark in " ".join(text.split()))


def show(console: Console, tables: Sequence[Table], notes: Sequence[str]) -> None:
    """The same in the terminal."""
    for table in tables:
        shown = RichTable(title=Text(table.title), title_justify="left", box=SIMPLE, pad_edge=False)
        for i, head in enumerate(table.heads):
            if i < table.text_columns:
                shown.add_column(head, overflow="fold", min_width=10)
            else:
                shown.add_column(head, justify="right", no_wrap=True)
        for cells in table.lines:
            shown.add_row(*map(Text, cells))  # Text: brackets in a name are no markup
        console.print(shown)
    for note in notes:
        console.print(Text(note, style="yellow"), soft_wrap=True)
