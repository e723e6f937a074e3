"""From result files to numbers with intervals: each arm, beside the base and beside the reference arm."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from eval_benchmarks.benchmark import Metric
from experiments.arm_commands import BASE, Experiment
from experiments.arm_results import ArmResult, ArmResults
from rag_zeval.files import Row
from rag_zeval.statistics.bootstrap import Ratio, hierarchical_interval

RANKING, PAIRWISE, VERDICTS = "ranking_accuracy", "pairwise_middle", "verdict_accuracy"
UNREAD = " (unread: wrong)"  # a reply that cannot be read counts as a wrong ranking, and no prompt is left out


def estimates(experiment: Experiment, results: ArmResults) -> list[Row]:
    """A row for each benchmark, metric and arm (BASE among them) that there is a value of.

    `value`: mean over seeds, with its interval, and `by_seed`. `minus_base`: the arm minus the base, and
    `reference_minus`: the reference arm minus this one; each a value with interval, n, coverage and by_seed (only if
    there is one base: a difference of arms has no common seeds), or None. `direction` of `reference_minus`: "holds" if
    its interval lies above 0, "reversed" if below, else "not seen".
    """
    rows: list[Row] = []
    draws, seed = experiment.draws, experiment.draws_seed
    for benchmark in experiment.benchmarks:
        for metric in _metric_names(results, benchmark):
            of_arms = {arm: _metrics(of.values(), benchmark, metric) for arm, of in results.items()}
            base, reference = of_arms[BASE], of_arms[experiment.reference]
            for arm, own in of_arms.items():
                if not own:
                    continue
                compared, seeds = arm not in (BASE, experiment.reference), list(results[arm])
                row: Row = {"benchmark": benchmark, "metric": metric, "arm": arm}
                row |= estimate([], own, draws, seed, seeds)
                row["minus_base"] = estimate(base, own, draws, seed, seeds) if arm != BASE and base else None
                row["reference_minus"] = estimate(own, reference, draws, seed) if compared and reference else None
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
    limits = hierarchical_interval([m.statistic for m in first], [m.statistic for m in second], keep, draws, seed)
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


def _metric_names(results: ArmResults, benchmark: str) -> list[str]:
    every = [result for of in results.values() for result in of.values()]
    names = dict.fromkeys(name for result in every for name in result.metrics.get(benchmark, ()))
    return [both for name in names for both in ((name, name + UNREAD) if name in (RANKING, PAIRWISE) else (name,))]


def _metrics(results: Iterable[ArmResult], benchmark: str, name: str) -> list[Metric]:
    """The metric of each result; none if one of them does not have it."""
    metrics = [result.metrics.get(benchmark, {}).get(name.removesuffix(UNREAD)) for result in results]
    there = [metric for metric in metrics if metric is not None]
    if len(there) < len(metrics):
        return []
    return [_unread_wrong(metric) for metric in there] if name.endswith(UNREAD) else there


def _unread_wrong(metric: Metric) -> Metric:
    """The mean over all instances, those without a score counted as 0."""
    assert isinstance(metric.statistic, Ratio), metric.name
    top, ones = np.where(metric.scored, metric.statistic.top, 0.0), np.ones(len(metric.scored))
    return Metric(metric.name + UNREAD, Ratio(top, ones), ones.astype(bool))


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
