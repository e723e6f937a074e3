"""Writes what an experiment's result files say: tables.md, summary.json, figure-3.png and figure-4.png."""

from __future__ import annotations

from dataclasses import asdict

from experiments.arm_results import ArmResults, read_results
from experiments.checks import checks
from experiments.estimates import estimates
from experiments.figures import grounding_figure, reward_figure
from experiments.plan import Experiment
from experiments.tables import markdown
from rag_zeval.files import write_bytes, write_json, write_text

GROUNDING, REWARD = "figure-3.png", "figure-4.png"


def write_report(experiment: Experiment, quiet: bool = False) -> None:
    """Everything that can be made of the result files there are; the checks are printed unless `quiet`."""
    results, folder = read_results(experiment), experiment.results
    rows = estimates(experiment, results)
    decided = checks(experiment, results, rows)
    figures = _write_figures(experiment, results)
    write_text(folder / "tables.md", markdown(experiment, results, rows, decided, figures))
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
