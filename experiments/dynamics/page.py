"""dynamics.html: one page without outside assets, and its figures as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eval_benchmarks.output.page import embedded, render
from experiments.dynamics.figures import FIGURES, absent, draw, window
from experiments.dynamics.run import Run
from rag_zeval.files import Row, write_bytes, write_text


def write_page(runs: Sequence[Run], out_dir: Path, which: str) -> Path:
    """Write OUT_DIR/dynamics.html, and each figure as OUT_DIR/dynamics/NAME.png; the page's path."""
    sections = []
    for figure in FIGURES:
        section: Row = {"figure": figure, "image": None, "absent": list(absent(figure, runs))}
        image, path = draw(figure, runs), out_dir / "dynamics" / f"{figure.name}.png"
        if image is None:
            path.unlink(missing_ok=True)  # of a page that was made before
        else:
            write_bytes(path, image)
            section["image"] = embedded(image)
        sections.append(section)
    page = out_dir / "dynamics.html"
    write_text(page, render("dynamics.html", runs=runs, sections=sections, window=window(runs), which=which))
    return page
