"""An experiment's results as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from experiments.checks import Check, missing, signed
from experiments.estimates import PAIRWISE, RANKING, VERDICTS, Found
from experiments.plan import BASE, Experiment
from rag_zeval.files import Row

HEADLINES = (RANKING, PAIRWISE, VERDICTS)
NONE = "-"
SHORT = 12  # digits of a hash that are shown


def markdown(
    experiment: Experiment, found: Found, rows: Sequence[Row], made: Sequence[Check], figures: Sequence[str], draws: int
) -> str:
    """All of tables.md; `figures` are lines of Markdown."""
    parts = [f"# {experiment.name}", _how(experiment, found, draws)]
    if absent := missing(experiment, found):
        parts.append(f"**Missing, not yet run:** {', '.join(absent)}.")
    parts.append("## Checks\n\n" + "\n".join(f"- {check.line}" for check in made))
    for title, arms in experiment.tables.items():
        shown = (BASE, experiment.reference, *arms)
        own = [row for row in rows if row["arm"] in shown and row["metric"] in HEADLINES]
        said = "\n".join(f"- {line}" for line in _directions(experiment, rows, arms))
        parts.append(f"## {title}\n\n{said}\n\n{_table(_heads(experiment), _cells(experiment, own))}")
    parts += figures
    for benchmark in experiment.benchmarks:
        own = [row for row in rows if row["benchmark"] == benchmark]
        parts.append(f"## {benchmark}, all metrics\n\n{_table(_heads(experiment), _cells(experiment, own))}")
    heads = ["arm", "seed", "rows", "steps", "minutes", "model"]
    parts.append(f"## What was trained\n\n{_table(heads, _spent(found))}")
    return "\n\n".join(parts) + "\n"


def _how(experiment: Experiment, found: Found, draws: int) -> str:
    seeds = ", ".join(map(str, experiment.seeds))
    base = found.base.row["base"][:SHORT] if found.base else "not measured yet"
    answers = sorted({result.row["answers"][:SHORT] for result in found.all if result.row["answers"]})
    lines = [
        f"Seeds {seeds}; base model {base}; training answers {', '.join(answers) or 'not made yet'}.",
        f"Intervals: 95%, hierarchical bootstrap over seeds and prompts, {draws} draws; what is compared is drawn with "
        "the same prompts. n: prompts that all the models of a value gave a readable judgement on, and their share; "
        '"(unread: wrong)" counts the others as wrong. Few seeds show only part of the variance between seeds: '
        "where seeds differ more than prompts do, an interval is too narrow. So each seed's value stands beside it, "
        "and by seeds alone (t), Student's 95% interval of the differences from the base, each seed one value.",
    ]
    if experiment.tables:
        lines.append(
            f"The paper finds {experiment.reference} better than every other arm. Direction: **holds** if the interval "
            f"of {experiment.reference} minus the arm lies above 0, **reversed** if below, else **not seen**."
        )
    if len(answers) > 1:
        lines.append("**The arms were not all trained on the same answers.**")
    return "\n\n".join(lines)


def _directions(experiment: Experiment, rows: Sequence[Row], arms: Iterable[str]) -> Iterator[str]:
    """For each arm, where the paper's direction is seen: `best-only: holds for ...; not seen for ...`."""
    for arm in arms:
        own = [row for row in rows if row["arm"] == arm and row["metric"] in HEADLINES and row["direction"]]
        said = []
        for verdict in ("holds", "reversed", "not seen"):
            where = [f"{row['benchmark']} {row['metric']}" for row in own if row["direction"] == verdict]
            said += [f"**{verdict}** for {', '.join(where)}"] if where else []
        yield f"{experiment.reference} better than {arm}: {'; '.join(said) or 'missing, not yet run'}."


def _heads(experiment: Experiment) -> list[str]:
    heads = ["benchmark", "metric", "arm", "mean over seeds", "each seed", "minus base", "by seeds alone (t)"]
    return [*heads, *([f"{experiment.reference} minus arm", "direction"] if experiment.tables else []), "n", "coverage"]


def _cells(experiment: Experiment, rows: Sequence[Row]) -> Iterator[list[str]]:
    for row in rows:
        against = [signed(row["reference_minus"]), row["direction"] or NONE] if experiment.tables else []
        yield [
            row["benchmark"],
            row["metric"],
            row["arm"],
            _value(row),
            NONE if row["arm"] == BASE else ", ".join(_number(value) for value in row["by_seed"].values()),
            signed(row["minus_base"]),
            _by_seeds(row["minus_base"]),
            *against,
            str(row["n"]),
            f"{row['coverage']:.1%}",
        ]


def _spent(found: Found) -> Iterator[list[str]]:
    for result in found.all:
        row = result.row
        counts = [", ".join(f"{stage} {n:g}" for stage, n in row[key].items()) for key in ("rows", "steps", "minutes")]
        shared = f" ({row['jobs']} at once)" if row["jobs"] > 1 else ""
        yield [
            row["arm"],
            NONE if row["seed"] is None else str(row["seed"]),
            *counts[:2],
            counts[2] + shared,
            row["model"][:SHORT],
        ]


def _value(row: Row) -> str:
    limits = "" if row["ci_low"] is None else f" [{row['ci_low']:.3f}, {row['ci_high']:.3f}]"
    return _number(row["value"]) + limits


def _by_seeds(difference: Row | None) -> str:
    if difference is None or difference["t_low"] is None:
        return NONE
    return f"{difference['t_low']:+.3f} to {difference['t_high']:+.3f}"


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * len(heads)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, rule, *lines])
