"""The figures of a report as PNG, for a paper: means with intervals, histograms, slices."""

import io
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rag_zeval.errors import needed
from rag_zeval.files import Row, write_bytes
from rag_zeval.report.scores import BINS, Scale, ScoreTable
from rag_zeval.scoring.summary import Column
from rag_zeval.text import one_line

DPI = 200
OTHER_FONTS = (  # for letters that matplotlib's own font lacks, if they are installed
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "PingFang SC",
    "Hiragino Sans GB", "Arial Unicode MS", "Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji",
)  # fmt: skip
WIDTH, LINE = 4.2, 0.32  # inches: width of a panel whose labels are SHORT_LABEL characters long, height of a line in it
CHARACTER, SHORT_LABEL = 0.07, 20  # inches that each further character of a label adds
MOST_BESIDE = 3  # panels in a row
LONGEST_NAME = 40  # characters
SLICES = 30  # most slices that are drawn, the worst ones
COLOURS = ("#0b5cad", "#d9730d", "#57606a", "#7a5195", "#3f8f4f", "#b23a48")  # of systems; their shapes differ as well
SHAPES = "osD^vPX"  # their number and that of the colours share no factor, so 42 systems look different
ESTIMATE = "score: mean and 95% interval over cases"
CHARTS = ("means", "histograms", "slices")  # and the names of their files


def write_charts(folder: Path, rows: Iterable[Row]) -> list[Path]:
    """Write means.png, histograms.png and, if there are several slices, slices.png; return their paths.

    Raises InputError if matplotlib is not installed.
    """
    with needed("matplotlib", "--figures"):
        from matplotlib import font_manager
        from matplotlib.figure import Figure
        from matplotlib.text import Text

    table = ScoreTable(rows)
    draws: tuple[Callable[[Figure, ScoreTable], None], ...] = (_means, _histograms, _slices)
    installed = {font.name for font in font_manager.fontManager.ttflist}
    fonts = ["sans-serif", *(name for name in OTHER_FONTS if name in installed)]
    paths = []
    for name, draw in zip(CHARTS, draws if len(table.slices) > 1 else draws[:-1], strict=False):
        figure = Figure(layout="constrained")
        draw(figure, table)
        texts: list[Any] = figure.findobj(Text)
        for text in texts:
            text.set_parse_math(False)  # a system's name may look like a formula
            text.set_fontfamily(fonts)
        image = io.BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # it is drawn as a box
            figure.savefig(image, format="png", dpi=DPI, metadata={"Software": None})
        paths.append(folder / f"{name}.png")
        write_bytes(paths[-1], image.getvalue())
    return paths


def _means(figure: Any, table: ScoreTable) -> None:
    """Draw a panel for each metric, with a line for each system."""
    by_metric = [[table.column(metric, system) for system in table.systems] for metric in table.metrics]
    labels = [
        [f"{_short(name)}\n{_coverage(of)}" for name, of in zip(table.systems, columns, strict=True)]
        for columns in by_metric
    ]
    panels = _labelled(figure, labels, LINE * len(table.systems) + 1.1)
    for ax, metric, columns, of_metric in zip(panels, table.metrics, by_metric, labels, strict=True):
        _estimates(ax, columns, COLOURS[0], SHAPES[0], 0.0)
        _lines(ax, metric, of_metric, table.scales[metric])
    figure.supxlabel(ESTIMATE, fontsize=8)


def _histograms(figure: Any, table: ScoreTable) -> None:
    """Draw a panel for each system, in new rows for each metric."""
    columns = min(MOST_BESIDE, len(table.systems))
    rows = math.ceil(len(table.systems) / columns)
    panels = _panels(figure, len(table.metrics) * rows, columns, 2.1, WIDTH).reshape(len(table.metrics), -1)
    for of_metric, metric in zip(panels, table.metrics, strict=True):
        for ax in of_metric[len(table.systems) :]:
            ax.remove()
        scale = table.scales[metric]
        width = (scale.high - scale.low) / BINS
        for ax, system in zip(of_metric, table.systems, strict=False):
            of = table.column(metric, system)
            counts = scale.histogram(of.scores if of else ())
            starts = [scale.low + at * width for at in range(BINS)]
            ax.bar(starts, counts, width=0.92 * width, align="edge", color=COLOURS[0])
            if of and of.mean is not None:
                ax.axvline(of.mean, color=COLOURS[1], linestyle="--")
            ax.set_xlim(scale.low, scale.high)
            ax.set_title(f"{_short(metric)}\n{_short(system)}\n{_coverage(of)}", fontsize=8)
            ax.set_ylabel("answers")
            ax.set_ylim(0, 1.05 * max(1, *counts))
            ax.yaxis.get_major_locator().set_params(integer=True)
    figure.supxlabel("score; the dashed line is the mean", fontsize=8)


