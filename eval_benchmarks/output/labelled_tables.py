"""Tables of labelled claims and answers: a line for each scorer and data set, a column for each metric.

The other tables have a line for each metric; here it would be dozens for each scorer.
"""

from __future__ import annotations

from collections.abc import Sequence

from eval_benchmarks.datasets.labelled.metrics import AUROC, BY_THRESHOLD, MACRO, OF_SPANS, POOLED, THRESHOLD, TUNED
from eval_benchmarks.output.table import NONE, Table
from rag_zeval.files import Row

AT = f"at {THRESHOLD:g}".replace("0.", ".")
HEADS = {  # metric -> head of its column
    "balanced_accuracy": f"balanced acc. {AT}",
    "balanced_accuracy" + TUNED: "balanced acc. tuned",
    AUROC: "AUROC",
    "f1_unsupported": f"F1 unsupp. {AT}",
    "f1_unsupported" + TUNED: "F1 unsupp. tuned",
    "span_f1": "span F1",
    "span_precision": "precision",
    "span_recall": "recall",
}
assert {*HEADS} == {*BY_THRESHOLD, *(name + TUNED for name in BY_THRESHOLD), AUROC, *OF_SPANS}
PLACE_HEADS = ("scorer", "model", "data set")
SIZE_HEADS = ("n", "coverage")
AVERAGES = {MACRO: "macro average", POOLED: "all together"}


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
    return all(split_metric(row["metric"])[2] in HEADS for row in rows)


def of_averages(rows: Sequence[Row]) -> list[Row]:
    """The rows of averages over data sets, or of the set where it has one: without those of a single data set."""
    return [row for row in rows if split_metric(row["metric"])[1] in ("", *AVERAGES)]


def labelled_tables(benchmark: str, rows: Sequence[Row]) -> list[Table]:
    """A table for each reading of the labels."""
    readings: dict[str, list[Row]] = {}
    for row in rows:
        readings.setdefault(split_metric(row["metric"])[0], []).append(row)
    return [
        Table(
            f"{benchmark} ({reading})" if reading else benchmark,
            [*PLACE_HEADS, *HEADS.values(), *SIZE_HEADS],
            _lines(own),
        )
        for reading, own in readings.items()
    ]


def _lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    lines: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        _, data_set, metric = split_metric(row["metric"])
        place = (row["scorer"], row["model"] or NONE, AVERAGES.get(data_set, data_set) or NONE)
        lines.setdefault(place, {})[metric] = row
    return [
        (*place, *(_cell(by_metric.get(metric)) for metric in HEADS), *_size(next(iter(by_metric.values()))))
        for place, by_metric in lines.items()
    ]


def _cell(row: Row | None) -> str:
    if row is None:
        return NONE
    if row["value"] is None:
        return NONE if row["published"] is None else f"{row['published']:.3f}"
    return f"{row['value']:.3f}" + ("" if row["ci_low"] is None else f" [{row['ci_low']:.3f}, {row['ci_high']:.3f}]")


def _size(row: Row) -> tuple[str, str]:
    known = row["n"] is not None
    return (str(row["n"]), f"{row['coverage']:.1%}") if known else (NONE, NONE)
