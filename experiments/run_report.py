"""One page about one run: `python -m experiments.run_report RUN` reads RUN/{synthesize,train,bench}.

Everything on it stands in a file of the run; nothing is computed anew.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_benchmarks.output.curves import METRICS, Curves, mark_switches, read_curves, read_points, step_axes
from eval_benchmarks.output.page import render
from experiments.markdown import figure
from rag_zeval.errors import InputError, exit_status
from rag_zeval.files import Row, read_json, write_text
from rag_zeval.stages.training_log import Steps, read_run

NANO = ("nano_eval", "nano_cad")  # benchmarks where the base and the trained judge are compared
FILES = {
    "synthesis": "synthesize/manifest.json",
    "training": "train/manifest.json",
    "summary": "bench/summary.json",
    "bench": "bench/manifest.json",
}
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


def write_run_report(run: str | Path) -> Path:
    """Write RUN/report.html, one file without outside assets; its path.

    Raises InputError naming the first file of the run that is missing, and the stage that writes it.
    """
    from markupsafe import Markup

    run = Path(run)
    for place in FILES.values():
        if not (run / place).is_file():
            raise InputError(f"{run / place}: is missing; the {Path(place).parent.name} stage writes it")
    files = {name: read_json(run / place, list if name == "summary" else dict) for name, place in FILES.items()}
    steps = read_run(run / "train")
    supported = [at for at in files["synthesis"]["statistics"]["by_alpha"] if at["true_support"] is not None]
    charts = {
        "reward": Markup(reward_chart(steps)),
        "claims": Markup(claims_chart(steps)),
        "support": Markup(support_chart(supported)) if supported else None,
    }
    page = render(
        "report.html",
        filters={"figure": _figure},
        run=run.name,
        charts=charts,
        judges=[table for table in (side_by_side(files["summary"], name) for name in NANO) if table],
        lexical=[row for row in files["summary"] if row["benchmark"] not in NANO],
        **files,
    )
    write_text(run / "report.html", page)
    return run / "report.html"


def side_by_side(summary: Sequence[Row], benchmark: str) -> list[Row]:
    """For each of a benchmark's metrics of two models: `{metric, base, trained, difference}`, rows of summary.json.

    Empty if the run compared other than two models.
    """
    rows = [row for row in summary if row["benchmark"] == benchmark and row["scorer"] == "rag_zeval"]
    if len({row["model"] for row in rows if row["minus"] is None}) != 2:
        return []
    by_metric: dict[str, list[Row]] = {}
    for row in rows:  # of each metric: the first model, the second, and then their difference
        by_metric.setdefault(row["metric"], []).append(row)
    return [
        {"metric": metric, "base": of[0], "trained": of[1], "difference": of[2]}
        for metric, of in by_metric.items()
        if [row["minus"] for row in of] == [None, None, of[0]["model"]]
    ]


def _figure(row: Row, value: str = "value", low: str = "ci_low", high: str = "ci_high") -> str:
    """`0.412 [0.371, 0.455]` of these three fields, or a dash for what is missing."""
    return "–" if row[value] is None else figure({"value": row[value], "ci_low": row[low], "ci_high": row[high]})


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


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 the report of the run folder is written, 2 the input is wrong, 130 interrupted."""
    usage = "usage: python -m experiments.run_report RUN   (a folder such as runs/reproduce)"

    def report() -> int:
        if {"-h", "--help"} & set(argv):
            print(usage)
        elif len(argv) == 1:
            print(f"report: {write_run_report(argv[0])}")
        else:
            raise InputError(usage)
        return 0

    return exit_status(report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
