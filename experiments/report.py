"""Writes what an experiment's result files say: tables.md, summary.json, figure-3.png and figure-4.png."""

from __future__ import annotations

from omegaconf import DictConfig

from experiments.checks import checks
from experiments.estimates import Found, estimates, read_results
from experiments.figures import grounding_figure, reward_figure
from experiments.plan import Experiment
from experiments.tables import markdown
from rag_zeval.files import write_bytes, write_json, write_text

EVIDENCE, REWARD = "figure-3.png", "figure-4.png"


def write_report(config: DictConfig, experiment: Experiment, quiet: bool = False) -> None:
    """Everything that can be made of the result files there are; the checks are printed unless `quiet`."""
    found = read_results(experiment)
    rows = estimates(experiment, found, config.draws, config.draws_seed)
    made = checks(experiment, found, rows)
    figures = _write_figures(experiment, found, config.smoothing)
    write_text(experiment.results / "tables.md", markdown(experiment, found, rows, made, figures, config.draws))
    write_json(
        experiment.results / "summary.json",
        {
            "rows": rows,
            "checks": [{"claim": c.claim, "passed": c.passed, "figures": c.figures} for c in made],
        },
    )
    if not quiet:
        for check in made:
            print(check.line)
        print(f"tables: {experiment.results / 'tables.md'}")


def _write_figures(experiment: Experiment, found: Found, smoothing: int) -> list[str]:
    """The figures that there are curves for; for each, a line of Markdown."""
    lines = []
    curves = {arm: [result.curves for result in of.values() if result.curves] for arm, of in found.arms.items()}
    if runs := curves[experiment.reference]:
        write_bytes(experiment.results / EVIDENCE, grounding_figure(runs, smoothing))
        lines.append(f"![Figure 3: evidence grounding and claims per answer, arm {experiment.reference}]({EVIDENCE})")
    if arms := {arm: curves[arm] for arm in experiment.curves if curves[arm]}:
        write_bytes(experiment.results / REWARD, reward_figure(arms, smoothing))
        lines.append(
            f"![Figure 4: reward of the training rollouts, arms {', '.join(arms)}]({REWARD})\n\nMore candidates are "
            "harder to rank: curves of the reward can be compared only where K is the same."
        )
    return lines
