"""The files that a benchmark run makes of its trials: rows, tables, figure and case study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eval_benchmarks.output.cases import case_page, find_case
from eval_benchmarks.output.comparisons import comparison_rows
from eval_benchmarks.output.curves import png
from eval_benchmarks.output.densities import density_figure
from eval_benchmarks.output.page import embedded, render
from eval_benchmarks.output.summary import summary_rows
from eval_benchmarks.output.table import Table
from eval_benchmarks.output.tables import comma_separated, latex, markdown, tables
from eval_benchmarks.trials import Trial, by_benchmark, group_trials
from rag_zeval.files import write_bytes, write_json, write_text


def write_run_files(
    out: Path, trials: Sequence[Trial], notes: Sequence[str], draws: int, seed: int
) -> tuple[list[Table], list[str]]:
    """Write summary.json, comparisons.json, tables.{md,tex,csv,html}, densities.png and cases.html into `out`.

    Returns the tables, and the notes with a line added for everything that could not be made.
    """
    scorers = group_trials(trials)
    rows = summary_rows(scorers, draws, seed)
    comparisons, untested = comparison_rows(scorers, draws, seed)
    figure, case = density_figure(scorers), find_case(scorers)
    image = png(figure) if figure else None
    notes = [*notes, *untested]
    for name, (first, *_) in by_benchmark(scorers).items():
        notes += first.benchmark.about
        if first.benchmark.no_ceiling:
            notes.append(f"{name}: no row for how well annotators agree with each other: {first.benchmark.no_ceiling}")
    if image is None:
        notes.append("densities.png is not drawn: it needs scores of the RAGChecker meta-evaluation")
    if case is None:
        notes.append("cases.html is not written: it needs an example that rag_zeval judged by two models")
    sections = tables(rows, comparisons)
    densities = embedded(image) if image else None
    write_json(out / "summary.json", rows)
    write_json(out / "comparisons.json", comparisons)
    write_text(out / "tables.md", markdown(sections, notes))
    write_text(out / "tables.tex", latex(sections, notes))
    write_text(out / "tables.csv", comma_separated(rows, comparisons))
    page = render("tables.html", name=out.name, tables=sections, notes=notes, densities=densities, case=case)
    write_text(out / "tables.html", page)
    for name, content in {"densities.png": image, "cases.html": case_page(case).encode() if case else None}.items():
        (out / name).unlink(missing_ok=True)  # of an earlier run, which had more
        if content is not None:
            write_bytes(out / name, content)
    return sections, notes
