"""Training curves: the paper's Figures 3 and 4, as the mean over seeds with the range of the seeds as a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eval_benchmarks.output.curves import COLOURS, Curves, mark_switches, png, smoothed, step_axes, widen
from rag_zeval.statistics.weighted_correlations import Floats


def grounding_figure(runs: Sequence[Curves], smoothing: int) -> bytes:
    """Figure 3 as PNG: how verbatim the quotes are, and how many claims an answer is split into, by training step."""
    figure, axes = step_axes(2, 9.6, 3.6)
    for ax, name, label, colour, least in (
        (axes[0], "evidence", "evidence grounding (0 to 1)", COLOURS[0], 0.1),
        (axes[1], "claims", "claims per answer", COLOURS[1], 2.0),
    ):
        _band(ax, [smoothed(run, name, smoothing) for run in runs if name in run], colour, None)
        widen(ax, least)
        _mark_switches(ax, runs)
        ax.set_ylabel(label)
    figure.suptitle(_said(len(runs), smoothing), fontsize=8)
    return png(figure)


def reward_figure(arms: Mapping[str, Sequence[Curves]], smoothing: int) -> bytes:
    """Figure 4 as PNG: the reward of the training rollouts by step, an arm a line.

    The dotted line marks where an arm goes on with more candidates, which are harder to rank: curves can be compared
    only where the number of candidates is the same.
    """
    figure, (ax,) = step_axes(1, 5.6, 3.6)
    for colour, (arm, runs) in zip(COLOURS, arms.items(), strict=False):
        _band(ax, [smoothed(run, "reward", smoothing) for run in runs if "reward" in run], colour, arm)
        _mark_switches(ax, runs)
    ax.set_ylabel("reward, training rollouts")
    ax.legend(fontsize=8, frameon=False)
    figure.suptitle(_said(max(map(len, arms.values())), smoothing), fontsize=8)
    return png(figure)


def _band(ax: Any, curves: Sequence[Floats], colour: str, label: str | None) -> None:
    if not curves:
        return
    steps = min(map(len, curves))
    seeds = np.stack([curve[:steps] for curve in curves])
    x = np.arange(1, steps + 1)
    ax.fill_between(x, seeds.min(0), seeds.max(0), color=colour, alpha=0.2, linewidth=0)
    ax.plot(x, seeds.mean(0), color=colour, label=label)


def _mark_switches(ax: Any, runs: Sequence[Curves]) -> None:
    for run in runs[:1]:  # the seeds of an arm have the same
        mark_switches(ax, run)


def _said(seeds: int, smoothing: int) -> str:
    return f"mean of {seeds} seeds, band: their range; moving average over {smoothing} steps of one K"
