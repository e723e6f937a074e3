"""From result files to numbers with intervals: each arm, beside the base and beside the reference arm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eval_benchmarks.benchmark import Metric
from experiments.arm_results import Result, read_result
from experiments.plan import BASE, Experiment
from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.statistics.bootstrap import Ratio, hierarchical_interval

RANKING, PAIRWISE, VERDICTS = "ranking_accuracy", "pairwise_middle", "verdict_accuracy"
UNREAD = " (unread: wrong)"  # a reply that cannot be read counts as a wrong ranking, and no prompt is left out


@dataclass(frozen=True)
class Found:
    """The result files of an experiment: `arms[arm][seed]` for each arm, with those seeds there are."""

    base: Result | None
    arms: Mapping[str, Mapping[int | None, Result]]

    def of(self, arm: str) -> dict[int | None, Result]:
        """By seed; BASE, which has none, by None."""
        if arm == BASE:
            return {None: self.base} if self.base else {}
        return dict(self.arms[arm])

    @property
    def all(self) -> list[Result]:
        return [result for arm in (BASE, *self.arms) for result in self.of(arm).values()]


def read_results(experiment: Experiment) -> Found:
    """All result files of the experiment's arms and seeds that are there.

    Raises InputError for files that cannot be compared: another base model, or other benchmark data.
    """
    path = experiment.result(BASE)
    base = read_result(path) if path.exists() else None
    arms: dict[str, dict[int | None, Result]] = {}
    for arm in experiment.arms:
        there = [(seed, experiment.result(arm, seed)) for seed in experiment.seeds]
        arms[arm] = {seed: read_result(path) for seed, path in there if path.exists()}
        for seed, result in arms[arm].items():
            if base is not None:
                _check_comparable(base, result, f"{experiment.result(arm, seed)}: cannot be compared with {path.name}")
    return Found(base, arms)


def _check_comparable(base: Result, result: Result, line: str) -> None:
    if base.row["base"] != result.row["base"]:
        raise InputError(f"{line}: it starts from another model")
    for name, measured in result.measured.items():
        if name in base.measured and base.measured[name].data_hash != measured.data_hash:
            raise InputError(f"{line}: {name} has other data")


def estimates(experiment: Experiment, found: Found, draws: int, seed: int) -> list[Row]:
    """A row for each benchmark, metric and arm (BASE among them) that there is a value of.

    `value`: mean over seeds, with its interval, and `by_seed`. `minus_base`: the arm minus the base, and
    `reference_minus`: the reference arm minus this one; each a value with interval, n, coverage and by_seed (only if
    there is one base: a difference of arms has no common seeds), or None. `direction` of `reference_minus`: "holds" if
    its interval lies above 0, "reversed" if below, else "not seen".
    """
    rows: list[Row] = []
    reference, base = found.of(experiment.reference).values(), found.of(BASE).values()
    for benchmark in experiment.benchmarks:
        for metric in _metric_names(found.all, benchmark):
            first, best = _models(base, benchmark, metric), _models(reference, benchmark, metric)
            for arm in (BASE, *found.arms):
                results = found.of(arm)
                own = _models(results.values(), benchmark, metric)
                if not own:
                    continue
                compared = arm not in (BASE, experiment.reference)
                row: Row = {"benchmark": benchmark, "metric": metric, "arm": arm}
                row |= estimate([], own, draws, seed, [*results])
                row["minus_base"] = estimate(first, own, draws, seed, [*results]) if arm != BASE and first else None
                row["reference_minus"] = estimate(own, best, draws, seed) if compared and best else None
                row["direction"] = direction(row["reference_minus"])
                rows.append(row)
    return rows


def estimate(
    first: Sequence[Metric], second: Sequence[Metric], draws: int, seed: int, seeds: Sequence[int | None] = ()
) -> Row:
    """Mean of `second` minus mean of `first` (0 if there is none), on the instances that all of them scored.

    `value`, `ci_low`, `ci_high` (None if undefined), `n` instances, `coverage` of all, and with `seeds`, the names of
    the models of `second`, `by_seed`: each one's value minus the mean of `first`, and `t_low`, `t_high`: Student's 95%
    interval of their mean, from the spread between seeds alone, which few seeds do not make too narrow.
    """
    models = [*first, *second]
    keep = np.logical_and.reduce([model.scored for model in models])
    known = bool(keep.any())
    minus = _mean([model.statistic.point(keep) for model in first]) if known and first else 0.0
    points = [model.statistic.point(keep) - minus if known else math.nan for model in second]
    value = _mean(points)
    limits = hierarchical_interval([_ratio(m) for m in first], [_ratio(m) for m in second], keep, draws, seed)
    low, high = limits if limits and not math.isnan(value) else (None, None)
    row: Row = {"value": _defined(value), "ci_low": low, "ci_high": high}
    row |= {"n": int(keep.sum()), "coverage": float(keep.mean())}
    if seeds:
        row["by_seed"] = {str(name): _defined(point) for name, point in zip(seeds, points, strict=True)}
        row["t_low"], row["t_high"] = _t_interval(points)
    return row


def direction(difference: Row | None) -> str | None:
    """Whether the reference arm is the better one, as the paper has it."""
    if difference is None or difference["ci_low"] is None:
        return None
    if difference["ci_low"] > 0:
        return "holds"
    return "reversed" if difference["ci_high"] < 0 else "not seen"


def _metric_names(results: Sequence[Result], benchmark: str) -> list[str]:
    names = dict.fromkeys(m for r in results if benchmark in r.measured for m in r.measured[benchmark].metrics)
    return [both for name in names for both in ((name, name + UNREAD) if name in (RANKING, PAIRWISE) else (name,))]


def _models(results: Iterable[Result], benchmark: str, name: str) -> list[Metric]:
    """The metric of each result; none if one of them does not have it."""
    found = [_metric(result, benchmark, name) for result in results]
    return [] if None in found else [metric for metric in found if metric]


def _metric(result: Result, benchmark: str, name: str) -> Metric | None:
    measured = result.measured.get(benchmark)
    metric = measured.metrics.get(name.removesuffix(UNREAD)) if measured else None
    if metric is None or not name.endswith(UNREAD):
        return metric
    ratio, everything = _ratio(metric), np.ones(len(metric.scored), dtype=bool)
    return Metric(name, Ratio(np.where(metric.scored, ratio.top, 0.0), np.ones(len(everything))), everything)


def _ratio(metric: Metric) -> Ratio:
    assert isinstance(metric.statistic, Ratio), metric.name  # a result file holds nothing else
    return metric.statistic


def _t_interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Student's 95% interval of the mean; (None, None) for fewer than two values or an undefined one."""
    from scipy import stats

    if len(values) < 2 or math.isnan(sum(values)):
        return None, None
    half = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return _mean(values) - half, _mean(values) + half


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value
