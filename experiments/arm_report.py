"""Writes tables.md, summary.json, figure-3.png and figure-4.png from an experiment's result files.

The checks say whether the experiment shows what it has to show, each with the numbers that decide it.
The figures are the paper's training curves: the mean over seeds, with a band for the range of the seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any

import numpy as np

from eval_benchmarks.datasets.ragchecker_meta import KINDS
from eval_benchmarks.output.figure import BLUE, COLOURS, GREEN, RED, png
from eval_benchmarks.output.page import write_or_remove
from experiments.arm_commands import BASE, RL, Experiment, run_name
from experiments.arm_estimates import PAIRWISE, RANKING, UNREAD, VERDICTS, estimates
from experiments.arm_results import ArmResults, missing, read_results
from experiments.markdown import DASH, change, fill
from experiments.training_curves import Curves, mark_switches, smoothed, step_axes, widen
from rag_zeval.files import Row, write_json, write_text

GROUNDING, REWARD = "figure-3.png", "figure-4.png"
OF_ARMS = (RED, GREEN, BLUE, *COLOURS[3:])  # colours of the paper's Figure 4: curriculum, static 3, static 4
STYLES = ("-", "--", "-.")  # of the arms' lines, for readers who cannot tell the colours apart
HEADLINES = (RANKING, PAIRWISE, VERDICTS, *KINDS)
SMOOTHING = 5  # steps of the figures' moving average
SHORT = 12  # digits of a hash that are shown
SEEDS = 3
PROMPTS = 500  # the minimum for each K
LOSS = -0.01  # tolerated change of verdict accuracy: the interval must lie above it


def write_report(experiment: Experiment, quiet: bool = False) -> None:
    """Write all tables and figures that the existing result files allow, and print the checks unless `quiet`."""
    results, folder = read_results(experiment), experiment.results
    rows = estimates(experiment, results)
    decided = list(checks(experiment, results, rows))
    figures = _write_figures(experiment, results)
    write_text(folder / "tables.md", _tables(experiment, results, rows, decided, figures))
    write_json(folder / "summary.json", {"rows": rows, "checks": [asdict(check) for check in decided]})
    if not quiet:
        for check in decided:
            print(check.line)
        print(f"tables: {folder / 'tables.md'}")


def _write_figures(experiment: Experiment, results: ArmResults) -> list[str]:
    """Write the figures for which results have curves, and return a line of Markdown for each. Remove others."""
    lines = []
    curves = {arm: [result.curves for result in of.values() if result.curves] for arm, of in results.items()}
    runs = curves[experiment.reference]
    write_or_remove(experiment.results / GROUNDING, grounding_figure(runs) if runs else None)
    if runs:
        lines.append(f"![Figure 3: evidence grounding and claims per answer, arm {experiment.reference}]({GROUNDING})")
    arms = {arm: curves[arm] for arm in experiment.curves if curves[arm]}
    write_or_remove(experiment.results / REWARD, reward_figure(arms) if arms else None)
    if arms:
        lines.append(
            f"![Figure 4: reward of the training rollouts, arms {', '.join(arms)}]({REWARD})\n\nMore candidates are "
            "harder to rank: curves of the reward can be compared only where K is the same."
        )
    return lines


def grounding_figure(runs: Sequence[Curves]) -> bytes:
    """Draw Figure 3 as PNG: grounding and claims per answer by training step, in the paper's colours.

    If a run has the curve, a third panel shows how far quotes entail the supported claims.
    """
    panels = [
        ("evidence", "evidence grounding (0 to 1)", 0.1, RED),
        ("claims", "claims per answer", 2.0, BLUE),
        ("entailment", "entailment of supported claims (0 to 1)", 0.1, GREEN),
    ][: 3 if any("entailment" in run for run in runs) else 2]
    figure, axes = step_axes(len(panels), 4.8 * len(panels), 3.6)
    for ax, (name, label, least, colour) in zip(axes, panels, strict=True):
        _draw(ax, runs, name, colour)
        widen(ax, least)
        ax.set_ylabel(label)
    figure.suptitle(_said(len(runs)), fontsize=8)
    return png(figure)


def reward_figure(arms: Mapping[str, Sequence[Curves]]) -> bytes:
    """Draw Figure 4 as PNG: the reward of the training rollouts by step, with one line for each arm.

    A dotted line marks where an arm switches to more candidates. They are harder to rank, so curves can be compared
    only where the number of candidates is the same.
    """
    figure, (ax,) = step_axes(1, 5.6, 3.6)
    for colour, style, (arm, runs) in zip(cycle(OF_ARMS), cycle(STYLES), arms.items(), strict=False):
        _draw(ax, runs, "reward", colour, style, arm)
    ax.set_ylabel("reward, training rollouts")
    ax.legend(fontsize=8, frameon=False)
    figure.suptitle(_said(max(map(len, arms.values()))), fontsize=8)
    return png(figure)


def _draw(ax: Any, runs: Sequence[Curves], name: str, colour: str, style: str = "-", label: str | None = None) -> None:
    """Draw the mean over an arm's seeds, a band for their range, and the steps where K changes (in all seeds alike)."""
    curves = [smoothed(run, name, SMOOTHING) for run in runs if name in run]
    if curves:
        steps = min(map(len, curves))
        seeds = np.stack([curve[:steps] for curve in curves])
        x = np.arange(1, steps + 1)
        ax.fill_between(x, seeds.min(0), seeds.max(0), color=colour, alpha=0.2, linewidth=0)
        ax.plot(x, seeds.mean(0), color=colour, linestyle=style, label=label)
    mark_switches(ax, runs[0])


