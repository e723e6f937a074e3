"""Figure 2 as the paper has it: densities of scores on WikiEval, faithful answers against unfaithful ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eval_benchmarks.datasets.wikieval import Wikieval
from eval_benchmarks.output.curves import COLOURS, png, style
from eval_benchmarks.trials import ScorerTrials
from experiments.paper.cells import Line
from experiments.paper.methods import NEGATIVE

PANELS = (("TruLens", "qwen-72b"), ("RAGAS", "qwen-72b"), ("RAG-Checker", "qwen-72b"), ("RAG-Zeval", "qwen-7b"))
X = np.linspace(-0.1, 1.1, 241)
ALIKE = 1e-9  # scores closer than this are the same


def score_densities(lines: Sequence[Line]) -> bytes | None:
    """PNG: a panel for each of the paper's four methods that was measured, of the rows of Table 1; None without any.

    A kernel density (Gaussian, Scott's bandwidth) of all trials' scores; scores that are all the same are drawn as a
    line at their place.
    """
    from matplotlib.figure import Figure

    measured = {
        (line.row.printed.method, line.row.model): line.scorer
        for line in lines
        if line.scorer and not line.row.original
    }
    panels = [(name, scorer) for name in PANELS if (scorer := measured.get(name)) is not None]
    if not panels:
        return None
    figure = Figure(figsize=(3.4 * len(panels), 3.2), layout="constrained")
    for ax, ((method, model), scorer) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        style(ax, "score")
        ax.set_title(f"{method}, {model}", fontsize=9)
        for scores, colour, label in zip(_scores(scorer), COLOURS, ("faithful", "unfaithful"), strict=False):
            _draw(ax, scores, colour, label)
        ax.set_xlim(X[0], X[-1])
        ax.set_ylim(bottom=0)
        ax.legend(fontsize=8, frameon=False)
    return png(figure)


def _scores(scorer: ScorerTrials) -> Any:
    benchmark = scorer.benchmark
    assert isinstance(benchmark, Wikieval)
    pairs = [pair for trial in scorer.trials for pair in benchmark.scores(trial.scored, NEGATIVE)]
    return np.array(pairs, dtype=float).reshape(-1, 2).T


def _draw(ax: Any, scores: Any, colour: str, label: str) -> None:
    from scipy.stats import gaussian_kde

    if len(scores) and np.ptp(scores) > ALIKE:
        density = gaussian_kde(scores)(X)
        ax.plot(X, density, color=colour, label=label)
        ax.fill_between(X, density, color=colour, alpha=0.12)
    elif len(scores):
        ax.axvline(scores[0], color=colour, linestyle=":", label=label)
