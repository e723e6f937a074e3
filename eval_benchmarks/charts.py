"""The report's charts, each an SVG element as text."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from rag_zeval.files import Row

COLOURS = {
    "score": "#1f5fa8",
    "accuracy": "#3f8f4f",
    "evidence": "#c08a2d",
    "format": "#8a8f98",
    "validation": "#b23a48",
}
VALIDATION = "val-core/rag_zeval/reward/mean@1"
CANDIDATES = "curriculum/candidates"


def reward_chart(steps: Sequence[Row]) -> str:
    """Reward and its parts at each training step, and the reward on the fixed validation rows.

    A line marks each step from which on there are more candidates to rank: the reward is then harder to get.
    steps: rows `{"step", "data"}` of metrics.jsonl; a part a step lacks leaves a gap.
    """
    figure, axes = _axes("training step", "reward")
    for name in ("score", "accuracy", "evidence", "format"):
        x, y = _series(steps, f"reward_extra/{name}/mean")
        axes.plot(x, y, color=COLOURS[name], linewidth=2 if name == "score" else 1.2, label=_LABELS[name])
    x, y = _series(steps, VALIDATION, first=0)
    axes.plot(x, y, "o--", color=COLOURS["validation"], linewidth=2, label="reward, validation rows (greedy)")
    at, candidates = _series(steps, CANDIDATES)
    for step, before, k in zip(at[1:], candidates, candidates[1:], strict=False):
        if k != before:
            axes.axvline(step - 0.5, color="#57606a", linewidth=1, linestyle=":")
            axes.text(step - 0.4, 1, f"K={k:g}", transform=axes.get_xaxis_transform(), fontsize=8, va="bottom")
    _legend_below(axes, columns=2)
    return _svg(figure)


_LABELS = {
    "score": "reward, training rollouts",
    "accuracy": "ranking right (0 or 1)",
    "evidence": "quotes verbatim (0 to 1)",
    "format": "format kept (0 or 1)",
}


def claims_chart(steps: Sequence[Row]) -> str:
    """Atomic claims per answer: all, and those of the candidates with the largest and smallest alpha."""
    figure, axes = _axes("training step", "claims per answer")
    for name, label, style in (
        ("claims", "all", "-"),
        ("claims_best", "largest α", "--"),
        ("claims_worst", "smallest α", ":"),
    ):
        x, y = _series(steps, f"reward_extra/{name}/mean")
        axes.plot(x, y, style, color=COLOURS["score"], label=label)
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    _legend_below(axes, columns=3)
    return _svg(figure)


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


def _series(steps: Sequence[Row], metric: str, first: int = 1) -> tuple[list[int], list[float]]:
    found = [(row["step"], row["data"][metric]) for row in steps if row["step"] >= first and metric in row["data"]]
    return [step for step, _ in found], [value for _, value in found]


def _axes(x: str, y: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _legend_below(axes: Any, columns: int) -> None:
    axes.legend(fontsize=8, ncol=columns, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16))


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
