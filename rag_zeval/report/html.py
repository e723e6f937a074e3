"""The report page: one HTML file that opens anywhere, without a server, a network or a library.

Figures are at the top, and every case is below.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rag_zeval.files import Row, write_chunks
from rag_zeval.report.embedded import embedded_rows
from rag_zeval.report.scores import BINS, ScoreTable
from rag_zeval.scoring.summary import frequent_statuses
from rag_zeval.templates import TEMPLATES, templates

MEANINGS = {  # of the metrics that `evaluate` computes by default
    "rag_zeval@contexts": "faithfulness: the share of an answer's claims that the retrieved contexts support",
    "rag_zeval@truth": "correctness: the share of an answer's claims that the ground truth supports",
    "rag_zeval": "the share of an answer's claims that the reference supports",
}


class CorrectedTable(NamedTuple):
    """A table of the mean scores of a metric, corrected by human labels, with notes to print below it."""

    metric: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]


def write_report(path: str | Path, rows: Iterable[Row], corrected: Sequence[CorrectedTable] = ()) -> None:
    """Write the page of result rows (see `rag_zeval.results`), of any number of metrics, systems and trials.

    It iterates over `rows` three times, a row at a time, so `rows` must not be an iterator. The file is replaced in one
    step. All text of the rows is escaped. The page runs no script but its own, and loads nothing.
    """
    from markupsafe import Markup

    table = ScoreTable(rows)
    names = ("report.css", "report.js", "case.js")
    style, *scripts = ((TEMPLATES / name).read_text(encoding="utf-8") for name in names)
    script = "\n".join(scripts)
    template = templates(TEMPLATES, trim_blocks=True).get_template("report.html")
    pieces = template.generate(
        table=table,
        corrected=corrected,
        bins=BINS,
        meanings=MEANINGS,
        statuses=frequent_statuses(table.summary),
        style=Markup(style),
        style_hash=_csp_hash(style),
        script=Markup(script),
        script_hash=_csp_hash(script),
        data=map(Markup, embedded_rows(rows, table)),
    )
    write_chunks(Path(path), pieces)


def _csp_hash(text: str) -> str:
    """Return the hash by which a Content-Security-Policy allows an element of the page with this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
