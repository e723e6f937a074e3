"""`rag-zeval report`: the page and the figures of a result file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.errors import InputError

Results = Annotated[Path, typer.Argument(help="The result file that `rag-zeval evaluate` wrote.")]
HtmlPath = Annotated[Path | None, typer.Option(help="Write the report to this file. It works offline in any browser.")]
Figures = Annotated[Path | None, typer.Option(help="Write figures as PNG files into this folder. Needs matplotlib.")]


def report(results: Results, html: HtmlPath = None, figures: Figures = None) -> None:
    """Turn a result file into one HTML page that shows every claim, or into figures.

    Give --html, --figures or both.
    """
    from rag_zeval.commands.arguments import check_files
    from rag_zeval.report.embedded import SHOWN
    from rag_zeval.results import ResultFile

    if html is None and figures is None:
        raise InputError("report has nothing to write: add --html FILE or --figures FOLDER")
    check_files([("INPUT", results), ("--html", html)])
    rows = ResultFile(results, SHOWN)
    if html is not None:
        from rag_zeval.report.html import write_report

        write_report(html, rows)
        print(f"report: {html}")
    if figures is not None:
        from rag_zeval.report.charts import write_charts

        for path in write_charts(figures, rows):
            print(f"figure: {path}")
