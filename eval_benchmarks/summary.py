"""From scored examples to the rows of summary.json."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eval_benchmarks.benchmark import Benchmark, Metric
from eval_benchmarks.jobs import Job
from eval_benchmarks.prices import Price
from eval_benchmarks.published import PUBLISHED
from eval_benchmarks.scorers import Scored
from eval_benchmarks.statistics import interval, paired_interval
from rag_zeval.files import Row


@dataclass(frozen=True)
class Result:
    """What one scorer (with one model, if it is a judge) gave to one benchmark; `file` holds the rows."""

    benchmark: Benchmark
    scorer: str
    model: str | None
    file: str
    identity: str
    prompt_hash: str | None
    scored: Mapping[str, Scored]
    trial: int = 0
    price: Price | None = None

    @staticmethod
    def of(job: Job, scored: Mapping[str, Scored], price: Price | None = None) -> Result:
        scorer = job.scorer
        prompt_hash = getattr(scorer, "prompt_hash", None)
        return Result(
            job.benchmark, scorer.name, job.model, job.file, scorer.identity, prompt_hash, scored, job.trial, price
        )


def summary_rows(results: list[Result], draws: int, seed: int) -> list[Row]:
    """Rows by benchmark, scorer and metric: each model's, then "B minus A" of every later model and the first.

    A difference is taken on the instances both scored, and its interval from the same resamples for both. `n` counts
    instances; `coverage` is their share of all. What is not defined or not known is None; `minus` is A in "B minus A".
    """
    rows: list[Row] = []
    for group in _by_benchmark_and_scorer(results):
        metrics = [result.benchmark.metrics(result.scored) for result in group]
        for name in dict.fromkeys(metric.name for own in metrics for metric in own):
            same = [(r, m) for r, own in zip(group, metrics, strict=True) for m in own if m.name == name]
            rows += [_value_row(result, metric, draws, seed) for result, metric in same]
            rows += [_difference_row(same[0], later, draws, seed) for later in same[1:]]
    return rows


def _by_benchmark_and_scorer(results: list[Result]) -> Iterable[list[Result]]:
    benchmarks = list(dict.fromkeys(result.benchmark.name for result in results))
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in sorted(results, key=lambda result: benchmarks.index(result.benchmark.name)):
        groups.setdefault((result.benchmark.name, result.scorer), []).append(result)
    return groups.values()


def _value_row(result: Result, metric: Metric, draws: int, seed: int) -> Row:
    scored = result.scored.values()
    return _row(
        result,
        result.model,
        metric.name,
        metric.statistic.point(metric.scored) if metric.scored.any() else None,
        interval(metric.statistic, metric.scored, draws, seed),
        int(metric.scored.sum()),
        float(metric.scored.mean()),
        calls=sum(s.calls for s in scored),
        cached=sum(s.cached for s in scored),
        prompt_tokens=_total(s.prompt_tokens for s in scored),
        completion_tokens=_total(s.completion_tokens for s in scored),
        published=PUBLISHED.get((result.benchmark.name, result.scorer, metric.name)),
    )


def _difference_row(first: tuple[Result, Metric], later: tuple[Result, Metric], draws: int, seed: int) -> Row:
    (a, before), (b, after) = first, later
    both = before.scored & after.scored
    value = after.statistic.point(both) - before.statistic.point(both) if both.any() else None
    return _row(
        b,
        f"{b.model} minus {a.model}",
        after.name,
        value,
        paired_interval(before.statistic, after.statistic, both, draws, seed),
        int(both.sum()),
        float(both.mean()),
        minus=a.model,
    )


def _row(
    result: Result,
    model: str | None,
    metric: str,
    value: float | None,
    limits: tuple[float, float] | None,
    n: int,
    coverage: float,
    **known: float | str | None,
) -> Row:
    defined = value is not None and not math.isnan(value)
    low, high = limits if defined and limits else (None, None)
    unknown = dict.fromkeys(("calls", "cached", "prompt_tokens", "completion_tokens", "published", "minus"))
    return {
        "benchmark": result.benchmark.name,
        "scorer": result.scorer,
        "model": model,
        "metric": metric,
        "value": value if defined else None,
        "ci_low": low,
        "ci_high": high,
        "n": n,
        "coverage": coverage,
        **unknown,
        **known,
    }


def _total(tokens: Iterable[int | None]) -> int | None:
    """Tokens known to be spent; None if none are known."""
    known = [count for count in tokens if count is not None]
    return sum(known) if known else None
