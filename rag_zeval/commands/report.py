"""The commands that show result files as a page: `report`, `serve-report`, and `dashboard` for many versions."""

import tempfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.commands.arguments import ResultPath, check_files
from rag_zeval.errors import InputError
from rag_zeval.ports import listen, send


def report(
    results: ResultPath,
    html: Annotated[
        Path | None, typer.Option(help="Write the report to this file. It works offline in any browser.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Write figures as PNG files into this folder. Needs matplotlib.")
    ] = None,
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="SHEET",
            help="A labelled sheet of `rag-zeval sample`: the page also shows the scores that people would give. "
            "Repeat the option for a sheet of another metric.",
        ),
    ] = None,
) -> None:
    """Turn a result file into one HTML page that shows every claim, or into figures.

    Give --html, --figures or both.
    """
    from rag_zeval.audit.corrected_table import HEADS, corrected_scores
    from rag_zeval.audit.sheet import plan_path, read_plan
    from rag_zeval.report.charts import CHARTS, write_charts
    from rag_zeval.report.html import CorrectedTable, write_report
    from rag_zeval.results import SHOWN, ResultFile, over_trials

    if html is None and figures is None:
        raise InputError("report has nothing to write: add --html FILE or --figures FOLDER")
    if labels and html is None:
        raise InputError("--labels is for the page: add --html FILE")
    drawn = [figures / f"{name}.png" for name in CHARTS] if figures is not None else []
    sheets = [path for sheet in labels or () for path in (sheet, plan_path(sheet))]
    check_files([results, *sheets], ("--html", html), *(("--figures", path) for path in drawn))
    rows = ResultFile(results, SHOWN)
    judged = over_trials(rows) if labels else []
    corrected = []
    for sheet in labels or ():
        means = corrected_scores(judged, sheet)
        corrected.append(CorrectedTable(read_plan(sheet).metric, HEADS, [one.cells for one in means], means[0].notes))
    if html is not None:
        write_report(html, rows, corrected)
        print(f"report: {html}")
    if figures is not None:
        for path in write_charts(figures, rows):
            print(f"figure: {path}")


def serve_report(
    results: ResultPath,
    host: Annotated[
        str, typer.Option(help="The address to listen on: 127.0.0.1 for this machine only, 0.0.0.0 for every network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on. 0 picks any free port.")] = 8080,
) -> None:
    """Serve the report of a result file to browsers on this machine, until Ctrl-C.

    With --host 0.0.0.0, other machines can open it, too. The file is read once, at the start.
    """
    from rag_zeval.report.html import write_report
    from rag_zeval.results import SHOWN, ResultFile

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        write_report(page, ResultFile(results, SHOWN))
        content = page.read_bytes()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path in ("/", "/report.html"):
            send(handler, 200, content, {"Content-Type": "text/html; charset=utf-8"})
        else:
            send(handler, 404, b"not found; the report is at /", {"Content-Type": "text/plain"})

    server = listen(host, port, GET=answer)
    print(f"report: http://{host}:{server.server_port}/   (Ctrl-C stops it)", flush=True)
    with server:
        server.serve_forever()


def dashboard(
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Result files, the oldest version first. Write FILE#SYSTEM if a file holds several systems.",
        ),
    ],
    html: Annotated[Path | None, typer.Option(help="Also write a page with trends and intervals.")] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="A metric, or a measure such as recall@5, for a column; repeat the option for several. "
            "Default: recall@5, faithfulness, relevance, correctness, latency_p95 and cost_per_1000."
        ),
    ] = None,
) -> None:
    """Show many versions of a system beside each other: their scores in each slice, and how they moved.

    If a version lacks a value, the table or a line below it says why. The words "better" and "worse" mark a change
    since the previous version that is not noise. The command is free and needs no network.
    """
    from rag_zeval.decisions.sides import files_of
    from rag_zeval.golden.dashboard import build_dashboard, print_dashboard
    from rag_zeval.golden.dashboard_page import write_dashboard

    check_files(files_of(results), ("--html", html))
    found = build_dashboard(results, metric or ())
    if html is not None:  # before printing, because the reader of the output may leave early
        write_dashboard(html, found)
    print_dashboard(found)
    if html is not None:
        print(f"page: {html}")
