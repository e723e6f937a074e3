"""Training curves: how they are read from a run's log, smoothed and drawn."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from eval_benchmarks.output.figure import style
from rag_zeval.stages.training_log import VALIDATION, Steps
from rag_zeval.statistics.weighted_correlations import Floats

Curves = Mapping[str, Floats]  # name -> (steps,) of one run, from step 1; NaN where a step has no such value
Points = tuple[Floats, Floats]  # steps and values

# name of a curve -> name in the log. Values of a trajectory are means over the rollouts with the right format.
OF_REWARD = (
    "accuracy evidence claims claims_best claims_worst format echo_differs tie_rate supported_rate quotes quote_tokens "
    "errors"
).split()
METRICS = {
    "reward": "reward_extra/score/mean",
    **{name: f"reward_extra/{name}/mean" for name in OF_REWARD},
    "lost": "rollouts/missing",
    "kl": "actor/kl_loss",
    "length": "response_length/mean",
    "length_max": "response_length/max",
    "validation": VALIDATION,
    "candidates": "curriculum/candidates",
    "seconds": "timing_s/step",
}


def read_curves(steps: Steps) -> dict[str, Floats]:
    """Return the curves of METRICS for which at least one step has a number."""
    last = max(steps, default=0)
    curves = {name: by_step(read_points(steps, metric), last)[1:] for name, metric in METRICS.items()}
    return {name: curve for name, curve in curves.items() if not np.isnan(curve).all()}


def read_points(steps: Steps, metric: str) -> Points:
    """Return the steps that have a number for a metric of the log, and these numbers.

    Step 0, before training, is included.
    """
    values = [(step, _number(data.get(metric))) for step, data in steps.items()]
    points = np.array([point for point in values if not np.isnan(point[1])], dtype=float).reshape(-1, 2)
    return points[:, 0], points[:, 1]


def by_step(points: Points, last: int) -> Floats:
    """Return the points as a curve from step 0 on, (last + 1,). NaN where there is no point."""
    values = np.full(last + 1, np.nan)
    values[points[0].astype(int)] = points[1]
    return values


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("nan")


def smoothed(run: Curves, name: str, window: int) -> Floats:
    """Return a run's curve as a moving average.

    The average never includes steps from both sides of a change of the number of candidates.
    """
    return np.concatenate([moving_average(run[name][part], window) for part in stretches(run)])


def stretches(run: Curves) -> list[slice]:
    """Split the steps of a run into parts with the same number of candidates. The slices index its curves."""
    starts = [step - 1 for step, _ in switches(run["candidates"])] if "candidates" in run else []
    return [slice(*part) for part in itertools.pairwise([0, *starts, None])]


def moving_average(values: Floats, window: int) -> Floats:
    """Return the centred mean over `window` steps, (steps,).

    At the ends, and where values are NaN, it is the mean of fewer values. It is NaN if there are none.
    """
    there = ~np.isnan(values)
    ones = np.ones(window)
    after = window - 1 - window // 2
    counts, sums = (np.convolve(column, ones)[after:][: len(values)] for column in (there, np.where(there, values, 0)))
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def switches(candidates: Floats) -> list[tuple[int, float]]:
    """Return `(step, candidates)` for each step at which the number of candidates changes. Steps count from 1.

    The number is compared with that of the last step that has one.
    """
    known = np.flatnonzero(~np.isnan(candidates))
    changed = known[1:][np.diff(candidates[known]) != 0]
    return [(int(at) + 1, float(candidates[at])) for at in changed]


def mark_switches(ax: Any, run: Curves) -> None:
    """Draw a dotted line before each step at which the number K of candidates changes.

    A step that has rows with different K gets no line.
    """
    for step, k in switches(run["candidates"]) if "candidates" in run else ():
        if k.is_integer():
            ax.axvline(step - 0.5, color="#57606a", linewidth=1, linestyle=":")
            ax.text(step - 0.4, 1, f"K={k:g}", transform=ax.get_xaxis_transform(), fontsize=8, va="bottom")


def widen(ax: Any, least: float) -> None:
    """Show at least this much of the vertical axis, so that a flat curve looks flat."""
    low, high = ax.get_ylim()
    missing = max(0.0, least - (high - low)) / 2
    ax.set_ylim(low - missing, high + missing)


def step_axes(columns: int, width: float, height: float) -> tuple[Any, Any]:
    """Return a figure with `columns` axes side by side over the training step, and these axes.

    width, height: of the whole figure, in inches.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for ax in axes:
        style(ax, "training step")
    return figure, axes