def _said(seeds: int) -> str:
    of_seeds = f"mean of {seeds} seeds, band: their range" if seeds > 1 else "one seed"
    return f"{of_seeds}; moving average over {SMOOTHING} steps of one K"


def _tables(
    experiment: Experiment,
    results: ArmResults,
    rows: Sequence[Row],
    decided: Sequence[ExperimentCheck],
    figures: Sequence[str],
) -> str:
    trained = [result.row for of in results.values() for result in of.values()]
    headlines = [row for row in rows if row["metric"] in HEADLINES]
    return fill(
        "tables.md.j2",
        experiment=experiment,
        base=next((result.row["base"][:SHORT] for result in results[BASE].values()), None),
        answers=next((row["answers"][:SHORT] for row in trained if row["answers"]), None),  # all have the same
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
    """Say where the paper's direction is seen: `**holds** for ...; **not seen** for ...`."""
    parts = []
    for direction in ("holds", "reversed", "not seen"):
        where = [f"{row['benchmark']} {row['metric']}" for row in rows if row["direction"] == direction]
        parts += [f"**{direction}** for {', '.join(where)}"] if where else []
    return "; ".join(parts) or "missing, not yet run"


@dataclass(frozen=True)
class ExperimentCheck:
    """One check of an experiment. `passed` is None as long as there are no results to decide it."""

    claim: str
    passed: bool | None
    figures: str

    @property
    def line(self) -> str:
        verdict = {True: "pass", False: "FAIL", None: "open"}[self.passed]
        return f"{verdict}: {self.claim}: {self.figures}"


def checks(experiment: Experiment, results: ArmResults, rows: Sequence[Row]) -> Iterator[ExperimentCheck]:
    """Check how the experiment was run.

    Without tables of the paper, also check that the reference arm is better than the base.
    """
    wanted = len(experiment.arms_and_seeds)
    there = wanted - len(missing(experiment, results))
    yield ExperimentCheck("every arm and seed has a result", there == wanted or None, f"{there} of {wanted}")
    seeds = len(experiment.seeds)
    yield ExperimentCheck(f"at least {SEEDS} seeds", seeds >= SEEDS, str(seeds))
    trained = {run_name(arm, seed): r for arm, of in results.items() if arm != BASE for seed, r in of.items()}
    budgets = sorted({result.row["rows"][RL] for result in trained.values() if RL in result.row["rows"]})
    same = len(budgets) == 1 if budgets else None
    yield ExperimentCheck(
        "one number of prompts for reinforcement learning", same, ", ".join(map(str, budgets)) or DASH
    )
    longest = max(trained, key=lambda name: trained[name].minutes, default=None)
    minutes = trained[longest].minutes if longest else None
    yield ExperimentCheck(
        f"at most {experiment.minutes:g} minutes of training for an arm and seed",
        None if minutes is None else minutes <= experiment.minutes,
        DASH if minutes is None else f"{minutes:.1f} ({longest})",
    )
    everything = [result for of in results.values() for result in of.values()]
    for benchmark in experiment.benchmarks:
        of_benchmark = [result.metrics[benchmark] for result in everything if benchmark in result.metrics]
        sizes = [len(of[name].scored) for of in of_benchmark for name in (RANKING, PAIRWISE) if name in of]
        if of_benchmark and not sizes:  # public data: we cannot choose their size
            continue
        fewest = min(sizes, default=None)
        enough = None if fewest is None else fewest >= PROMPTS
        yield ExperimentCheck(f"{benchmark}: at least {PROMPTS} prompts for each K", enough, str(fewest or DASH))
    if not experiment.tables:
        yield from _better_than_base(experiment, rows)


def _better_than_base(experiment: Experiment, rows: Sequence[Row]) -> Iterator[ExperimentCheck]:
    for benchmark in experiment.benchmarks:
        own = [row for row in rows if (row["benchmark"], row["arm"]) == (benchmark, experiment.reference)]
        differences = {row["metric"]: row["minus_base"] for row in own}
        known = set(differences) or {RANKING, PAIRWISE, VERDICTS}  # before the first result
        for metric in (name for name in (RANKING, PAIRWISE) if name in known):
            what, difference = f"{benchmark}: {metric}", differences.get(metric)
            yield _above(f"{what}, trained minus base", difference, 0)
            by_seed = [value for value in (difference or {}).get("by_seed", {}).values() if value is not None]
            each = all(value > 0 for value in by_seed) if by_seed else None
            yield ExperimentCheck(f"{what}, each seed", each, ", ".join(f"{value:+.3f}" for value in by_seed) or DASH)
            yield _above(f"{what}{UNREAD}, trained minus base", differences.get(metric + UNREAD), 0)
        if VERDICTS in known:
            yield _above(f"{benchmark}: {VERDICTS}, trained minus base", differences.get(VERDICTS), LOSS)


def _above(what: str, difference: Row | None, bound: float) -> ExperimentCheck:
    passed = None if difference is None or difference["ci_low"] is None else difference["ci_low"] > bound
    return ExperimentCheck(f"{what}, above {bound:g}", passed, change(difference))
