"""Writes what an experiment's result files say: tables.md, summary.json, figure-3.png and figure-4.png.

The figures are the paper's training curves, as the mean over seeds with the range of the seeds as a band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from eval_benchmarks.output.curves import COLOURS, Curves, mark_switches, png, smoothed, step_axes, widen
from experiments.arm_checks import ExperimentCheck, checks
from experiments.arm_commands import BASE, Experiment
from experiments.arm_estimates import PAIRWISE, RANKING, VERDICTS, estimates
from experiments.arm_results import ArmResults, missing, read_results
from experiments.markdown import fill
from rag_zeval.files import Row, write_bytes, write_json, write_text

GROUNDING, REWARD = "figure-3.png", "figure-4.png"
HEADLINES = (RANKING, PAIRWISE, VERDICTS)
SHORT = 12  # digits of a hash that are shown


def write_report(experiment: Experiment, quiet: bool = False) -> None:
    """Everything that can be made of the result files there are; the checks are printed unless `quiet`."""
    results, folder = read_results(experiment), experiment.results
    rows = estimates(experiment, results)
    decided = checks(experiment, results, rows)
    figures = _write_figures(experiment, results)
    write_text(folder / "tables.md", _tables(experiment, results, rows, decided, figures))
    write_json(folder / "summary.json", {"rows": rows, "checks": [asdict(check) for check in decided]})
    if not quiet:
        for check in decided:
            print(check.line)
        print(f"tables: {folder / 'tables.md'}")


def _write_figures(experiment: Experiment, results: ArmResults) -> list[str]:
    """The figures that there are curves for; for each, a line of Markdown."""
    lines = []
    curves = {arm: [result.curves for result in of.values() if result.curves] for arm, of in results.items()}
    if runs := curves[experiment.reference]:
        write_bytes(experiment.results / GROUNDING, grounding_figure(runs, experiment.smoothing))
        lines.append(f"![Figure 3: evidence grounding and claims per answer, arm {experiment.reference}]({GROUNDING})")
    if arms := {arm: curves[arm] for arm in experiment.curves if curves[arm]}:
        write_bytes(experiment.results / REWARD, reward_figure(arms, experiment.smoothing))
        lines.append(
            f"![Figure 4: reward of the training rollouts, arms {', '.join(arms)}]({REWARD})\n\nMore candidates are "
            "harder to rank: curves of the reward can be compared only where K is the same."
        )
    return lines


def grounding_figure(runs: Sequence[Curves], smoothing: int) -> bytes:
    """Figure 3 as PNG: how verbatim the quotes are, and how many claims an answer is split into, by training step."""
    figure, axes = step_axes(2, 9.6, 3.6)
    for ax, name, label, colour, least in (
        (axes[0], "evidence", "evidence grounding (0 to 1)", COLOURS[0], 0.1),
        (axes[1], "claims", "claims per answer", COLOURS[1], 2.0),
    ):
        _draw(ax, runs, name, smoothing, colour)
        widen(ax, least)
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
        _draw(ax, runs, "reward", smoothing, colour, arm)
    ax.set_ylabel("reward, training rollouts")
    ax.legend(fontsize=8, frameon=False)
    figure.suptitle(_said(max(map(len, arms.values())), smoothing), fontsize=8)
    return png(figure)


def _draw(ax: Any, runs: Sequence[Curves], name: str, smoothing: int, colour: str, label: str | None = None) -> None:
    """The mean over the seeds of an arm, their range as a band, and where K changes, which is the same for all."""
    curves = [smoothed(run, name, smoothing) for run in runs if name in run]
    if curves:
        steps = min(map(len, curves))
        seeds = np.stack([curve[:steps] for curve in curves])
        x = np.arange(1, steps + 1)
        ax.fill_between(x, seeds.min(0), seeds.max(0), color=colour, alpha=0.2, linewidth=0)
        ax.plot(x, seeds.mean(0), color=colour, label=label)
    mark_switches(ax, runs[0])


def _said(seeds: int, smoothing: int) -> str:
    return f"mean of {seeds} seeds, band: their range; moving average over {smoothing} steps of one K"


def _tables(
    experiment: Experiment,
    results: ArmResults,
    rows: Sequence[Row],
    decided: Sequence[ExperimentCheck],
    figures: Sequence[str],
) -> str:
    """All of tables.md; `figures` are lines of Markdown."""
    trained = [result.row for of in results.values() for result in of.values()]
    headlines = [row for row in rows if row["metric"] in HEADLINES]
    return fill(
        "tables.md.j2",
        experiment=experiment,
        base=next((result.row["base"][:SHORT] for result in results[BASE].values()), None),
        answers=sorted({row["answers"][:SHORT] for row in trained if row["answers"]}),
        missing=missing(experiment, results),
        checks=decided,
        headlines={
            title: [row for row in headlines if row["arm"] in (BASE, experiment.reference, *arms)]
            for title, arms in experiment.tables.items()
        },
        directions={arm: _directions([row for row in headlines if row["arm"] == arm]) for arm in experiment.recipes},
        figures=figures,
        rows=rows,
        trained=trained,
    )


def _directions(rows: Sequence[Row]) -> str:
    """Where the paper's direction is seen: `**holds** for ...; **not seen** for ...`."""
    parts = []
    for direction in ("holds", "reversed", "not seen"):
        where = [f"{row['benchmark']} {row['metric']}" for row in rows if row["direction"] == direction]
        parts += [f"**{direction}** for {', '.join(where)}"] if where else []
    return "; ".join(parts) or "missing, not yet run"
