"""Writes the HTML page of a dashboard: one file without external assets, a table with a block for each slice."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_zeval.files import write_chunks
from rag_zeval.golden.dashboard import Dashboard
from rag_zeval.templates import TEMPLATES, templates

WIDTH, HEIGHT, MARGIN = 120, 36, 5  # of the drawing of a trend, in pixels
ROUNDING = 1e-9  # values closer than this are drawn as equal


def write_dashboard(path: Path, dashboard: Dashboard) -> None:
    """Write the page of a dashboard. All text in it is escaped."""
    page = (
        templates(TEMPLATES, trim_blocks=True, lstrip_blocks=True)
        .get_template("dashboard.html")
        .generate(
            dashboard=dashboard,
            size=(WIDTH, HEIGHT),
            trends={
                (tag, at): _trend(dashboard, tag, at) for tag in dashboard.cases for at in range(len(dashboard.columns))
            },
        )
    )
    write_chunks(path, page)


def _trend(dashboard: Dashboard, tag: str, column: int) -> Mapping[str, Any]:
    """Draw a column's values over the versions of a slice.

    line: an SVG path with a gap where a value is missing. points: (x, y, moved) of each value. words: the values in
    words. The axis is the same for all slices: from the column's smallest value to its largest.
    """
    known = [cell.value.value for (_, _, at), cell in dashboard.cells.items() if at == column and cell.value]
    low, high = min(known, default=0.0), max(known, default=0.0)
    pen, line, points, words = "M", "", [], []
    for version, name in enumerate(dashboard.versions):
        cell = dashboard.cells.get((tag, version, column))
        if cell is None or cell.value is None:
            pen = "M"
            words.append(f"{name} {dashboard.missing(tag, version, column)}")
            continue
        share = (cell.value.value - low) / (high - low) if high - low > ROUNDING else 0.5
        x = MARGIN + (WIDTH - 2 * MARGIN) * version / max(1, len(dashboard.versions) - 1)
        y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * share
        line, pen = f"{line}{pen}{x:.1f} {y:.1f}", "L"
        points.append((round(x, 1), round(y, 1), cell.moved))
        words.append(f"{name} {cell.value.value:.{dashboard.columns[column].digits}f} {cell.moved}".strip())
    return {"line": line, "points": points, "words": ", ".join(words)}
