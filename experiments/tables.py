"""An experiment's results as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.arm_results import ArmResults, missing
from experiments.checks import Check
from experiments.estimates import PAIRWISE, RANKING, VERDICTS
from experiments.markdown import DASH, fill
from experiments.plan import BASE, Experiment
from rag_zeval.files import Row

HEADLINES = (RANKING, PAIRWISE, VERDICTS)
SHORT = 12  # digits of a hash that are shown


def markdown(
    experiment: Experiment, results: ArmResults, rows: Sequence[Row], checks: Sequence[Check], figures: Sequence[str]
) -> str:
    """All of tables.md; `figures` are lines of Markdown."""
    trained = [result.row for of in results.values() for result in of.values()]
    headlines = [row for row in rows if row["metric"] in HEADLINES]
    return fill(
        "tables.md.j2",
        name=experiment.name,
        seeds=experiment.seeds,
        base=next((result.row["base"][:SHORT] for result in results[BASE].values()), None),
        answers=sorted({row["answers"][:SHORT] for row in trained if row["answers"]}),
        draws=experiment.draws,
        reference=experiment.reference,
        tables=experiment.tables,
        missing=missing(experiment, results),
        checks=checks,
        headlines={
            title: [row for row in headlines if row["arm"] in (BASE, experiment.reference, *arms)]
            for title, arms in experiment.tables.items()
        },
        directions={arm: _directions([row for row in headlines if row["arm"] == arm]) for arm in experiment.arms},
        figures=figures,
        benchmarks=experiment.benchmarks,
        rows=rows,
        trained=trained,
        by_seed=_by_seed,
        by_seeds_alone=_by_seeds_alone,
        by_stage=_by_stage,
    )


def _directions(rows: Sequence[Row]) -> str:
    """Where the paper's direction is seen: `**holds** for ...; **not seen** for ...`."""
    parts = []
    for direction in ("holds", "reversed", "not seen"):
        where = [f"{row['benchmark']} {row['metric']}" for row in rows if row["direction"] == direction]
        parts += [f"**{direction}** for {', '.join(where)}"] if where else []
    return "; ".join(parts) or "missing, not yet run"


def _by_seed(values: Mapping[str, float | None]) -> str:
    return ", ".join(DASH if value is None else f"{value:.3f}" for value in values.values())


def _by_seeds_alone(difference: Row | None) -> str:
    if difference is None or difference["t_low"] is None:
        return DASH
    return f"{difference['t_low']:+.3f} to {difference['t_high']:+.3f}"


def _by_stage(numbers: Mapping[str, float]) -> str:
    return ", ".join(f"{stage} {number:g}" for stage, number in numbers.items())
