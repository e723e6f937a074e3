"""The columns of the bench's tables, and the tables that are made with them of summary.json and comparisons.json.

Labelled claims and answers have a line for each scorer and data set, and a column for each metric. Every other
benchmark has a line for each metric: for labelled texts that would be dozens for each scorer.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence

from eval_benchmarks.datasets.labelled.benchmark import AUROC, BY_THRESHOLD, MACRO, OF_SPANS, POOLED, THRESHOLD, TUNED
from eval_benchmarks.output.table import NONE, Table
from eval_benchmarks.trials import scorer_name
from rag_zeval.files import Row
from rag_zeval.text import with_interval

TableColumns = Mapping[str, Callable[[Row], str]]  # head -> cell of a row


def _text(key: str) -> Callable[[Row], str]:
    return lambda row: row[key] or NONE


def _number(key: str, digits: int = 3) -> Callable[[Row], str]:
    return lambda row: NONE if row[key] is None else f"{row[key]:.{digits}f}"


def _interval(row: Row) -> str:
    return NONE if row["ci_low"] is None else f"{row['ci_low']:.3f} to {row['ci_high']:.3f}"


def _labelled(metric: str) -> Callable[[Row], str]:
    """Of a line that holds the rows of summary.json of a scorer and data set `by_metric`."""

    def cell(line: Row) -> str:
        row = line["by_metric"].get(metric)
        if row is None or row["value"] is None:
            return NONE if row is None else _number("published")(row)
        return with_interval(row["value"], row["ci_low"], row["ci_high"])

    return cell


SIZE_COLUMNS: TableColumns = {
    "n": _number("n", 0),
    "coverage": lambda row: NONE if row["coverage"] is None else f"{row['coverage']:.1%}",
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
AGAINST = {  # columns of the CSV that a row's test against RAG-Zeval fills -> field of comparisons.json
    "difference": "difference",
    "difference_ci_low": "ci_low",
    "difference_ci_high": "ci_high",
    "p": "p",
    "p_holm": "p_holm",
}


def bench_tables(rows: Sequence[Row], comparisons: Sequence[Row]) -> list[Table]:
    """For each benchmark its values, then RAG-Zeval against the other scorers; at the end what the judges cost.

    A column in which no line has anything is left out. Labelled texts have tables of their own (`labelled_tables`), and
    of the tests against RAG-Zeval those of averages over data sets.
    """
    tables = []
    for benchmark in dict.fromkeys(row["benchmark"] for row in rows):
        values = [row for row in rows if row["benchmark"] == benchmark]
        labelled = of_labelled(values)
        tables += labelled_tables(benchmark, values) if labelled else [make_table(benchmark, VALUE_COLUMNS, values)]
        tests = [row for row in comparisons if row["benchmark"] == benchmark]
        if labelled:  # without those of a single data set, where there are averages
            tests = [row for row in tests if split_metric(row["metric"])[1] in ("", *AVERAGES)]
        if tests:
            ours = scorer_name(tests[0]["scorer"], tests[0]["model"])
            tables.append(make_table(f"{benchmark}: {ours}, minus every other scorer", TEST_COLUMNS, tests))
    if asked := [row for row in rows if row["calls"] or row["cached"]]:
        costs = make_table(COST_TITLE, COST_COLUMNS, asked)
        tables.append(Table(costs.title, costs.heads, list(dict.fromkeys(costs.lines))))  # once for all metrics
    return [_trimmed(table) for table in tables]


def make_table(title: str, columns: TableColumns, rows: Sequence[Row]) -> Table:
    """A line of the table for each row of summary.json or comparisons.json."""
    return Table(title, [*columns], [tuple(cell(row) for cell in columns.values()) for row in rows])


def split_metric(name: str) -> tuple[str, str, str]:
    """Reading, data set (or the average over them) and metric of a name; "" for one that it does not say.

    >>> split_metric("questionable_unsupported:macro/auroc")
    ('questionable_unsupported', 'macro', 'auroc')
    """
    place, _, metric = name.rpartition("/")
    reading, colon, rest = (place or metric).partition(":")
    if not colon:
        return "", place, metric
    return (reading, rest, metric) if place else (reading, "", rest)


def of_labelled(rows: Sequence[Row]) -> bool:
    """Whether rows of summary.json are those of a set of labelled texts."""
    return all(split_metric(row["metric"])[2] in LABELLED_HEADS for row in rows)


def labelled_tables(benchmark: str, rows: Sequence[Row]) -> list[Table]:
    """A table for each reading of the labels."""
    tables: dict[str, dict[tuple[str, str | None, str], Row]] = {}
    for row in rows:
        reading, data_set, metric = split_metric(row["metric"])
        title = f"{benchmark} ({reading})" if reading else benchmark
        first = {**row, "data_set": AVERAGES.get(data_set, data_set), "by_metric": {}}
        line = tables.setdefault(title, {}).setdefault((row["scorer"], row["model"], data_set), first)
        line["by_metric"][metric] = row
    return [make_table(title, LABELLED_COLUMNS, [*lines.values()]) for title, lines in tables.items()]


def comma_separated(rows: Sequence[Row], comparisons: Sequence[Row]) -> str:
    """A line for each row of summary.json with its test against RAG-Zeval, if it has one; what is not known is empty.

    `against` names RAG-Zeval's judge; `difference` is it minus this row's scorer. Several files are set apart by
    spaces, of which their names have none.
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
