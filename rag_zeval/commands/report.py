"""`rag-zeval report`: the page and the figures of a result file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.errors import InputError

Results = Annotated[Path, typer.Argument(help="Result rows, as `rag-zeval evaluate` writes them.")]
HtmlPath = Annotated[Path | None, typer.Option(help="Write the page here: one file, to be opened in a browser.")]
Figures = Annotated[Path | None, typer.Option(help="Write figures as PNG into this folder (needs matplotlib).")]


def report(results: Results, html: HtmlPath = None, figures: Figures = None) -> None:
    """Show RESULTS: a page with every case, which can be searched and sent around, or figures for a paper."""
    from rag_zeval.commands.arguments import check_files
    from rag_zeval.report.embedded import SHOWN
    from rag_zeval.results import ResultFile

    if html is None and figures is None:
        raise InputError("nothing to write: add --html FILE or --figures FOLDER")
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
