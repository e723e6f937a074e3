"""What an experiment has to show, each with the figures that decide it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.arm_commands import BASE, RL, Experiment, run_name
from experiments.arm_estimates import PAIRWISE, RANKING, UNREAD, VERDICTS
from experiments.arm_results import ArmResults, missing
from experiments.markdown import DASH, change
from rag_zeval.files import Row

SEEDS = 3
PROMPTS = 500  # for each K, at least
LOSS = -0.01  # of verdict accuracy: the interval must lie above it


@dataclass(frozen=True)
class ExperimentCheck:
    """`passed` is None as long as there is nothing to decide it by."""

    claim: str
    passed: bool | None
    figures: str

    @property
    def line(self) -> str:
        verdict = {True: "pass", False: "FAIL", None: "open"}[self.passed]
        return f"{verdict}: {self.claim}: {self.figures}"


def checks(experiment: Experiment, results: ArmResults, rows: Sequence[Row]) -> list[ExperimentCheck]:
    """How the experiment was run; and without tables of the paper, that the reference arm is better than the base."""
    better = () if experiment.tables else _better_than_base(experiment, rows)
    return [*_of_the_runs(experiment, results), *better]


def _of_the_runs(experiment: Experiment, results: ArmResults) -> Iterator[ExperimentCheck]:
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
        if of_benchmark and not sizes:  # public data have the size they have
            continue
        fewest = min(sizes, default=None)
        enough = None if fewest is None else fewest >= PROMPTS
        yield ExperimentCheck(f"{benchmark}: at least {PROMPTS} prompts for each K", enough, str(fewest or DASH))


def _better_than_base(experiment: Experiment, rows: Sequence[Row]) -> Iterator[ExperimentCheck]:
    for benchmark in experiment.benchmarks:
        own = [row for row in rows if (row["benchmark"], row["arm"]) == (benchmark, experiment.reference)]
        differences = {row["metric"]: row["minus_base"] for row in own}
        known = set(differences) or {RANKING, PAIRWISE, VERDICTS}  # before there is any result
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
