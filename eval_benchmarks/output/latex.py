"""Tables as LaTeX, to be put into a paper with \\input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eval_benchmarks.output.tables import NONE, Table

HEADER = "% Needs \\usepackage{booktabs,longtable} in the preamble.\n"
ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # after a line's end it would open an option, as * would
    "*": "{*}",
} | {mark: "\\" + mark for mark in "&%$#_{}"}


def escape(text: str) -> str:
    """Text as LaTeX prints it, on one line."""
    return "".join(ESCAPED.get(mark, mark) for mark in " ".join(text.split()))


def latex(tables: Sequence[Table], notes: Sequence[str]) -> str:
    """A longtable with booktabs rules for each, heads repeated on each page, and the notes as a list."""
    parts = [HEADER, *(_table(table) for table in tables)]
    if notes:
        parts += ["\\begin{itemize}\n", *(f"\\item {escape(note)}\n" for note in notes), "\\end{itemize}\n"]
    return "".join(parts)


def _table(table: Table) -> str:
    columns = "l" * table.text_columns + "r" * (len(table.heads) - table.text_columns)
    heads = f"\\toprule\n{_line(table.heads)}\\midrule\n"
    return (
        f"\\begin{{longtable}}{{{columns}}}\n\\caption{{{escape(table.title)}}}\\\\\n"
        f"{heads}\\endfirsthead\n{heads}\\endhead\n\\bottomrule\n\\endfoot\n"
        f"{''.join(_line(cells) for cells in table.lines)}\\end{{longtable}}\n"
    )


def _line(cells: Iterable[str]) -> str:
    return " & ".join("--" if cell == NONE else escape(cell) for cell in cells) + r" \\" + "\n"
