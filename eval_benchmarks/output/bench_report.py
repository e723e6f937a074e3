"""The report of a benchmark run, made once from its results: for the terminal, and for the files of its folder."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval_benchmarks.output.cases import Case, case_page, find_case
from eval_benchmarks.output.columns import bench_tables, comma_separated
from eval_benchmarks.output.comparisons import comparison_rows, find_ours
from eval_benchmarks.output.densities import density_figure
from eval_benchmarks.output.figure import png
from eval_benchmarks.output.page import embedded, render, write_or_remove
from eval_benchmarks.output.summary import summary_rows
from eval_benchmarks.output.table import Table, latex, markdown
from eval_benchmarks.trials import BenchResults
from rag_zeval.files import Row, write_json, write_text


@dataclass(frozen=True)
class BenchReport:
    """Tables and notes, and the rows that they were made from.

    densities: the figure as PNG; None if it could not be drawn. case: the case study; None if no example is suitable.
    """

    rows: list[Row]
    comparisons: list[Row]
    tables: list[Table]
    notes: list[str]
    densities: bytes | None
    case: Case | None


def make_report(results: BenchResults, notes: Sequence[str]) -> BenchReport:
    """Make the report of these results.

    Its notes are first `notes`, then those about the benchmarks. Then there is one for each part that could not be
    made.
    """
    rows, comparisons = summary_rows(results), comparison_rows(results)
    figure, case = density_figure(results), find_case(results.scorers)
    notes = [*notes, *_benchmark_notes(results)]
    if figure is None:
        notes.append("densities.png is not drawn: it needs scores of the RAGChecker meta-evaluation")
    if case is None:
        notes.append("cases.html is not written: it needs an example that rag_zeval judged by two models")
    image = png(figure) if figure else None
    return BenchReport(rows, comparisons, bench_tables(rows, comparisons), notes, image, case)


def _benchmark_notes(results: BenchResults) -> Iterator[str]:
    for name, scorers in results.by_benchmark.items():
        if find_ours(scorers) is None:
            yield f"{name}: no tests against RAG-Zeval, because it has no scores here"
    for name, (first, *_) in results.by_benchmark.items():
        yield from first.benchmark.about
        if first.benchmark.no_human:
            yield f"{name}: no row for how well annotators agree with each other: {first.benchmark.no_human}"


def write_report(report: BenchReport, out: Path) -> None:
    """Write summary.json, comparisons.json, tables.{md,tex,csv,html}, densities.png and cases.html into `out`."""
    tables, notes, case = report.tables, report.notes, report.case
    densities = embedded(report.densities) if report.densities else None
    page = render("tables.html", name=out.name, tables=tables, notes=notes, densities=densities, case=case)
    write_json(out / "summary.json", report.rows)
    write_json(out / "comparisons.json", report.comparisons)
    write_text(out / "tables.md", markdown(tables, notes))
    write_text(out / "tables.tex", latex(tables, notes))
    write_text(out / "tables.csv", comma_separated(report.rows, report.comparisons))
    write_text(out / "tables.html", page)
    write_or_remove(out / "densities.png", report.densities)
    write_or_remove(out / "cases.html", case_page(case).encode() if case else None)
