"""A figure: the distribution of a scorer's preferences for each label of the annotators."""

import textwrap
from typing import Any

import numpy as np

from eval_benchmarks.datasets.ragchecker_meta import KINDS, RagcheckerMeta
from eval_benchmarks.output.figure import style
from eval_benchmarks.trials import BenchResults, ScorerTrials
from rag_zeval.statistics.weighted_correlations import Floats
from rag_zeval.text import percent

LABELS = {-2: "#a50f15", -1: "#e6846e", 0: "#8a8f98", 1: "#6aaed6", 2: "#08519c"}  # answer 1 better ... answer 2
LEGEND = {-2: "−2: answer 1 much better", -1: "−1", 0: "0: equal", 1: "1", 2: "2: answer 2 much better"}
X = np.linspace(-2.6, 2.6, 261)
ROUNDING = 1e-9  # values that differ by no more than this are the same
COLUMNS = 3
TITLE_WIDTH = 44  # characters per line


def density_figure(results: BenchResults) -> Any | None:
    """Draw a panel for each scorer of the RAGChecker meta-evaluation. Return None if there is no such scorer.

    A panel has a kernel density for each label (Gaussian, Scott's bandwidth). It is of the score differences, second
    answer minus first, rescaled to the labels' range -2..2. Every annotator's label and every trial is a row of its
    own. If all differences for a label are the same, a line marks their place instead. A panel is empty if its scorer
    gave no scores.

    A triangle marks the mean of a label. If a scorer agrees with people, the triangles are in the order of the labels.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shown = [scorer for scorer in results.scorers if isinstance(scorer.benchmark, RagcheckerMeta)]
    if not shown:
        return None
    columns = min(COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.1 * lines + 0.6), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for ax, scorer in zip(panels, shown, strict=False):
        style(ax, "score difference, answer 2 minus answer 1")
        ax.set_ylabel("density")
        coverage = scorer.metrics[KINDS[0]].mean_coverage
        ax.set_title(f"{textwrap.fill(scorer.name, TITLE_WIDTH)}\ncoverage {percent(coverage)}", fontsize=9)
        deltas, labels = _deltas_and_labels(scorer)
        for label, colour in LABELS.items():
            of_label = deltas[labels == label]
            draw_density(ax, of_label, X, colour, shade=0.08, width=1.6)
            if len(of_label):
                ax.plot(of_label.mean(), 0, marker="^", color=colour, clip_on=False, zorder=5)
        ax.set_xlim(X[0], X[-1])
        ax.set_ylim(bottom=0)
    for ax in panels[len(shown) :]:
        ax.set_visible(False)
    marks = [Line2D([], [], color=colour, label=LEGEND[label]) for label, colour in LABELS.items()]
    figure.legend(
        handles=marks,
        loc="outside upper center",
        ncols=len(marks),
        frameon=False,
        fontsize=9,
        title="annotators' label",
    )
    return figure


def _deltas_and_labels(scorer: ScorerTrials) -> tuple[Floats, Floats]:
    """Return the differences and labels (rows,) of all annotators and trials, where there is a score."""
    assert isinstance(scorer.benchmark, RagcheckerMeta)
    labels = scorer.benchmark.labels
    deltas = np.array([np.repeat(scorer.benchmark.deltas(trial.scored), labels.shape[1]) for trial in scorer.trials])
    there = ~np.isnan(deltas)
    return deltas[there], np.broadcast_to(labels.ravel(), deltas.shape)[there]


def draw_density(
    ax: Any, values: Floats, x: Floats, colour: str, shade: float, label: str | None = None, width: float | None = None
) -> None:
    """Draw a kernel density at the positions `x`, with the area below it. Draw nothing if there are no values.

    Values that are all the same have no density, so a dotted line marks their place.
    shade: opacity of the area, in [0, 1]. label: in the legend. width: of the curve, in points; None for matplotlib's
    default.
    """
    from scipy.stats import gaussian_kde

    if len(values) and np.ptp(values) > ROUNDING:
        density = gaussian_kde(values)(x)
        ax.plot(x, density, color=colour, label=label, linewidth=width)
        ax.fill_between(x, density, color=colour, alpha=shade)
    elif len(values):
        ax.axvline(values[0], color=colour, linestyle=":", label=label)
