"""Figures 2 to 4, 6 and 7 of what was measured and trained here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eval_benchmarks.output.cases import Case, find_case
from experiments.arm_report import grounding_figure, reward_figure
from experiments.paper.arms import Arms
from experiments.paper.cells import Line
from experiments.paper.densities import score_densities
from experiments.paper.methods import TRAINED

FIGURE_2 = "Figure 2: scores of faithful and unfaithful answers on WikiEval"
FIGURE_3 = "Figure 3: evidence grounding and claims per answer of the training rollouts"
FIGURE_4 = "Figure 4: reward of the training rollouts; compare curves only where the number of candidates is the same"
CURRICULA = (TRAINED, "static-3", "static-4")  # of Figure 4
SMOOTHING = 5  # steps of the moving average
JUDGES = ("RAG-Zeval w/o RL", "RAG-Zeval")  # of Figures 6 and 7, both of 7B


def draw_figures(lines: Mapping[int, Sequence[Line]], arms: Arms) -> dict[str, bytes]:
    """PNG by title: of Table 1's rows, and of the arms that were trained, as far as they are there."""
    figures = {FIGURE_2: score_densities(lines.get(1, ()))}
    curves = {arm: of for arm in CURRICULA if (of := arms.curves(arm))}
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
