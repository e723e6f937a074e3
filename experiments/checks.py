"""What an experiment has to show, each with the figures that decide it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.estimates import PAIRWISE, RANKING, UNREAD, VERDICTS, Found
from experiments.plan import BASE, RL, Experiment
from rag_zeval.files import Row

SEEDS = 3
PROMPTS = 500  # for each K, at least
LOSS = -0.01  # of verdict accuracy: the interval must lie above it


@dataclass(frozen=True)
class Check:
    """`passed` is None as long as there is nothing to decide it by."""

    claim: str
    passed: bool | None
    figures: str

    @property
    def line(self) -> str:
        said = {True: "pass", False: "FAIL", None: "open"}[self.passed]
        return f"{said}: {self.claim}: {self.figures}"


def checks(experiment: Experiment, found: Found, rows: Sequence[Row]) -> list[Check]:
    """How the experiment was run; and without tables of the paper, that the reference arm is better than the base."""
    made = [*_run(experiment, found)]
    if not experiment.tables:
        for benchmark in experiment.benchmarks:
            of = {row["metric"]: row["minus_base"] for row in rows if _is(row, benchmark, experiment.reference)}
            for metric in (RANKING, PAIRWISE):
                made += _better(f"{benchmark}: {metric}", of.get(metric))
                made.append(_above(f"{benchmark}: {metric}{UNREAD}, trained minus base", of.get(metric + UNREAD), 0))
            made.append(_above(f"{benchmark}: {VERDICTS}, trained minus base", of.get(VERDICTS), LOSS))
    return made


def missing(experiment: Experiment, found: Found) -> list[str]:
    """Result files that are not there, by name."""
    names = [] if found.base else [BASE]
    return names + [
        f"{arm}-seed{seed}" for arm in experiment.arms for seed in experiment.seeds if seed not in found.arms[arm]
    ]


def _run(experiment: Experiment, found: Found) -> Iterator[Check]:
    wanted = 1 + len(experiment.arms) * len(experiment.seeds)
    there = wanted - len(missing(experiment, found))
    yield Check("every arm and seed has a result", there == wanted or None, f"{there} of {wanted}")
    seeds = len(experiment.seeds)
    yield Check(f"at least {SEEDS} seeds", seeds >= SEEDS, str(seeds))
    trained = {f"{arm}-seed{seed}": r for arm, of in found.arms.items() for seed, r in of.items()}
    budgets = sorted({r.row["rows"][RL] for r in trained.values() if RL in r.row["rows"]})
    same = len(budgets) == 1 if budgets else None
    yield Check("one number of prompts for reinforcement learning", same, ", ".join(map(str, budgets)) or "-")
    longest = max(trained, key=lambda name: trained[name].minutes, default=None)
    limit = f"at most {experiment.minutes:g} minutes of training for an arm and seed"
    if longest is None:
        yield Check(limit, None, "-")
    else:
        minutes = trained[longest].minutes
        yield Check(limit, minutes <= experiment.minutes, f"{minutes:.1f} ({longest})")
    for benchmark in experiment.benchmarks:
        sizes = [
            len(r.measured[benchmark].metrics[metric].scored)
            for r in found.all
            if benchmark in r.measured
            for metric in (RANKING, PAIRWISE)
        ]
        enough = min(sizes) >= PROMPTS if sizes else None
        yield Check(f"{benchmark}: at least {PROMPTS} prompts for each K", enough, str(min(sizes)) if sizes else "-")


def _better(what: str, difference: Row | None) -> Iterator[Check]:
    yield _above(f"{what}, trained minus base", difference, 0)
    of_seeds = [value for value in (difference or {}).get("by_seed", {}).values() if value is not None]
    each = all(value > 0 for value in of_seeds) if of_seeds else None
    yield Check(f"{what}, each seed", each, ", ".join(f"{value:+.3f}" for value in of_seeds) or "-")


def _above(what: str, difference: Row | None, bound: float) -> Check:
    passed = None if difference is None or difference["ci_low"] is None else difference["ci_low"] > bound
    return Check(f"{what}, above {bound:g}", passed, signed(difference))


def _is(row: Row, benchmark: str, arm: str) -> bool:
    return (row["benchmark"], row["arm"]) == (benchmark, arm)


def signed(difference: Row | None) -> str:
    """`+0.031 [+0.012, +0.050]`."""
    if difference is None or difference["value"] is None:
        return "-"
    limits = "" if difference["ci_low"] is None else f" [{difference['ci_low']:+.3f}, {difference['ci_high']:+.3f}]"
    return f"{difference['value']:+.3f}{limits}"
