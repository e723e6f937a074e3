"""The columns of the benchmark tables, and the tables made from summary.json and comparisons.json.

Labelled claims and answers have a line for each scorer and data set, and a column for each metric. Every other
benchmark has a line for each metric. For labelled texts that would be dozens of lines for each scorer.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence

from eval_benchmarks.datasets.labelled.benchmark import AUROC, BY_THRESHOLD, OF_SPANS, THRESHOLD, TUNED
from eval_benchmarks.datasets.labelled.description import MACRO, POOLED
from eval_benchmarks.output.table import NONE, Table
from eval_benchmarks.trials import scorer_name
from rag_zeval.files import Row
from rag_zeval.text import percent, with_interval

TableColumns = Mapping[str, Callable[[Row], str]]  # head -> cell of a row


def _text(key: str) -> Callable[[Row], str]:
    return lambda row: row[key] or NONE


def _number(key: str, digits: int = 3) -> Callable[[Row], str]:
    return lambda row: NONE if row[key] is None else f"{row[key]:.{digits}f}"


def _interval(row: Row) -> str:
    return NONE if row["ci_low"] is None else f"{row['ci_low']:.3f} to {row['ci_high']:.3f}"


def _labelled(metric: str) -> Callable[[Row], str]:
    """Return the cell of a metric, as a function of a line.

    The line's `by_metric` holds the rows of summary.json of one scorer and data set, by metric. The cell says of how
    many texts the value is if that is not the line's n.
    """

    def cell(line: Row) -> str:
        row = line["by_metric"].get(metric)
        if row is None or row["value"] is None:
            return NONE if row is None else _number("published")(row)
        value = with_interval(row["value"], row["ci_low"], row["ci_high"])
        return value if row["n"] == line["n"] else f"{value} (n = {row['n']})"

    return cell


SIZE_COLUMNS: TableColumns = {
    "n": _number("n", 0),
    "coverage": lambda row: NONE if row["coverage"] is None else percent(row["coverage"]),
}
VALUE_COLUMNS: TableColumns = {
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
TEST_COLUMNS: TableColumns = {
    "metric": _text("metric"),
    "minus": _text("minus_scorer"),
    "model": _text("minus_model"),
    "difference": _number("difference"),
    "95% interval": _interval,
    "p": _number("p", 4),
    "Holm's p": _number("p_holm", 4),
    **SIZE_COLUMNS,
}
COST_TITLE = "cost (seconds: wall-clock time, with whatever else ran on the machine)"
COST_COLUMNS: TableColumns = {
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
AT = f"at {THRESHOLD:g}".replace("0.", ".")
LABELLED_HEADS = {  # metric -> head of its column
    "balanced_accuracy": f"balanced acc. {AT}",
    "balanced_accuracy" + TUNED: "balanced acc. tuned",
    AUROC: "AUROC",
    "f1_unsupported": f"F1 unsupp. {AT}",
    "f1_unsupported" + TUNED: "F1 unsupp. tuned",
    "span_f1": "span F1",
    "span_precision": "precision",
    "span_recall": "recall",
}
assert {*LABELLED_HEADS} == {*BY_THRESHOLD, *(name + TUNED for name in BY_THRESHOLD), AUROC, *OF_SPANS}
AVERAGES = {MACRO: "macro average", POOLED: "all together"}
LABELLED_COLUMNS: TableColumns = {
    "scorer": _text("scorer"),
    "model": _text("model"),
    "data set": _text("data_set"),
    **{head: _labelled(metric) for metric, head in LABELLED_HEADS.items()},
    **SIZE_COLUMNS,
}
AGAINST = {  # column of the CSV about the test against RAG-Zeval -> field of comparisons.json
    "difference": "difference",
    "difference_ci_low": "ci_low",
    "difference_ci_high": "ci_high",
    "p": "p",
    "p_holm": "p_holm",
}


def bench_tables(rows: Sequence[Row], comparisons: Sequence[Row]) -> list[Table]:
    """Return the tables of every benchmark, and at the end the table of what the judges cost.

    A benchmark has a table of values, then one of RAG-Zeval's tests against the other scorers. Empty columns are left
    out. Labelled texts have tables of their own (`labelled_tables`). Of their tests, only those over all data sets are
    shown.
    """
    tables = []
    for benchmark in dict.fromkeys(row["benchmark"] for row in rows):
        values = [row for row in rows if row["benchmark"] == benchmark]
        labelled = of_labelled(values)
        tables += labelled_tables(benchmark, values) if labelled else [make_table(benchmark, VALUE_COLUMNS, values)]
        tests = [row for row in comparisons if row["benchmark"] == benchmark]
        if labelled:  # only tests over all data sets
            tests = [row for row in tests if split_metric(row["metric"])[1] in ("", *AVERAGES)]
        if tests:
            ours = scorer_name(tests[0]["scorer"], tests[0]["model"])
            tables.append(make_table(f"{benchmark}: {ours}, minus every other scorer", TEST_COLUMNS, tests))
    if asked := [row for row in rows if row["calls"] or row["cached"]]:
        costs = make_table(COST_TITLE, COST_COLUMNS, asked)
        tables.append(Table(costs.title, costs.heads, list(dict.fromkeys(costs.lines))))  # once, not for each metric
    return [_trimmed(table) for table in tables]


def make_table(title: str, columns: TableColumns, rows: Sequence[Row]) -> Table:
    """Return a table with a line for each row of summary.json or comparisons.json."""
    return Table(title, [*columns], [tuple(cell(row) for cell in columns.values()) for row in rows])


def split_metric(name: str) -> tuple[str, str, str]:
    """Split a metric's name into reading, data set (or the average over data sets) and metric. A missing part is "".

    >>> split_metric("questionable_unsupported:macro/auroc")
    ('questionable_unsupported', 'macro', 'auroc')
    """
    place, _, metric = name.rpartition("/")
    reading, colon, rest = (place or metric).partition(":")
    if not colon:
        return "", place, metric
    return (reading, rest, metric) if place else (reading, "", rest)


def of_labelled(rows: Sequence[Row]) -> bool:
    """Whether these rows of summary.json belong to a set of labelled texts."""
    return all(split_metric(row["metric"])[2] in LABELLED_HEADS for row in rows)


def labelled_tables(benchmark: str, rows: Sequence[Row]) -> list[Table]:
    """Return a table for each reading of the labels."""
    tables: dict[str, dict[tuple[str, str | None, str], Row]] = {}
    for row in rows:
        reading, data_set, metric = split_metric(row["metric"])
        title = f"{benchmark} ({reading})" if reading else benchmark
        first = {**row, "data_set": AVERAGES.get(data_set, data_set), "by_metric": {}}
        line = tables.setdefault(title, {}).setdefault((row["scorer"], row["model"], data_set), first)
        line["by_metric"][metric] = row
    return [make_table(title, LABELLED_COLUMNS, [*lines.values()]) for title, lines in tables.items()]


def comma_separated(rows: Sequence[Row], comparisons: Sequence[Row]) -> str:
    """Return a CSV with a line for each row of summary.json and its test against RAG-Zeval, if it has one.

    Unknown values are empty. `against` names RAG-Zeval's judge. `difference` is RAG-Zeval minus this row's scorer.
    Several files are separated by spaces, because their names contain none.
    """
    tests = {(r["benchmark"], r["metric"], r["minus_scorer"], r["minus_model"]): r for r in comparisons}
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0], "against", *AGAINST], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = {**row, "files": " ".join(row["files"])}
        if test := tests.get((row["benchmark"], row["metric"], row["scorer"], row["model"])):
            cells["against"] = scorer_name(test["scorer"], test["model"])
            cells |= {head: test[key] for head, key in AGAINST.items()}
        writer.writerow(cells)
    return text.getvalue()


def _trimmed(table: Table) -> Table:
    used = [i for i in range(len(table.heads)) if any(cells[i] != NONE for cells in table.lines)]
    return Table(table.title, [table.heads[i] for i in used], [[cells[i] for i in used] for cells in table.lines])
