"""summary.json and comparisons.json as tables: Markdown, CSV, and in the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from eval_benchmarks.results import scorer_name
from rag_zeval.files import Row

VALUE_HEADS = "scorer,model,metric,value,SD,95% interval,published,trials,n,coverage".split(",")
TEST_HEADS = "metric,minus,model,difference,95% interval,p,Holm's p,n,coverage".split(",")
COST_HEADS = "benchmark,scorer,model,calls,from cache,retries,failures,seconds,tokens in,tokens out,dollars".split(",")
COSTS = dict.fromkeys("calls cached retries failures seconds prompt_tokens completion_tokens".split(), 0)
COSTS["dollars"] = 4  # and the decimals of each
TEST_COLUMNS = "against difference difference_ci_low difference_ci_high p p_holm".split()  # of a row in the CSV
TEXT_HEADS = {"benchmark", "scorer", "model", "metric", "minus"}  # the other columns are numbers, set to the right
NONE = "-"
FILE_WIDTH = 160  # characters, where the output is no terminal


@dataclass(frozen=True)
class Table:
    """A title, heads and lines of cells; columns of text stand before those of numbers."""

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]


def tables(rows: Sequence[Row], comparisons: Sequence[Row]) -> list[Table]:
    """For each benchmark its values, then RAG-Zeval against the other scorers; at the end what the judges cost.

    A column in which no line has anything is left out.
    """
    found = []
    for benchmark in dict.fromkeys(row["benchmark"] for row in rows):
        found.append(Table(benchmark, VALUE_HEADS, [_values(row) for row in rows if row["benchmark"] == benchmark]))
        tests = [row for row in comparisons if row["benchmark"] == benchmark]
        if tests:
            ours = scorer_name(tests[0]["scorer"], tests[0]["model"])
            found.append(Table(f"{benchmark}: {ours}, minus each other scorer", TEST_HEADS, [_test(r) for r in tests]))
    costs = list(dict.fromkeys(_costs(row) for row in rows if row["calls"] or row["cached"]))
    if costs:
        found.append(Table("cost", COST_HEADS, costs))
    return [_trimmed(table) for table in found]


def open_console() -> Console:
    """Standard output, at its own width or FILE_WIDTH."""
    console = Console()
    return console if console.is_terminal else Console(width=FILE_WIDTH)


def markdown(tables: Sequence[Table], notes: Sequence[str]) -> str:
    """The tables, and the notes."""
    parts = []
    for table in tables:
        text = text_columns(table)
        rule = ["---"] * text + ["---:"] * (len(table.heads) - text)
        parts.append(f"## {table.title}\n\n" + "\n".join(_line(cells) for cells in [table.heads, rule, *table.lines]))
    if notes:
        parts.append("## Notes\n\n" + "\n".join(f"- {note}" for note in notes))
    return "\n\n".join(parts) + "\n"


def show(console: Console, tables: Sequence[Table], notes: Sequence[str]) -> None:
    """The same in the terminal."""
    for table in tables:
        shown = RichTable(title=Text(table.title), title_justify="left", box=SIMPLE, pad_edge=False)
        for i, head in enumerate(table.heads):
            if i < text_columns(table):
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
    writer = csv.DictWriter(text, [*rows[0], *TEST_COLUMNS], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        test = tests.get((row["benchmark"], row["metric"], row["scorer"], row["model"]))
        writer.writerow({**row, "files": " ".join(row["files"]), **(_tested(test) if test else {})})
    return text.getvalue()


def _tested(test: Row) -> Row:
    values = (test[key] for key in ("difference", "ci_low", "ci_high", "p", "p_holm"))
    return dict(zip(TEST_COLUMNS, (scorer_name(test["scorer"], test["model"]), *values), strict=True))


def _trimmed(table: Table) -> Table:
    used = [i for i in range(len(table.heads)) if any(cells[i] != NONE for cells in table.lines)]
    return Table(table.title, [table.heads[i] for i in used], [[cells[i] for i in used] for cells in table.lines])


def text_columns(table: Table) -> int:
    """How many columns of text stand before the numbers."""
    return sum(head in TEXT_HEADS for head in table.heads)


def _values(row: Row) -> list[str]:
    return [
        row["scorer"],
        row["model"] or NONE,
        row["metric"],
        number(row["value"]),
        number(row["sd"]),
        interval_cell(row),
        number(row["published"]),
        NONE if row["trials"] in (None, 1) else str(row["trials"]),
        *size_cells(row),
    ]


def _test(row: Row) -> list[str]:
    return [
        row["metric"],
        row["minus_scorer"],
        row["minus_model"] or NONE,
        number(row["difference"]),
        interval_cell(row),
        number(row["p"], 4),
        number(row["p_holm"], 4),
        *size_cells(row),
    ]


def _costs(row: Row) -> tuple[str, ...]:
    names = row["benchmark"], row["scorer"], row["model"] or NONE
    return *names, *(number(row[key], digits) for key, digits in COSTS.items())


def interval_cell(row: Row) -> str:
    """The 95% interval, or a dash for none."""
    return NONE if row["ci_low"] is None else f"{number(row['ci_low'])} to {number(row['ci_high'])}"


def size_cells(row: Row) -> tuple[str, str]:
    """Instances, and their share of all."""
    return str(row["n"]), f"{row['coverage']:.1%}"


def number(value: float | None, digits: int = 3) -> str:
    """The value, or a dash for none."""
    return NONE if value is None else f"{value:.{digits}f}"


def _line(values: Iterable[str]) -> str:
    return "| " + " | ".join(value.replace("|", "\\|") for value in values) + " |"
