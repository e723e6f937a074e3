"""From scored examples to the rows of summary.json."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from eval_benchmarks.benchmark import Benchmark, Metric, Published
from eval_benchmarks.output.published import PUBLISHED
from eval_benchmarks.trials import ScorerTrials, by_benchmark
from rag_zeval.files import Row
from rag_zeval.statistics.bootstrap import interval, paired_interval

HUMAN = "human"  # the scorer of rows that compare annotators with each other
IN_PRINT = "published"  # and of values that others print
KEYS = (
    "benchmark scorer model metric value sd ci_low ci_high trials n coverage calls cached retries failures seconds "
    "prompt_tokens completion_tokens dollars published prompt_hash data_hash files minus"
).split()


def summary_rows(scorers: Iterable[ScorerTrials], draws: int, seed: int) -> list[Row]:
    """Rows by benchmark, scorer and metric: each model's, then "B minus A" of every later model and the first.

    Trials of one model are one row: the mean of their values, its interval, and `sd` over the trials. A difference is
    taken on the instances both scored, and its interval from the same resamples for both. `n` counts instances that
    have a score in at least one trial, `coverage` is the mean over trials of their share of all; costs are sums over
    trials. What is not defined or not known is None; `minus` is A in "B minus A". Annotators come last, then
    values that others print, whose `model` says whose they are and where.
    """
    rows: list[Row] = []
    for its_scorers in by_benchmark(scorers).values():
        for scorer in dict.fromkeys(one.scorer for one in its_scorers):
            models = [one for one in its_scorers if one.scorer == scorer]
            for name in dict.fromkeys(name for model in models for name in model.estimates):
                first, *later = having = [model for model in models if name in model.estimates]
                rows += [_value_row(model, name, draws, seed) for model in having]
                rows += [_difference_row(first, model, name, draws, seed) for model in later]
        benchmark = its_scorers[0].benchmark
        rows += [_human_row(benchmark, metric, draws, seed) for metric in benchmark.human]
        rows += [_published_row(benchmark, published) for published in benchmark.published]
    return rows


def _value_row(scorer: ScorerTrials, name: str, draws: int, seed: int) -> Row:
    estimate = scorer.estimates[name]
    return _row(
        scorer.benchmark,
        scorer.scorer,
        scorer.model,
        estimate.metric,
        **_value(estimate.metric, draws, seed),
        sd=estimate.sd,
        trials=len(scorer.trials),
        coverage=estimate.coverage,
        prompt_hash=scorer.trials[0].prompt_hash,
        files=_files(scorer),
        **scorer.costs,
    )


def _difference_row(first: ScorerTrials, later: ScorerTrials, name: str, draws: int, seed: int) -> Row:
    before, after = first.estimates[name].metric, later.estimates[name].metric
    both = before.scored & after.scored
    value = after.statistic.point(both) - before.statistic.point(both) if both.any() else math.nan
    limits = paired_interval(before.statistic, after.statistic, both, draws, seed)
    return _row(
        later.benchmark,
        later.scorer,
        f"{later.model} minus {first.model}",
        after,
        **_defined(value, limits),
        n=int(both.sum()),
        coverage=float(both.mean()),
        files=_files(first) + _files(later),
        minus=first.model,
    )


def _human_row(benchmark: Benchmark, metric: Metric, draws: int, seed: int) -> Row:
    values = _value(metric, draws, seed)
    return _row(benchmark, HUMAN, None, metric, **values, coverage=metric.coverage, files=[])


def _published_row(benchmark: Benchmark, published: Published) -> Row:
    names = {"benchmark": benchmark.name, "scorer": IN_PRINT, "model": f"{published.model} ({published.source})"}
    values = {"metric": published.metric, "published": published.value, "data_hash": benchmark.data_hash, "files": []}
    return {**dict.fromkeys(KEYS), **names, **values}


def _row(benchmark: Benchmark, scorer: str, model: str | None, metric: Metric, **known: Any) -> Row:
    published = None if "minus" in known else PUBLISHED.get((benchmark.name, scorer, metric.name))
    names = {"benchmark": benchmark.name, "scorer": scorer, "model": model, "metric": metric.name}
    return {**dict.fromkeys(KEYS), **names, "published": published, "data_hash": benchmark.data_hash, **known}


def _value(metric: Metric, draws: int, seed: int) -> Row:
    limits = interval(metric.statistic, metric.scored, draws, seed)
    return {**_defined(metric.value, limits), "n": metric.n}


def _defined(value: float, limits: tuple[float, float] | None) -> Row:
    if math.isnan(value):
        return {}
    low, high = limits or (None, None)
    return {"value": value, "ci_low": low, "ci_high": high}


def _files(scorer: ScorerTrials) -> list[str]:
    return [f"rows/{trial.file}" for trial in scorer.trials]
