"""Figures 2 to 4, 6 and 7 of what was measured and trained here."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eval_benchmarks.datasets.wikieval import Wikieval
from eval_benchmarks.output.cases import Case, find_case
from eval_benchmarks.output.curves import COLOURS, png, style
from eval_benchmarks.output.densities import draw_density
from eval_benchmarks.trials import ScorerTrials
from experiments.arm_report import grounding_figure, reward_figure
from experiments.paper.cells import Line
from experiments.paper.methods import NEGATIVE, TRAINED
from experiments.paper.trained_judges import TrainedJudges

FIGURE_2 = "Figure 2: scores of faithful and unfaithful answers on WikiEval"
FIGURE_3 = "Figure 3: evidence grounding and claims per answer of the training rollouts"
FIGURE_4 = "Figure 4: reward of the training rollouts; compare curves only where the number of candidates is the same"
CURRICULA = (TRAINED, "static-3", "static-4")  # of Figure 4
SMOOTHING = 5  # steps of the moving average
PANELS = (("TruLens", "qwen-72b"), ("RAGAS", "qwen-72b"), ("RAG-Checker", "qwen-72b"), ("RAG-Zeval", "qwen-7b"))
X = np.linspace(-0.1, 1.1, 241)
JUDGES = ("RAG-Zeval w/o RL", "RAG-Zeval")  # of Figures 6 and 7, both of 7B


def draw_figures(lines: Mapping[int, Sequence[Line]], judges: TrainedJudges) -> dict[str, bytes]:
    """PNG by title: of Table 1's rows, and of the arms that were trained, as far as they are there."""
    figures = {FIGURE_2: score_densities(lines.get(1, ()))}
    curves = {arm: of for arm in CURRICULA if (of := judges.curves(arm))}
    if TRAINED in curves:
        figures[FIGURE_3] = grounding_figure(curves[TRAINED], SMOOTHING)
    if curves:
        figures[FIGURE_4] = reward_figure(curves, SMOOTHING)
    return {title: image for title, image in figures.items() if image is not None}


def judged_example(lines: Mapping[int, Sequence[Line]], example: str | None) -> Case | None:
    """What the untrained and the trained judge of 7B make of one example: of Table 2, else of Table 1.

    `example`: its id, None: where they differ most. None if there is none that both judged.
    """
    for table in (2, 1):
        of_method = {
            line.row.printed.method: line.scorer for line in lines.get(table, ()) if line.row.model == "qwen-7b"
        }
        judges = [scorer for method in JUDGES if (scorer := of_method.get(method)) is not None]
        if case := find_case(judges, example):
            return case
    return None


def score_densities(lines: Sequence[Line]) -> bytes | None:
    """Figure 2 as PNG, of the rows of Table 1: a panel for each of the paper's four methods that was measured.

    None without any.
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
            draw_density(ax, scores, X, colour, shade=0.12, label=label)
        ax.set_xlim(X[0], X[-1])
        ax.set_ylim(bottom=0)
        ax.legend(fontsize=8, frameon=False)
    return png(figure)


def _scores(scorer: ScorerTrials) -> Any:
    benchmark = scorer.benchmark
    assert isinstance(benchmark, Wikieval)
    pairs = [pair for trial in scorer.trials for pair in benchmark.scores(trial.scored, NEGATIVE)]
    return np.array(pairs, dtype=float).reshape(-1, 2).T
