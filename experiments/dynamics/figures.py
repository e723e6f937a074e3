"""Draws the figures of training runs, and writes the page that shows them and says what to look for."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from eval_benchmarks.output.figure import COLOURS, png
from eval_benchmarks.output.page import embedded, render, write_or_remove
from experiments.dynamics.run import DrawnRun
from experiments.markdown import TEMPLATES
from experiments.training_curves import mark_switches, smoothed, step_axes, stretches, switches, widen
from experiments.training_runs import Which
from rag_zeval.files import write_text

STYLES = ("-", "--", ":")  # of a panel's lines, so that two equal lines can both be seen
MARKERS = ("o", "s", "^", "D", "v", "X")  # of the runs, for readers who cannot tell the colours apart
WIDTH, HEIGHT = 3.5, 2.9  # of a panel, in inches
LONGEST_NAME = 40  # the characters of a name that fit in a legend


@dataclass(frozen=True)
class Panel:
    """One vertical axis.

    lines: the names of its curves, with their labels. least: the minimum range of the axis.
    """

    label: str
    lines: dict[str, str]
    least: float


@dataclass(frozen=True)
class Figure:
    """A row of panels. look_for: what a reader should watch."""

    name: str
    title: str
    look_for: str
    panels: list[Panel]


FIGURES = [
    Figure(**{**figure, "panels": [Panel(**panel) for panel in figure["panels"]]})
    for figure in yaml.safe_load(Path(__file__).with_name("figures.yaml").read_text(encoding="utf-8"))
]


def write_page(runs: Sequence[DrawnRun], out_dir: Path, which: Which) -> Path:
    """Write OUT_DIR/dynamics.html, one page without external assets, and each figure as OUT_DIR/dynamics/NAME.png.

    Returns the page's path.
    """
    sections = []
    for figure in FIGURES:
        image = draw(figure, runs)
        write_or_remove(out_dir / "dynamics" / f"{figure.name}.png", image)
        shown = embedded(image) if image else None
        sections.append({"figure": figure, "image": shown, "absent": list(absent(figure, runs))})
    page = out_dir / "dynamics.html"
    values = {"runs": runs, "sections": sections, "window": window(runs), "which": which}
    write_text(page, render("dynamics.html", folder=TEMPLATES, **values))
    return page


def window(runs: Sequence[DrawnRun]) -> int:
    """Return the steps of the moving average: a 25th of the longest run's steps, but at least 5."""
    return max(5, max(run.last_step for run in runs) // 25)


def draw(figure: Figure, runs: Sequence[DrawnRun]) -> bytes | None:
    """Draw the panels for which some run has a line, as PNG. Return None if there is no such panel.

    Colours distinguish the lines if there is one run. They and markers distinguish the runs if there are several.
    """
    panels = [panel for panel in figure.panels if any(run.has(name) for run in runs for name in panel.lines)]
    if not panels:
        return None
    several, width = len(runs) > 1, window(runs)
    rows = -(-len(runs) // len(panels)) if several else 0  # of the legend that names the runs
    drawn, axes = step_axes(len(panels), WIDTH * len(panels), HEIGHT + 0.25 * rows)
    for ax, panel in zip(axes, panels, strict=True):
        for at, run in enumerate(runs):
            marked = slice(at, None, max(len(runs), 2 * width)) if several else slice(0)  # the points with a marker
            for line, name in enumerate(panel.lines):
                colour = COLOURS[at if several else line]
                look = {"color": colour, "linestyle": STYLES[line], "marker": MARKERS[at]}
                _plot(ax, run, name, width, look, marked, each_step=not several)
        _widen(ax, panel.least)
        for curves in {
            tuple(switches(run.curves["candidates"])): run.curves for run in runs if run.has("candidates")
        }.values():
            mark_switches(ax, curves)
        ax.set_ylabel(panel.label)
        if len(panel.lines) > 1:
            colours = ["black"] * len(STYLES) if several else COLOURS
            keys = _keys(panel.lines.values(), zip(colours, STYLES, [""] * len(STYLES), strict=False))
            _legend(ax, keys, 3, loc="lower left", bbox_to_anchor=(-0.1, 1.05))
    if several:
        names = [run.name if len(run.name) <= LONGEST_NAME else f"…{run.name[1 - LONGEST_NAME :]}" for run in runs]
        keys = _keys(names, zip(COLOURS, "-" * len(COLOURS), MARKERS, strict=True))
        _legend(drawn, keys, len(panels), loc="outside lower center")
    return png(drawn)


def absent(figure: Figure, runs: Sequence[DrawnRun]) -> Iterator[str]:
    """Yield a sentence for each line that is missing in the figure: why, and for which runs if not for all."""
    without: dict[str, list[str]] = {}
    for panel in figure.panels:
        for run in runs:
            for name, label in panel.lines.items():
                if not run.has(name):
                    what = f"{panel.label}, {label}" if len(panel.lines) > 1 else panel.label
                    without.setdefault(f"{what}: {run.missing[name]}", []).append(run.name)
    for sentence, names in without.items():
        yield sentence + (f" ({', '.join(names)})" if len(names) < len(runs) else "")


def _plot(ax: Any, run: DrawnRun, name: str, width: int, look: dict[str, str], marked: slice, each_step: bool) -> None:
    """Draw a curve as its moving average with a gap where K changes, or points joined by lines.

    marked: the steps of a curve that get a marker. each_step: also draw the curve's value at each step, faintly.
    """
    if name in run.points:
        ax.plot(*run.points[name], **look, linewidth=1.2, markersize=4)
    elif name in run.curves:
        x, smooth = np.arange(1, len(run.curves[name]) + 1), smoothed(run.curves, name, width)
        for part in stretches(run.curves):
            alone = np.count_nonzero(~np.isnan(smooth[part])) == 1  # one value makes no line
            ax.plot(x[part], smooth[part], **look, linewidth=1.8, markersize=4, markevery=None if alone else marked)
        if each_step:
            ax.plot(x, run.curves[name], color=look["color"], alpha=0.25, linewidth=0.8)


def _widen(ax: Any, least: float) -> None:
    """Widen the axis as `widen` does, but if no value is negative, show hardly anything below 0."""
    widen(ax, least)
    low, high = ax.get_ylim()
    if low < 0 <= ax.dataLim.ymin:
        ax.set_ylim(-0.03 * high, high)


def _keys(labels: Iterable[str], looks: Iterable[tuple[str, str, str]]) -> list[Any]:
    """Return the keys of a legend. looks: colour, style and marker of each."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], label=label, color=colour, ls=style, marker=marker, markersize=4)
        for label, (colour, style, marker) in zip(labels, looks, strict=False)
    ]


def _legend(where: Any, keys: Sequence[Any], columns: int, **place: Any) -> None:
    legend = where.legend(handles=keys, ncols=columns, fontsize=8, frameon=False, borderaxespad=0.2, **place)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a folder's name may hold a dollar sign
