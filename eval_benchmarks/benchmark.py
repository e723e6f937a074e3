"""Benchmarks: examples to score, and metrics that are computed from the scores."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from pydantic import ConfigDict, FiniteFloat

from rag_zeval.judge.example import Example
from rag_zeval.scorers.score import Scored, Scorer
from rag_zeval.stages.config import Section, Text
from rag_zeval.statistics.bootstrap import Clusters, Mask, Ratio, Statistic, columns_of, mean, mean_over_seeds
from rag_zeval.statistics.weighted_correlations import Floats

FETCH = "`make data` gets it"  # ends a line about missing public data
Pair = tuple[float | None, float | None]  # scores of the better answer and of the other


@dataclass(frozen=True, eq=False)
class Metric:
    """A statistic over the instances of a benchmark.

    scored: (instances,), which of them the statistic can be computed on.
    """

    name: str
    statistic: Statistic
    scored: Mask

    @property
    def value(self) -> float:
        """The statistic on the scored instances. NaN if there are none, or if it is undefined on them."""
        return self.statistic.point(self.scored) if self.scored.any() else math.nan

    @property
    def n(self) -> int:
        """How many instances are scored."""
        return int(self.scored.sum())

    @property
    def coverage(self) -> float:
        """The share of all instances that are scored, from 0 to 1."""
        return float(self.scored.mean())


@dataclass(frozen=True, eq=False)
class MeanOfMetrics(Statistic):
    """The mean of several metrics, each computed on the instances that it scored.

    The metrics belong to several trials, or to several data sets that have their own instances. A resample takes the
    same instances for all metrics. So what they share is resampled once.
    """

    metrics: tuple[Metric, ...]

    @property
    def clusters(self) -> Clusters | None:
        return next((getattr(metric.statistic, "clusters", None) for metric in self.metrics), None)

    def point(self, keep: Mask) -> float:
        return float(np.mean([m.statistic.point(keep & m.scored) for m in self._within(keep)] or [np.nan]))

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        """Return the mean in each draw (draws,). It is NaN in a draw in which one of the metrics is undefined."""
        each = [m.statistic.draws(keep & m.scored, weights[:, self._columns(m, keep)]) for m in self._within(keep)]
        return np.mean(each or [np.full(len(weights), np.nan)], axis=0)

    def instances(self, keep: Mask) -> Floats | None:
        """Return each kept instance's mean over the metrics.

        None unless every metric scored all kept instances and is itself a mean over instances.
        """
        each = [m.statistic.instances(keep) for m in self.metrics if (m.scored | ~keep).all()]
        whole = [values for values in each if values is not None]
        return np.mean(whole, axis=0) if whole and len(whole) == len(self.metrics) else None

    def _within(self, keep: Mask) -> list[Metric]:
        return [m for m in self.metrics if (keep & m.scored).any()]

    def _columns(self, metric: Metric, keep: Mask) -> Clusters:
        """Return the indices of the columns of `weights` that belong to instances which the metric scored."""
        return np.unique(columns_of(self, keep)[metric.scored[keep]])


@dataclass(frozen=True, eq=False)
class MeanOverSeeds(MeanOfMetrics):
    """The mean of a metric over models that differ only in their training seed.

    A draw resamples the seeds as well as the instances, and all models get the same instances. `hierarchical_draws`
    says how far few seeds can be trusted.
    """

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        each = [m.statistic.draws(keep & m.scored, weights[:, self._columns(m, keep)]) for m in self._within(keep)]
        return mean_over_seeds(each or [np.full(len(weights), np.nan)], seed=1)

    def instances(self, keep: Mask) -> Floats | None:
        return None  # the seeds differ from draw to draw too


class Described(Section):
    """A description of a data set in YAML, or a part of one. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class PublishedValues(Described):
    """Values of one metric that others published for this benchmark.

    values: by the name of the judge. source: where they were published.
    """

    metric: Text
    source: Text
    values: dict[str, FiniteFloat]


class Benchmark(Protocol):
    """What every benchmark has.

    A class that inherits from this gets the defaults. Any other class with the same attributes is a benchmark too.

    data_hash: changes with anything that can change a score or a label.
    world: the generated world that the examples are about. A judge whose card names a world can judge no other texts.
    shipped: scorers whose values come with the data. Their rows are always in the tables.
    human: metrics of one annotator against another. no_human: why the data allow none.
    published: values that other people's judges reached. about: lines that a reader of the tables needs.
    alphas: the α of each answer, by the example's id, if the answers are by context-aware decoding.
    absolute: each answer has a label of its own. A ranking then says nothing about it, and a reference that is too long
    for a model can be judged in pieces.
    """

    name: str
    examples: list[Example]
    data_hash: str
    world: str | None = None
    shipped: tuple[Scorer, ...] = ()
    human: tuple[Metric, ...] = ()
    no_human: str | None = None
    published: Sequence[PublishedValues] = ()
    about: tuple[str, ...] = ()
    alphas: Mapping[str, Sequence[float]] = {}
    absolute: bool = False

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        """Compute the metrics from the scored examples, by id. An example without a score leaves its instance out."""


def mean_metric(name: str, values: Sequence[float | None]) -> Metric:
    """Return the mean over instances as a metric. None is an instance without a value."""
    return Metric(name, *mean(values))


def ratio_metric(name: str, counts: Sequence[tuple[int, int] | None]) -> Metric:
    """Return the sum of the first counts divided by the sum of the second as a metric, such as a rate over claims.

    None is an instance without a value.
    """
    pairs = np.array([pair or (0, 0) for pair in counts], dtype=float).reshape(-1, 2)
    scored = np.array([pair is not None for pair in counts], dtype=bool)
    return Metric(name, Ratio(pairs[:, 0], pairs[:, 1]), scored)


def better_first(scored: Scored | None, first_is_better: bool) -> Pair | None:
    """Return the scores of an example's two answers, that of the better answer first. None if `scored` is None."""
    if scored is None:
        return None
    first, second = scored.values
    return (first, second) if first_is_better else (second, first)


def pairwise_metrics(pairs: Sequence[Pair | None], prefix: str = "") -> list[Metric]:
    """Return how often the better answer has the higher score, as three metrics that count ties differently.

    A tie counts 1 (best), 1/2 (middle) or 0 (worst), as in Ispas et al. 2025, arXiv:2503.16161, section 4.2. pairs:
    what `better_first` returns, one for each instance.
    """
    ties = {"best": 1.0, "middle": 0.5, "worst": 0.0}
    return [mean_metric(f"{prefix}pairwise_{name}", [_wins(pair, tie) for pair in pairs]) for name, tie in ties.items()]


def _wins(pair: Pair | None, tie: float) -> float | None:
    if pair is None or pair[0] is None or pair[1] is None:
        return None
    return tie if pair[0] == pair[1] else float(pair[0] > pair[1])


def examples_hash(examples: Sequence[Example], labels: Any) -> str:
    """Return the sha256 (hex) of the examples and of what is known about them."""
    content = json.dumps([[_own_fields(example) for example in examples], labels], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _own_fields(example: Example) -> dict[str, Any]:
    """Return the fields of an example, except those that only repeat its reference or have their default."""
    silent = {
        "truth": (None, example.reference),
        "chunks": ((), (example.reference,)),
        "reference_kind": ("reference",),
        "unanswered": ((),),
    }
    return {name: value for name, value in asdict(example).items() if value not in silent.get(name, ())}