def _slices(figure: Any, table: ScoreTable) -> None:
    """Draw a panel for each metric, with a line for each slice, the worst on top. A line has a point per system."""
    by_metric = [table.worst_slices(metric)[:SLICES] for metric in table.metrics]
    height = LINE * max(map(len, by_metric)) * max(1.0, len(table.systems) / 2) + 1.2
    labels = [[f"{_short(tag)} (n = {_counts(columns)})" for tag, columns in slices] for slices in by_metric]
    panels = _labelled(figure, labels, height)
    for ax, metric, slices, of_metric in zip(panels, table.metrics, by_metric, labels, strict=True):
        for at, system in enumerate(table.systems):
            offset = (at - (len(table.systems) - 1) / 2) * 0.7 / len(table.systems)
            colour, shape = COLOURS[at % len(COLOURS)], SHAPES[at % len(SHAPES)]
            _estimates(ax, [columns[at] for _, columns in slices], colour, shape, offset)
            name = " " * system.startswith("_") + _short(system)  # matplotlib leaves labels with "_" out of legends
            ax.plot([], [], color=colour, marker=shape, linestyle="", label=name)
        _lines(ax, metric, of_metric, table.scales[metric])
        if rest := len(table.slices) - len(slices):
            ax.set_xlabel(f"{rest} better slices are not shown", fontsize=8)
    entries = panels[0].get_legend_handles_labels()
    figure.legend(*entries, loc="outside lower center", ncols=3, fontsize=8, title=ESTIMATE, title_fontsize=8)


def _labelled(figure: Any, labels: Sequence[Sequence[str]], height: float) -> Any:
    """Return a panel for each metric, so wide that the labels of its lines do not squeeze what is drawn."""
    longest = max(len(line) for of_panel in labels for label in of_panel for line in label.split("\n"))
    columns = min(MOST_BESIDE, len(labels))
    width = WIDTH + CHARACTER * max(0, longest - SHORT_LABEL)
    panels = _panels(figure, math.ceil(len(labels) / columns), columns, height, width).flat
    for ax in panels[len(labels) :]:
        ax.remove()
    return panels[: len(labels)]


def _panels(figure: Any, rows: int, columns: int, height: float, width: float) -> Any:
    figure.set_size_inches(width * columns, height * rows)
    panels = figure.subplots(rows, columns, squeeze=False)
    for ax in panels.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        ax.yaxis.label.set_size(8)
    return panels


def _estimates(ax: Any, columns: Sequence[Column | None], colour: str, shape: str, offset: float) -> None:
    """Draw means with their intervals, from top to bottom."""
    for at, of in enumerate(columns):
        if of and of.mean is not None:
            ax.plot(of.ci or [of.mean] * 2, [at + offset] * 2, color=colour, linewidth=1.6)
            ax.plot(of.mean, at + offset, color=colour, marker=shape, markersize=4.5)


def _lines(ax: Any, title: str, labels: Sequence[str], scale: Scale) -> None:
    ax.set_title(_short(title) + (", lower is better" if scale.lower_is_better else ""), fontsize=9)
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.set_xlim(scale.low - 0.02 * (scale.high - scale.low), scale.high + 0.02 * (scale.high - scale.low))
    ax.grid(axis="x", linewidth=0.5, alpha=0.5)


def _counts(columns: Sequence[Column | None]) -> str:
    """Return the systems' numbers of scores, as a range if they differ."""
    counts = [of.scored for of in columns if of] or [0]
    return " to ".join(str(count) for count in dict.fromkeys((min(counts), max(counts))))


def _coverage(of: Column | None) -> str:
    return f"{of.scored} of {of.answers} scored" if of else "not asked"


def _short(name: str) -> str:
    name = one_line(name)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
