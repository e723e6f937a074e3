"""The paper's tables with our numbers in them: Markdown, LaTeX, CSV, one page."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from eval_benchmarks.output.page import embedded, render
from eval_benchmarks.output.tables import NONE, Table, latex, markdown
from experiments.paper.cells import LEVEL, Cell, Line
from rag_zeval.files import write_text

TITLES = {
    1: "Table 1: WikiEval, how often the grounded answer scores higher; ties count as right, half, wrong",
    2: "Table 2: RAGChecker meta-evaluation, correlation with people's preferences",
    3: "Table 3: the accuracy reward, all pairs or the best only (RAGChecker meta-evaluation)",
    4: "Table 4: the curriculum, and a fixed number of candidates (RAGChecker meta-evaluation)",
    5: "Table 5: evidence, and a ranker without a trajectory (RAGChecker meta-evaluation)",
    8: "Table 8: metrics of ARES and TruLens on the RAGChecker meta-evaluation",
}
FIGURE_2 = "Figure 2: scores of faithful and unfaithful answers on WikiEval"
SHORT = {"pairwise_best": "best", "pairwise_middle": "middle", "pairwise_worst": "worst"}
CSV_HEADS = "table method model scorer metric value ci_low ci_high n trials significant printed open".split()


def write_tables(
    out: Path,
    tables: Sequence[Table],
    lines: Mapping[int, Sequence[Line]],
    notes: Sequence[str],
    figure_2: bytes | None,
) -> None:
    """Write index.html, tables.md, tables.tex and tables.csv into `out`; `lines` are those that are measured."""
    notes = [*notes, *_open(lines), f"†: better than every other method measured, paired tests, Holm's p < {LEVEL}"]
    write_text(out / "tables.md", markdown(tables, notes))
    write_text(out / "tables.tex", latex(tables, notes))
    write_text(out / "tables.csv", _comma_separated(lines))
    figures = {FIGURE_2: embedded(figure_2)} if figure_2 else {}
    write_text(out / "index.html", render("paper.html", tables=tables, notes=notes, figures=figures))


def measured_table(number: int, lines: Sequence[Line]) -> Table:
    """A table of measured cells, the paper's values beside them."""
    metrics = [cell.metric for cell in lines[0].cells]
    names = [SHORT.get(metric, metric) for metric in metrics]
    heads = ["method", "model", "scorer", *(head for name in names for head in (name, f"{name}, paper")), "n", "trials"]
    return Table(TITLES[number], heads, [_cells(line) for line in lines])


def _cells(line: Line) -> list[str]:
    printed, first = line.row.printed, line.cells[0]
    dagger = "†" if printed.significant else ""
    numbers = [text for cell in line.cells for text in (_shown(cell), f"{cell.printed:.3f}{dagger}")]
    counts = [NONE, NONE] if first.open else [str(first.n), str(first.trials)]
    return [printed.method, printed.model or NONE, line.scorer.scorer if line.scorer else NONE, *numbers, *counts]


def _shown(cell: Cell) -> str:
    if cell.value is None:
        return NONE
    limits = "" if cell.low is None or cell.high is None else f" [{cell.low:.3f}, {cell.high:.3f}]"
    return f"{cell.value:.3f}{limits}{'†' if cell.significant else ''}"


def _open(lines: Mapping[int, Sequence[Line]]) -> list[str]:
    """A line for each thing that rows need, with the rows."""
    needs: dict[str, list[str]] = {}
    for number, of_table in lines.items():
        for line in of_table:
            if why := line.cells[0].open:
                method, model = line.row.printed.method, line.row.printed.model
                needs.setdefault(why, []).append(f"{method}{f' by {model}' if model else ''} (Table {number})")
    return [f"open, {why}: {', '.join(rows)}" for why, rows in needs.items()]


def _comma_separated(lines: Mapping[int, Sequence[Line]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEADS)
    for number, of_table in lines.items():
        for line in of_table:
            printed, scorer = line.row.printed, line.scorer.scorer if line.scorer else None
            for cell in line.cells:
                known = (
                    cell.value,
                    cell.low,
                    cell.high,
                    cell.n,
                    cell.trials,
                    cell.significant,
                    cell.printed,
                    cell.open,
                )
                writer.writerow([number, printed.method, printed.model, scorer, cell.metric, *known])
    return text.getvalue()
