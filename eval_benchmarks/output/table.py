"""Tables, and how they are shown with notes: as Markdown, as LaTeX, and in the terminal."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from eval_benchmarks.output.page import fill

TEXT_HEADS = {  # these columns hold text; all others hold numbers and are right-aligned
    *"benchmark run method setting candidates scorer model metric minus".split(),
    "data set",
}
NONE = "-"
FILE_WIDTH = 160  # characters per line if the output is no terminal
LATEX_ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # after a line break, [ would begin an option of LaTeX, and so would *
    "*": "{*}",
} | {mark: "\\" + mark for mark in "&%$#_{}"}
MINUS = re.compile(r"(?<![\w.-])-(?=\d)")  # LaTeX would print a hyphen


@dataclass(frozen=True)
class Table:
    """A title, heads and lines of cells. Columns of text come before columns of numbers."""

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]

    @property
    def text_columns(self) -> int:
        """How many columns of text come before the numbers."""
        return sum(head in TEXT_HEADS for head in self.heads)


def open_console() -> Console:
    """Return a console on standard output, as wide as the terminal, or FILE_WIDTH if it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=FILE_WIDTH)


def markdown(tables: Sequence[Table], notes: Sequence[str]) -> str:
    """Return the tables and the notes as Markdown. Names and quoted replies show no links and no HTML."""
    return fill("tables.md", {"plain": escape_markdown}, tables=tables, notes=notes)


def escape_markdown(text: str) -> str:
    """Escape what would begin a link or HTML, and put the text on one line. Intervals have brackets: not for these.

    A backslash is escaped too: it would undo the one that is put after it.
    """
    return re.sub(r"[\\<\[]", r"\\\g<0>", " ".join(text.split()))


def latex(tables: Sequence[Table], notes: Sequence[str]) -> str:
    """Return the tables and the notes as LaTeX, to be included in a paper with \\input.

    Each table is a longtable with booktabs rules, and repeats its heads on each page. The notes follow as a list.
    """
    return fill("tables.tex", {"latex": escape_latex}, tables=tables, notes=notes)


def escape_latex(text: str) -> str:
    """Escape a text so that LaTeX prints it, with minus signs before numbers, and put it on one line."""
    escaped = "".join(LATEX_ESCAPED.get(mark, mark) for mark in " ".join(text.split()))
    return MINUS.sub(r"\\(-\\)", escaped)


def show(console: Console, tables: Sequence[Table], notes: Sequence[str]) -> None:
    """Print the tables and the notes in the terminal."""
    for table in tables:
        shown = RichTable(title=Text(table.title), title_justify="left", box=SIMPLE, pad_edge=False)
        for i, head in enumerate(table.heads):
            if i < table.text_columns:
                shown.add_column(head, overflow="fold", min_width=10)
            else:
                shown.add_column(head, justify="right", no_wrap=True)
        for cells in table.lines:
            shown.add_row(*map(Text, cells))  # Text, because brackets in a name are not markup
        console.print(shown)
    for note in notes:
        console.print(Text(note, style="yellow"), soft_wrap=True)
