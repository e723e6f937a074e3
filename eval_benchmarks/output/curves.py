"""Training curves: what a run's log says by step, smoothed within one number of candidates, and how they are drawn."""

import io
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from rag_zeval.stages.training_log import VALIDATION, Steps
from rag_zeval.statistics.weighted_correlations import Floats

Curves = Mapping[str, Floats]  # name -> (steps,) of one run, from step 1; NaN where a step has no such value
Points = tuple[Floats, Floats]  # steps and values
BLUE, RED, GREEN = "#1f5fa8", "#b23a48", "#3f8f4f"  # named where a figure has the paper's colours
COLOURS = (BLUE, RED, GREEN, "#c08a2d", "#7a5195", "#57606a")
DPI = 150

# name of a curve -> name in the log. Those of a trajectory are means over the rollouts that keep the format.
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
    """The curves of METRICS that at least one step has a number for."""
    last = max(steps, default=0)
    curves = {name: by_step(read_points(steps, metric), last)[1:] for name, metric in METRICS.items()}
    return {name: curve for name, curve in curves.items() if not np.isnan(curve).all()}


def read_points(steps: Steps, metric: str) -> Points:
    """The steps that have a number for a metric of the log, step 0 (before training) among them."""
    values = [(step, _number(data.get(metric))) for step, data in steps.items()]
    points = np.array([point for point in values if not np.isnan(point[1])], dtype=float).reshape(-1, 2)
    return points[:, 0], points[:, 1]


def by_step(points: Points, last: int) -> Floats:
    """The points as a curve from step 0 on, (last + 1,); NaN where there is none."""
    values = np.full(last + 1, np.nan)
    values[points[0].astype(int)] = points[1]
    return values


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("nan")


def smoothed(run: Curves, name: str, window: int) -> Floats:
    """A run's curve as a moving average that does not reach over a change of the number of candidates."""
    return np.concatenate([moving_average(run[name][part], window) for part in stretches(run)])


def stretches(run: Curves) -> list[slice]:
    """The steps of a run in parts of one number of candidates, as places in its curves."""
    starts = [step - 1 for step, _ in switches(run["candidates"])] if "candidates" in run else []
    return [slice(*part) for part in itertools.pairwise([0, *starts, None])]


def moving_average(values: Floats, window: int) -> Floats:
    """Centred mean over `window` steps, (steps,); fewer at the ends and where values are NaN, NaN if there are none."""
    there = ~np.isnan(values)
    ones = np.ones(window)
    after = window - 1 - window // 2
    counts, sums = (np.convolve(column, ones)[after:][: len(values)] for column in (there, np.where(there, values, 0)))
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def switches(candidates: Floats) -> list[tuple[int, float]]:
    """`(step, candidates)` for each step, from 1, with more or fewer candidates than the last step that says so."""
    known = np.flatnonzero(~np.isnan(candidates))
    changed = known[1:][np.diff(candidates[known]) != 0]
    return [(int(at) + 1, float(candidates[at])) for at in changed]


def mark_switches(ax: Any, run: Curves) -> None:
    """A dotted line before each step from which on all rows have K candidates; not at one with rows of both."""
    for step, k in switches(run["candidates"]) if "candidates" in run else ():
        if k.is_integer():
            ax.axvline(step - 0.5, color="#57606a", linewidth=1, linestyle=":")
            ax.text(step - 0.4, 1, f"K={k:g}", transform=ax.get_xaxis_transform(), fontsize=8, va="bottom")


def widen(ax: Any, least: float) -> None:
    """Show at least this much of the vertical axis: a flat curve is to look flat."""
    low, high = ax.get_ylim()
    missing = max(0.0, least - (high - low)) / 2
    ax.set_ylim(low - missing, high + missing)


def step_axes(columns: int, width: float, height: float) -> tuple[Any, Any]:
    """A figure with `columns` axes side by side over the training step; width and height of all of it, in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for ax in axes:
        style(ax, "training step")
    return figure, axes


def style(ax: Any, x: str) -> None:
    ax.set_xlabel(x)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def png(figure: Any) -> bytes:
    """The same figure gives the same bytes."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()
