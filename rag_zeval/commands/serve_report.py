"""`rag-zeval serve-report`: the page of a result file for a browser on another machine, or behind a tunnel."""

from __future__ import annotations

import tempfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_zeval.commands.report import Results
from rag_zeval.ports import listen

Host = Annotated[
    str, typer.Option(help="The address to listen on: 127.0.0.1 for this machine only, 0.0.0.0 for every network.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on. 0 picks any free port.")]


def serve_report(results: Results, host: Host = "127.0.0.1", port: Port = 8080) -> None:
    """Serve the report of a result file to a browser, also on another machine, until Ctrl-C.

    The file is read once, at the start.
    """
    from rag_zeval.report.embedded import SHOWN
    from rag_zeval.report.html import write_report
    from rag_zeval.results import ResultFile

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        write_report(page, ResultFile(results, SHOWN))
        content = page.read_bytes()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path in ("/", "/report.html")
            body = content if found else b"not found; the report is at /"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8" if found else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = listen(host, port, Page)
    print(f"report: http://{host}:{server.server_port}/   (Ctrl-C stops it)", flush=True)
    with server:
        server.serve_forever()
