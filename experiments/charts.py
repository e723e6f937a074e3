"""The report's charts, each an SVG element as text."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from eval_benchmarks.output.curves import METRICS, Curves, mark_switches, read_curves, read_points, step_axes
from rag_zeval.files import Row
from rag_zeval.stages.training_log import Steps

BLUE, RED = "#1f5fa8", "#b23a48"
REWARD_LINES = {
    "reward": {"linewidth": 2, "color": BLUE, "label": "reward, training rollouts"},
    "accuracy": {"linewidth": 1.2, "color": "#3f8f4f", "label": "ranking right (0 or 1)"},
    "evidence": {"linewidth": 1.2, "color": "#c08a2d", "label": "quotes verbatim (0 to 1)"},
    "format": {"linewidth": 1.2, "color": "#8a8f98", "label": "format kept (0 or 1)"},
}
CLAIM_LINES = {
    "claims": {"linestyle": "-", "color": BLUE, "label": "all"},
    "claims_best": {"linestyle": "--", "color": BLUE, "label": "largest α"},
    "claims_worst": {"linestyle": ":", "color": BLUE, "label": "smallest α"},
}


def reward_chart(steps: Steps) -> str:
    """Reward and its parts at each training step, and the reward on the fixed validation rows.

    A line marks each step from which on there are more candidates to rank: the reward is then harder to get.
    A part a step lacks leaves a gap.
    """
    figure, axes = _axes("training step", "reward")
    curves = read_curves(steps)
    _plot(axes, curves, REWARD_LINES)
    x, y = read_points(steps, METRICS["validation"])
    axes.plot(x, y, "o--", color=RED, linewidth=2, label="reward, validation rows (greedy)")
    mark_switches(axes, curves)
    _legend_below(axes, columns=2)
    return _svg(figure)


def claims_chart(steps: Steps) -> str:
    """Atomic claims per answer: all, and those of the candidates with the largest and smallest alpha."""
    figure, axes = _axes("training step", "claims per answer")
    _plot(axes, read_curves(steps), CLAIM_LINES)
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    _legend_below(axes, columns=3)
    return _svg(figure)


def _plot(axes: Any, curves: Curves, lines: Mapping[str, Mapping[str, Any]]) -> None:
    for name, look in lines.items():
        if name in curves:
            axes.plot(range(1, len(curves[name]) + 1), curves[name], **look)


def support_chart(by_alpha: Sequence[Row]) -> str:
    """Mean true support of the synthesized answers by alpha, with 95% intervals; each alpha must have one."""
    figure, axes = _axes("α", "true support")
    x = range(len(by_alpha))
    means = [at["true_support"] for at in by_alpha]
    below = [at["true_support"] - at["true_support_low"] for at in by_alpha]
    above = [at["true_support_high"] - at["true_support"] for at in by_alpha]
    axes.bar(x, means, yerr=[below, above], color="#7fa7d4", ecolor="#1d2733", capsize=4)
    axes.set_xticks(list(x), [f"{at['alpha']:g}" for at in by_alpha])
    axes.set_ylim(0, 1.05)
    return _svg(figure)


def _axes(x: str, y: str) -> tuple[Any, Any]:
    figure, (axes,) = step_axes(1, 6.4, 3.8)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _legend_below(axes: Any, columns: int) -> None:
    axes.legend(fontsize=8, ncol=columns, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16))


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
