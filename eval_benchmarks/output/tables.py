"""summary.json and comparisons.json as tables: Markdown, LaTeX, CSV, and in the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from eval_benchmarks.output.labelled_tables import labelled_tables, of_averages, of_labelled
from eval_benchmarks.output.table import NONE, Table
from eval_benchmarks.trials import scorer_name
from rag_zeval.files import Row

AGAINST_HEADS = "against difference difference_ci_low difference_ci_high p p_holm".split()  # of a row in the CSV
FILE_WIDTH = 160  # characters, where the output is no terminal
LATEX_HEADER = "% Needs \\usepackage{booktabs,longtable} in the preamble.\n"
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


Columns = Mapping[str, Callable[[Row], str]]  # head -> cell of a row


def _text(key: str) -> Callable[[Row], str]:
    return lambda row: row[key] or NONE


def _number(key: str, digits: int = 3) -> Callable[[Row], str]:
    return lambda row: NONE if row[key] is None else f"{row[key]:.{digits}f}"


def _interval(row: Row) -> str:
    return NONE if row["ci_low"] is None else f"{row['ci_low']:.3f} to {row['ci_high']:.3f}"


SIZE_COLUMNS: Columns = {"n": lambda row: str(row["n"]), "coverage": lambda row: f"{row['coverage']:.1%}"}
VALUE_COLUMNS: Columns = {
    "scorer": _text("scorer"),
    "model": _text("model"),
    "metric": _text("metric"),
    "value": _number("value"),
    "SD": _number("sd"),
    "95% interval": _interval,
    "published": _number("published"),
    "trials": lambda row: NONE if row["trials"] in (None, 1) else str(row["trials"]),
    **SIZE_COLUMNS,
}
TEST_COLUMNS: Columns = {
    "metric": _text("metric"),
    "minus": _text("minus_scorer"),
    "model": _text("minus_model"),
    "difference": _number("difference"),
    "95% interval": _interval,
    "p": _number("p", 4),
    "Holm's p": _number("p_holm", 4),
    **SIZE_COLUMNS,
}
COST_COLUMNS: Columns = {
    "benchmark": _text("benchmark"),
    "scorer": _text("scorer"),
    "model": _text("model"),
    "calls": _number("calls", 0),
    "from cache": _number("cached", 0),
    "retries": _number("retries", 0),
    "failures": _number("failures", 0),
    "seconds": _number("seconds", 0),
    "tokens in": _number("prompt_tokens", 0),
    "tokens out": _number("completion_tokens", 0),
    "dollars": _number("dollars", 4),
}


def tables(rows: Sequence[Row], comparisons: Sequence[Row]) -> list[Table]:
    """For each benchmark its values, then RAG-Zeval against the other scorers; at the end what the judges cost.

    A column in which no line has anything is left out. Labelled texts have tables of their own (`labelled_tables`), and
    of the tests against RAG-Zeval those of averages over data sets.
    """
    sections = []
    for benchmark in dict.fromkeys(row["benchmark"] for row in rows):
        values = [row for row in rows if row["benchmark"] == benchmark]
        labelled = of_labelled(values)
        sections += labelled_tables(benchmark, values) if labelled else [make_table(benchmark, VALUE_COLUMNS, values)]
        tests = [row for row in comparisons if row["benchmark"] == benchmark]
        tests = of_averages(tests) if labelled else tests
        if tests:
            ours = scorer_name(tests[0]["scorer"], tests[0]["model"])
            sections.append(make_table(f"{benchmark}: {ours}, minus every other scorer", TEST_COLUMNS, tests))
    asked = [row for row in rows if row["calls"] or row["cached"]]
    if asked:
        costs = make_table(
            "cost (seconds: wall-clock time, with whatever else ran on the machine)", COST_COLUMNS, asked
        )
        sections.append(Table(costs.title, costs.heads, list(dict.fromkeys(costs.lines))))  # once for all metrics
    return [_trimmed(table) for table in sections]


def make_table(title: str, columns: Columns, rows: Sequence[Row]) -> Table:
    """A line of the table for each row of summary.json or comparisons.json."""
    return Table(title, [*columns], [tuple(cell(row) for cell in columns.values()) for row in rows])


def open_console() -> Console:
    """Standard output, at its own width or FILE_WIDTH."""
    console = Console()
    return console if console.is_terminal else Console(width=FILE_WIDTH)


def markdown(tables: Sequence[Table], notes: Sequence[str]) -> str:
    """The tables, and the notes."""
    parts = []
    for table in tables:
        rule = ["---"] * table.text_columns + ["---:"] * (len(table.heads) - table.text_columns)
        lines = [_markdown_line(cells) for cells in [table.heads, rule, *table.lines]]
        parts.append(f"## {table.title}\n\n" + "\n".join(lines))
    if notes:
        parts.append("## Notes\n\n" + "\n".join(f"- {note}" for note in notes))
    return "\n\n".join(parts) + "\n"


def _markdown_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def latex(tables: Sequence[Table], notes: Sequence[str]) -> str:
    """To be put into a paper with \\input: a longtable with booktabs rules for each, heads repeated on each page.

    The notes stand behind them as a list.
    """
    parts = [LATEX_HEADER]
    for table in tables:
        columns = "l" * table.text_columns + "r" * (len(table.heads) - table.text_columns)
        heads = f"\\toprule\n{_latex_line(table.heads)}\\midrule\n"
        parts.append(
            f"\\begin{{longtable}}{{{columns}}}\n\\caption{{{escape_latex(table.title)}}}\\\\\n"
            f"{heads}\\endfirsthead\n{heads}\\endhead\n\\bottomrule\n\\endfoot\n"
            f"{''.join(_latex_line(cells) for cells in table.lines)}\\end{{longtable}}\n"
        )
    if notes:
        parts += ["\\begin{itemize}\n", *(f"\\item {escape_latex(note)}\n" for note in notes), "\\end{itemize}\n"]
    return "".join(parts)


def _latex_line(cells: Iterable[str]) -> str:
    return " & ".join("--" if cell == NONE else escape_latex(cell) for cell in cells) + r" \\" + "\n"


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


def comma_separated(rows: Sequence[Row], comparisons: Sequence[Row]) -> str:
    """A line for each row of summary.json with its test against RAG-Zeval, if it has one; what is not known is empty.

    `against` names RAG-Zeval's judge; `difference` is it minus this row's scorer. Several files are set apart by
    spaces, of which their names have none.
    """
    tests = {(r["benchmark"], r["metric"], r["minus_scorer"], r["minus_model"]): r for r in comparisons}
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0], *AGAINST_HEADS], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        test = tests.get((row["benchmark"], row["metric"], row["scorer"], row["model"]))
        writer.writerow({**row, "files": " ".join(row["files"]), **(_against(test) if test else {})})
    return text.getvalue()


def _against(test: Row) -> Row:
    values = (test[key] for key in ("difference", "ci_low", "ci_high", "p", "p_holm"))
    return dict(zip(AGAINST_HEADS, (scorer_name(test["scorer"], test["model"]), *values), strict=True))


def _trimmed(table: Table) -> Table:
    used = [i for i in range(len(table.heads)) if any(cells[i] != NONE for cells in table.lines)]
    return Table(table.title, [table.heads[i] for i in used], [[cells[i] for i in used] for cells in table.lines])
