"""Computes each arm's metrics from result files, and its differences from the base and from the reference arm."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from eval_benchmarks.benchmark import Metric
from experiments.arm_commands import BASE, Experiment
from experiments.arm_results import ArmResult, ArmResults
from rag_zeval.files import Row
from rag_zeval.statistics.bootstrap import Ratio, hierarchical_interval

RANKING, PAIRWISE, VERDICTS = "ranking_accuracy", "pairwise_middle", "verdict_accuracy"
UNREAD = " (unread: wrong)"  # an unreadable reply counts as a wrong ranking, so no prompt is left out


def estimates(experiment: Experiment, results: ArmResults) -> list[Row]:
    """Return a row for each benchmark, metric and arm (BASE included) for which there is a value.

    Each row holds what `estimate` returns: `value`, the mean over seeds, with its interval and `by_seed`. `minus_base`
    is the arm minus the base. `reference_minus` is the reference arm minus this arm. It has no `by_seed`, because the
    seeds of two arms are not paired. Both are None where there is nothing to compare. `direction` is that of
    `reference_minus`.
    """
    rows: list[Row] = []
    draws = experiment.draws
    for benchmark in experiment.benchmarks:
        for metric in _metric_names(results, benchmark):
            of_arms = {arm: _metrics(of.values(), benchmark, metric) for arm, of in results.items()}
            base, reference = of_arms[BASE], of_arms[experiment.reference]
            for arm, own in of_arms.items():
                if not own:
                    continue
                compared, seeds = arm not in (BASE, experiment.reference), list(results[arm])
                row: Row = {"benchmark": benchmark, "metric": metric, "arm": arm}
                row |= estimate([], own, draws, seeds)
                row["minus_base"] = estimate(base, own, draws, seeds) if arm != BASE and base else None
                row["reference_minus"] = estimate(own, reference, draws) if compared and reference else None
                row["direction"] = direction(row["reference_minus"])
                rows.append(row)
    return rows


def estimate(first: Sequence[Metric], second: Sequence[Metric], draws: int, seeds: Sequence[int | None] = ()) -> Row:
    """Return the mean of `second` minus the mean of `first`, on the instances that all of them scored.

    An empty `first` counts as 0. The row has `value`, `ci_low` and `ci_high` (None if undefined), `n` instances, and
    `coverage`, their share of all instances. `seeds` names the models of `second`. If it is given, the row also has
    `by_seed`: each model's value minus the mean of `first`. `t_low` and `t_high` are then Student's 95% interval of
    the mean of these values. It uses only the spread between seeds, and few seeds do not make it too narrow.
    """
    models = [*first, *second]
    keep = np.logical_and.reduce([model.scored for model in models])
    known = bool(keep.any())
    minus = _mean([model.statistic.point(keep) for model in first]) if known and first else 0.0
    points = [model.statistic.point(keep) - minus if known else math.nan for model in second]
    value = _mean(points)
    limits = hierarchical_interval([m.statistic for m in first], [m.statistic for m in second], keep, draws, seed=0)
    low, high = limits if limits and not math.isnan(value) else (None, None)
    row: Row = {"value": _defined(value), "ci_low": low, "ci_high": high}
    row |= {"n": int(keep.sum()), "coverage": float(keep.mean())}
    if seeds:
        row["by_seed"] = {str(name): _defined(point) for name, point in zip(seeds, points, strict=True)}
        row["t_low"], row["t_high"] = _t_interval(points)
    return row


def direction(difference: Row | None) -> str | None:
    """Say whether the reference arm is better than another arm, as the paper reports.

    difference: the reference arm minus the other. Returns "holds" if its interval lies above 0, "reversed" if it lies
    below 0, else "not seen". Returns None without an interval.
    """
    if difference is None or difference["ci_low"] is None:
        return None
    if difference["ci_low"] > 0:
        return "holds"
    return "reversed" if difference["ci_high"] < 0 else "not seen"


def _metric_names(results: ArmResults, benchmark: str) -> list[str]:
    every = [result for of in results.values() for result in of.values()]
    names = dict.fromkeys(name for result in every for name in result.metrics.get(benchmark, ()))
    return [both for name in names for both in ((name, name + UNREAD) if name in (RANKING, PAIRWISE) else (name,))]


def _metrics(results: Iterable[ArmResult], benchmark: str, name: str) -> list[Metric]:
    """Return the metric of each result, or an empty list if one of them lacks it."""
    metrics = [result.metrics.get(benchmark, {}).get(name.removesuffix(UNREAD)) for result in results]
    there = [metric for metric in metrics if metric is not None]
    if len(there) < len(metrics):
        return []
    return [_unread_wrong(metric) for metric in there] if name.endswith(UNREAD) else there


def _unread_wrong(metric: Metric) -> Metric:
    """Return the metric as a mean over all instances, where a missing score counts as 0."""
    assert isinstance(metric.statistic, Ratio), metric.name
    top, ones = np.where(metric.scored, metric.statistic.top, 0.0), np.ones(len(metric.scored))
    return Metric(metric.name + UNREAD, Ratio(top, ones), ones.astype(bool))


def _t_interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return Student's 95% interval of the mean, or (None, None) for fewer than two values or an undefined one."""
    from scipy import stats

    if len(values) < 2 or math.isnan(sum(values)):
        return None, None
    half = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return _mean(values) - half, _mean(values) + half


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value
