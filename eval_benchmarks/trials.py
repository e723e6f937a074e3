"""Trials: the scores that a scorer gave to a benchmark in each repetition, and the metrics over all of them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from eval_benchmarks.benchmark import Benchmark, MeanOfMetrics, MeanOverSeeds, Metric
from rag_zeval.budget import Price
from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.rows import StoredRows
from rag_zeval.scorers.score import Scored

COUNTS = ("calls", "cached", "retries", "failures", "seconds")  # fields of a scored example that are summed
TOKENS = ("prompt_tokens", "completion_tokens")  # summed too; known only if the endpoint reports them


def read_scored(path: Path, benchmark: Benchmark) -> StoredRows[Scored]:
    """Open the rows of a row file, after all of them are checked.

    Raises InputError, naming file and row, if a row is malformed or has another number of answers than its example.
    """
    scored = StoredRows(path, Scored.from_row)
    answers = {example.id: len(example.answers) for example in benchmark.examples}
    for row in scored.values():
        if row.id in answers and len(row.scores) != answers[row.id]:
            which = f"{path}: row {row.id!r}"
            raise InputError(f"{which}: field 'scores': has {len(row.scores)}, must have {answers[row.id]}")
    return scored


@dataclass(frozen=True)
class Trial:
    """The scores that one scorer (with one model, if it is a judge) gave to one benchmark.

    file: its row file, relative to the run's folder. number: which repetition of a sampled judge it is, from 0. price:
    of the judge's tokens; None if unknown.
    """

    benchmark: Benchmark
    scorer: str
    model: str | None
    file: str
    identity: str
    prompt_hash: str | None
    scored: Mapping[str, Scored]
    number: int = 0
    price: Price | None = None

    @property
    def label(self) -> str:
        """The names of benchmark, scorer and model, and from the second trial on its number."""
        number = f", trial {self.number + 1}" if self.number else ""
        return f"{self.benchmark.name}, {scorer_name(self.scorer, self.model)}{number}"

    @property
    def has_a_score(self) -> bool:
        """Whether at least one answer has a score."""
        return any(value is not None for scored in self.scored.values() for value in scored.values)


@dataclass(frozen=True, eq=False)
class MetricOverTrials(Metric):
    """A metric over all trials of a scorer, on the instances that at least one of them scored.

    values: of the trials that have one. mean_coverage: the mean over trials of the share of instances scored.
    """

    values: tuple[float, ...]
    mean_coverage: float

    @property
    def sd(self) -> float | None:
        """The sample standard deviation over trials (divided by n - 1). None for fewer than two values."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


@dataclass(frozen=True, eq=False)
class ScorerTrials:
    """The trials of one scorer with one model on one benchmark, and the metrics over them by name."""

    benchmark: Benchmark
    scorer: str
    model: str | None
    trials: tuple[Trial, ...]
    metrics: Mapping[str, MetricOverTrials]

    @property
    def name(self) -> str:
        return scorer_name(self.scorer, self.model)

    @cached_property
    def costs(self) -> Row:
        """The costs, summed over all rows of all trials.

        Seconds are None if nothing was asked, because nothing was timed then. Tokens are those of all replies used;
        unknown ones are left out, and None means that none are known. Dollars are for all calls. They are an upper
        bound if an endpoint did not report some tokens, and None if the price or a row's tokens are unknown.
        """
        costs: Row = {**dict.fromkeys(COUNTS, 0), **dict.fromkeys(TOKENS), "dollars": 0.0}
        for trial in self.trials:
            for scored in trial.scored.values():
                for name in (*COUNTS, *TOKENS):
                    if (amount := getattr(scored, name)) is not None:
                        costs[name] = (costs[name] or 0) + amount
                paid = trial.price.paid(scored.paid_tokens) if trial.price else None
                costs["dollars"] = None if paid is None or costs["dollars"] is None else costs["dollars"] + paid
        asked = costs["calls"] or costs["cached"]
        return {**costs, "seconds": round(costs["seconds"], 3) if asked else None}


def scorer_name(scorer: str, model: str | None) -> str:
    """Return `SCORER by MODEL`, or the scorer alone if it has no model."""
    return " by ".join(filter(None, (scorer, model)))


@dataclass(frozen=True, eq=False)
class BenchResults:
    """Everything that a run measured, from which the tables, files and figures are made.

    draws: of the bootstrap in every interval and test.
    """

    scorers: Sequence[ScorerTrials]
    draws: int

    @cached_property
    def by_benchmark(self) -> dict[str, list[ScorerTrials]]:
        """The scorers of each benchmark, by its name, in their order in `scorers`."""
        groups: dict[str, list[ScorerTrials]] = {}
        for scorer in self.scorers:
            groups.setdefault(scorer.benchmark.name, []).append(scorer)
        return groups


def group_trials(trials: Iterable[Trial]) -> list[ScorerTrials]:
    """Group the trials that differ only in their number.

    The groups are ordered by benchmark, then by scorer, as each first appears.
    """
    trials = list(trials)
    benchmarks = list(dict.fromkeys(trial.benchmark.name for trial in trials))
    groups: dict[tuple[str, str, str | None], list[Trial]] = {}
    for trial in sorted(trials, key=lambda trial: (benchmarks.index(trial.benchmark.name), trial.number)):
        groups.setdefault((trial.benchmark.name, trial.scorer, trial.model), []).append(trial)
    return [
        ScorerTrials(own[0].benchmark, scorer, model, tuple(own), _over_trials(own))
        for (_, scorer, model), own in groups.items()
    ]


def over_seeds(seeds: Sequence[ScorerTrials]) -> ScorerTrials:
    """Combine one scorer's results with models that differ only in their training seed.

    The metrics are means over the models. There must be at least one model; a single one is returned as it is. A metric
    that a model lacks is left out.
    """
    first, *others = seeds
    if not others:
        return first
    metrics = {}
    for name in (name for name in first.metrics if all(name in one.metrics for one in others)):
        of_seeds = [one.metrics[name] for one in seeds]
        metrics[name] = MetricOverTrials(
            name,
            MeanOverSeeds(tuple(of_seeds)),
            np.logical_or.reduce([metric.scored for metric in of_seeds]),
            values=tuple(value for metric in of_seeds for value in metric.values),
            mean_coverage=sum(metric.mean_coverage for metric in of_seeds) / len(of_seeds),
        )
    trials = tuple(trial for one in seeds for trial in one.trials)
    return ScorerTrials(first.benchmark, first.scorer, first.model, trials, metrics)


def _over_trials(trials: Sequence[Trial]) -> dict[str, MetricOverTrials]:
    """Return the metrics over trials, by name.

    If only some trials have a metric (no reply could be read in the others), it is taken over those.
    """
    by_name: dict[str, list[Metric]] = {}
    for trial in trials:
        for metric in trial.benchmark.metrics(trial.scored):
            by_name.setdefault(metric.name, []).append(metric)
    over_trials = {}
    for name, metrics in by_name.items():
        values = {metric: metric.value for metric in metrics}
        defined = {metric: value for metric, value in values.items() if not math.isnan(value)}
        over_trials[name] = MetricOverTrials(
            name,
            metrics[0].statistic if len(metrics) == 1 else MeanOfMetrics(tuple(defined)),
            np.logical_or.reduce([metric.scored for metric in metrics]),
            values=tuple(defined.values()),
            mean_coverage=sum(metric.coverage for metric in metrics) / len(trials),
        )
    return over_trials
