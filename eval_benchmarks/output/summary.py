"""The rows of summary.json, computed from the scored examples."""

import math
from typing import Any

from eval_benchmarks.benchmark import Benchmark, Metric
from eval_benchmarks.output.published import PUBLISHED
from eval_benchmarks.trials import BenchResults, ScorerTrials
from rag_zeval.files import Row
from rag_zeval.statistics.bootstrap import interval, paired_interval

HUMAN = "human"  # the scorer of rows that compare annotators with each other
IN_PRINT = "published"  # the scorer of rows with values that others published
KEYS = (
    "benchmark scorer model metric value sd ci_low ci_high trials n coverage calls cached retries failures seconds "
    "prompt_tokens completion_tokens dollars published prompt_hash data_hash files minus"
).split()


def summary_rows(results: BenchResults) -> list[Row]:
    """Return rows by benchmark, scorer and metric: those of each model, then the differences between models.

    A difference "B minus A" is that of a later model B and the first model A. The trials of a model are one row: the
    mean of their values, its interval, and `sd` over the trials. A difference is computed on the instances that both
    models scored. Its interval uses the same resamples for both.

    n: instances that have a score in at least one trial. coverage: the mean over trials of their share of all
    instances. Costs are sums over trials. minus: A in "B minus A". Undefined and unknown values are None.

    The rows of a benchmark end with those about annotators, then published values. The `model` of a published value
    says whose it is and where it was published.
    """
    rows: list[Row] = []
    for scorers in results.by_benchmark.values():
        for scorer in dict.fromkeys(one.scorer for one in scorers):
            models = [one for one in scorers if one.scorer == scorer]
            for name in dict.fromkeys(name for model in models for name in model.metrics):
                first, *later = having = [model for model in models if name in model.metrics]
                rows += [_value_row(results, model, name) for model in having]
                rows += [_difference_row(results, first, model, name) for model in later]
        benchmark = scorers[0].benchmark
        for metric in benchmark.human:
            rows.append(_row(benchmark, HUMAN, None, metric.name, files=[], **_measured(results, metric)))
        for printed in benchmark.published:
            for judge, value in printed.values.items():
                model = f"{judge} ({printed.source})"
                rows.append(_row(benchmark, IN_PRINT, model, printed.metric, published=value, files=[]))
    return rows


def _value_row(results: BenchResults, scorer: ScorerTrials, name: str) -> Row:
    metric = scorer.metrics[name]
    known = {
        **_measured(results, metric),
        "sd": metric.sd,
        "trials": len(scorer.trials),
        "coverage": metric.mean_coverage,
        "prompt_hash": scorer.trials[0].prompt_hash,
        "files": _files(scorer),
    }
    return _row(scorer.benchmark, scorer.scorer, scorer.model, name, **known, **scorer.costs)


def _difference_row(results: BenchResults, first: ScorerTrials, later: ScorerTrials, name: str) -> Row:
    before, after = first.metrics[name], later.metrics[name]
    both = before.scored & after.scored
    value = after.statistic.point(both) - before.statistic.point(both) if both.any() else math.nan
    limits = paired_interval(before.statistic, after.statistic, both, results.draws, seed=0)
    known = {
        **_defined(value, limits),
        "n": int(both.sum()),
        "coverage": float(both.mean()),
        "files": _files(first) + _files(later),
        "published": None,
        "minus": first.model,
    }
    return _row(later.benchmark, later.scorer, f"{later.model} minus {first.model}", name, **known)


def _row(benchmark: Benchmark, scorer: str, model: str | None, metric: str, **known: Any) -> Row:
    names = {"benchmark": benchmark.name, "scorer": scorer, "model": model, "metric": metric}
    published = PUBLISHED.get((benchmark.name, scorer, metric))
    return {**dict.fromkeys(KEYS), **names, "published": published, "data_hash": benchmark.data_hash, **known}


def _measured(results: BenchResults, metric: Metric) -> Row:
    limits = interval(metric.statistic, metric.scored, results.draws, seed=0)
    return {**_defined(metric.value, limits), "n": metric.n, "coverage": metric.coverage}


def _defined(value: float, limits: tuple[float, float] | None) -> Row:
    if math.isnan(value):
        return {}
    low, high = limits or (None, None)
    return {"value": value, "ci_low": low, "ci_high": high}


def _files(scorer: ScorerTrials) -> list[str]:
    return [trial.file for trial in scorer.trials]
