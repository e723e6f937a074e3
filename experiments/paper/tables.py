"""The paper's tables with our numbers in them: Markdown, LaTeX, CSV, one page."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from eval_benchmarks.output.cases import Case, case_page
from eval_benchmarks.output.page import embedded, render
from eval_benchmarks.output.table import NONE, Table, latex, markdown
from experiments.paper.cells import LEVEL, Cell, Line
from experiments.paper.methods import ARM_TABLES, PaperRow
from rag_zeval.files import write_bytes, write_text
from rag_zeval.judge.prompt import VARIANTS

TITLES = {
    1: "Table 1: WikiEval, how often the grounded answer scores higher; ties count as right, half, wrong",
    2: "Table 2: RAGChecker meta-evaluation, correlation with people's preferences",
    3: "Table 3: the accuracy reward, all pairs or the best only",
    4: "Table 4: the curriculum, and a fixed number of candidates",
    5: "Table 5: evidence, and a ranker without a trajectory",
    8: "Table 8: metrics of ARES and TruLens on the RAGChecker meta-evaluation",
}
CASES = "cases.html"
SHORT = {"pairwise_best": "best", "pairwise_middle": "middle", "pairwise_worst": "worst"}
CSV_HEADS = "table method model scorer metric value ci_low ci_high n trials significant printed open".split()


def write_page(
    out: Path,
    tables: Sequence[Table],
    lines: Mapping[int, Sequence[Line]],
    notes: Sequence[str],
    figures: Mapping[str, bytes],
    case: Case | None,
) -> None:
    """Write index.html, tables.md, tables.tex, tables.csv, the figures, and cases.html if there is one, into `out`.

    lines: of the tables that are measured; figures: PNG by title, `Figure N: ...`.
    """
    needs = {line.row: why for of_table in lines.values() for line in of_table if (why := line.cells[0].open)}
    notes = [*notes, *open_rows(needs), f"†: better than every other method measured, paired tests, Holm's p < {LEVEL}"]
    write_text(out / "tables.md", markdown(tables, notes))
    write_text(out / "tables.tex", latex(tables, notes))
    write_text(out / "tables.csv", _comma_separated(lines))
    for title, image in figures.items():
        write_bytes(out / f"{title.partition(':')[0].lower().replace(' ', '-')}.png", image)
    if case:
        write_text(out / CASES, case_page(case))
    shown = {title: embedded(image) for title, image in figures.items()}
    prompt = VARIANTS["paper"].template
    page = render("paper.html", tables=tables, notes=notes, figures=shown, prompt=prompt, cases=CASES if case else None)
    write_text(out / "index.html", page)


def measured_table(number: int, lines: Sequence[Line], intervals: bool = True) -> Table:
    """A table of measured cells, the paper's values beside them."""
    metrics = [cell.metric for cell in lines[0].cells]
    names = [SHORT.get(metric, metric) for metric in metrics]
    heads = ["method", "model", "scorer", *(head for name in names for head in (name, f"{name}, paper")), "n", "trials"]
    where = f" ({lines[0].row.benchmark})" if number in ARM_TABLES else ""
    return Table(TITLES[number] + where, heads, [_cells(line, intervals) for line in lines])


def _cells(line: Line, intervals: bool) -> list[str]:
    printed, first = line.row.printed, line.cells[0]
    dagger = "†" if printed.significant else ""
    numbers = [text for cell in line.cells for text in (_shown(cell, intervals), f"{cell.printed:.3f}{dagger}")]
    counts = [NONE, NONE] if first.open else [str(first.n), str(first.trials)]
    return [line.row.name, printed.model or NONE, line.scorer.scorer if line.scorer else NONE, *numbers, *counts]


def _shown(cell: Cell, intervals: bool) -> str:
    if cell.value is None:
        return NONE
    known = intervals and cell.low is not None and cell.high is not None
    limits = f" [{cell.low:.3f}, {cell.high:.3f}]" if known else ""
    return f"{cell.value:.3f}{limits}{'†' if cell.significant else ''}"


def open_rows(needs: Mapping[PaperRow, str]) -> list[str]:
    """A line for each thing that rows need, with the rows."""
    of_reason: dict[str, list[str]] = {}
    for row, why in needs.items():
        by = f" by {row.model}" if row.model else ""
        of_reason.setdefault(why, []).append(f"{row.name}{by} (Table {row.printed.table})")
    return [f"open, {why}: {', '.join(rows)}" for why, rows in of_reason.items()]


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
                writer.writerow([number, line.row.name, printed.model, scorer, cell.metric, *known])
    return text.getvalue()
