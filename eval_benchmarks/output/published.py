"""The numbers of `published.yaml`: the paper's tables, and published values for our scorers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rag_zeval.yaml_file import read_yaml

IN_PRINT = read_yaml(Path(__file__).with_name("published.yaml"))
PRINTED = IN_PRINT["tables"]
SETTINGS, SFT_ROWS = IN_PRINT["settings"], IN_PRINT["sft_rows"]
SIGNIFICANT = "†"


@dataclass(frozen=True, eq=False)
class PrintedRow:
    """A row of one of the paper's tables.

    model: None for a method without one. values: by metric. significant: whether the row is marked with †.
    """

    table: int
    method: str
    model: str | None
    values: Mapping[str, float]
    significant: bool


def printed_rows(table: int) -> Iterator[PrintedRow]:
    """Yield the rows of one of the tables 1 to 5 and 8, in the paper's order."""
    for line in PRINTED[table]["rows"].splitlines():
        method, model, cells = (cell.strip() for cell in line.split("|"))
        numbers = [float(cell.rstrip(SIGNIFICANT)) for cell in cells.split()]
        values = dict(zip(PRINTED[table]["metrics"], numbers, strict=True))
        yield PrintedRow(table, method, None if model == "-" else model, values, SIGNIFICANT in cells)


PUBLISHED: dict[tuple[str, str, str], float] = {  # by benchmark, scorer and metric
    ("ragchecker_meta", scorer, metric): value
    for scorer, values in IN_PRINT["ragchecker"].items()
    for metric, value in values.items()
} | {
    (benchmark, scorers[row.method], prefix + metric): value
    for table, scorers in IN_PRINT["beside"].items()
    for benchmark, prefix in [("wikieval", "poor_answer/") if table == 1 else ("ragchecker_meta", "")]
    for row in printed_rows(table)
    if row.method in scorers
    for metric, value in row.values.items()
}
