"""Training curves: the paper's Figures 3 and 4, as the mean over seeds with the range of the seeds as a band."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval_benchmarks.statistics import Floats

Curves = Mapping[str, Floats]  # name -> (steps,) of one run
COLOURS = ("#1f5fa8", "#b23a48", "#3f8f4f", "#c08a2d", "#7a5195", "#57606a")
DPI = 150


def grounding_figure(runs: Sequence[Curves], smoothing: int) -> bytes:
    """Figure 3 as PNG: how verbatim the quotes are, and how many claims an answer is split into, by training step."""
    figure, axes = _axes(2)
    for ax, name, label, colour, least in (
        (axes[0], "evidence", "evidence grounding (0 to 1)", COLOURS[0], 0.1),
        (axes[1], "claims", "claims per answer", COLOURS[1], 2.0),
    ):
        _band(ax, [smoothed(run, name, smoothing) for run in runs if name in run], colour, None)
        _widen(ax, least)
        _mark_switch(ax, runs)
        ax.set_ylabel(label)
    figure.suptitle(_said(len(runs), smoothing), fontsize=8)
    return _png(figure)


def reward_figure(arms: Mapping[str, Sequence[Curves]], smoothing: int) -> bytes:
    """Figure 4 as PNG: the reward of the training rollouts by step, an arm a line.

    The dotted line marks where an arm goes on with more candidates, which are harder to rank: curves can be compared
    only where the number of candidates is the same.
    """
    figure, (ax,) = _axes(1)
    for colour, (arm, runs) in zip(COLOURS, arms.items(), strict=False):
        _band(ax, [smoothed(run, "reward", smoothing) for run in runs if "reward" in run], colour, arm)
        _mark_switch(ax, runs)
    ax.set_ylabel("reward, training rollouts")
    ax.legend(fontsize=8, frameon=False)
    figure.suptitle(_said(max(map(len, arms.values())), smoothing), fontsize=8)
    return _png(figure)


def smoothed(run: Curves, name: str, window: int) -> Floats:
    """A run's curve as a moving average that does not reach over a change of the number of candidates."""
    starts = [step - 1 for step, _ in switches(run["candidates"])] if "candidates" in run else []
    return np.concatenate([moving_average(part, window) for part in np.split(run[name], starts)])


def moving_average(values: Floats, window: int) -> Floats:
    """Centred mean over `window` steps, (steps,); fewer at the ends and where values are NaN, NaN if there are none."""
    there = ~np.isnan(values)
    ones = np.ones(window)
    after = window - 1 - window // 2
    counts, sums = (np.convolve(column, ones)[after:][: len(values)] for column in (there, np.where(there, values, 0)))
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def switches(candidates: Floats) -> list[tuple[int, float]]:
    """`(step, candidates)` for each step, from 1, from which on there are more or fewer candidates than before."""
    changed = np.flatnonzero(np.diff(candidates) != 0) + 1
    return [(int(at) + 1, float(candidates[at])) for at in changed if not np.isnan(candidates[at - 1 : at + 1]).any()]


def _band(ax: Any, curves: Sequence[Floats], colour: str, label: str | None) -> None:
    if not curves:
        return
    steps = min(map(len, curves))
    seeds = np.stack([curve[:steps] for curve in curves])
    x = np.arange(1, steps + 1)
    ax.fill_between(x, seeds.min(0), seeds.max(0), color=colour, alpha=0.2, linewidth=0)
    ax.plot(x, seeds.mean(0), color=colour, label=label)


def _widen(ax: Any, least: float) -> None:
    """Show at least this much of the vertical axis: a flat curve is to look flat."""
    low, high = ax.get_ylim()
    missing = max(0.0, least - (high - low)) / 2
    ax.set_ylim(low - missing, high + missing)


def _mark_switch(ax: Any, runs: Sequence[Curves]) -> None:
    for step, k in switches(runs[0]["candidates"]) if runs and "candidates" in runs[0] else ():
        ax.axvline(step - 0.5, color="#57606a", linewidth=1, linestyle=":")
        ax.text(step - 0.4, 1, f"K={k:g}", transform=ax.get_xaxis_transform(), fontsize=8, va="bottom")


def _said(seeds: int, smoothing: int) -> str:
    return f"mean of {seeds} seeds, band: their range; moving average over {smoothing} steps of one K"


def _axes(columns: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.6 + 4.0 * columns, 3.6), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for ax in axes:
        ax.set_xlabel("training step")
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()


def write_figure(path: Path, png: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png)
