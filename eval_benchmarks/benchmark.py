"""What a benchmark is: examples to score, and metrics made of the scores."""

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

FETCH = "`make data` gets it"  # the end of a line about public data that are not there
Pair = tuple[float | None, float | None]  # scores of the better answer and of the other


@dataclass(frozen=True, eq=False)
class Metric:
    """A statistic over the benchmark's instances, and which of them it could be computed on."""

    name: str
    statistic: Statistic
    scored: Mask

    @property
    def value(self) -> float:
        """On the instances scored; NaN where there is none, or where it is undefined."""
        return self.statistic.point(self.scored) if self.scored.any() else math.nan

    @property
    def n(self) -> int:
        """How many instances are scored."""
        return int(self.scored.sum())

    @property
    def coverage(self) -> float:
        """Their share of all."""
        return float(self.scored.mean())


@dataclass(frozen=True, eq=False)
class MeanOfMetrics(Statistic):
    """The mean of metrics over the same instances, each on those that it scored: a Statistic like those it is made of.

    Metrics of several trials, or of several data sets (each on its own instances). A draw takes the same instances for
    all, so what they share is drawn once.
    """

    metrics: tuple[Metric, ...]

    @property
    def clusters(self) -> Clusters | None:
        return next((getattr(metric.statistic, "clusters", None) for metric in self.metrics), None)

    def point(self, keep: Mask) -> float:
        return float(np.mean([m.statistic.point(keep & m.scored) for m in self._within(keep)] or [np.nan]))

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        """A draw in which a metric is undefined is undefined."""
        each = [m.statistic.draws(keep & m.scored, weights[:, self._columns(m, keep)]) for m in self._within(keep)]
        return np.mean(each or [np.full(len(weights), np.nan)], axis=0)

    def instances(self, keep: Mask) -> Floats | None:
        """Means over metrics, where all of them scored the same instances."""
        each = [m.statistic.instances(keep) for m in self.metrics if (m.scored | ~keep).all()]
        whole = [values for values in each if values is not None]
        return np.mean(whole, axis=0) if whole and len(whole) == len(self.metrics) else None

    def _within(self, keep: Mask) -> list[Metric]:
        return [m for m in self.metrics if (keep & m.scored).any()]

    def _columns(self, metric: Metric, keep: Mask) -> Clusters:
        """Those of `weights` that belong to instances which the metric scored."""
        return np.unique(columns_of(self, keep)[metric.scored[keep]])


@dataclass(frozen=True, eq=False)
class MeanOverSeeds(MeanOfMetrics):
    """The mean of a metric over models that differ in their training seed alone: a draw takes seeds too, as well as
    instances, the same ones for all models (`hierarchical_draws` says how far few seeds can be trusted).
    """

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        each = [m.statistic.draws(keep & m.scored, weights[:, self._columns(m, keep)]) for m in self._within(keep)]
        return mean_over_seeds(each or [np.full(len(weights), np.nan)], seed=1)

    def instances(self, keep: Mask) -> Floats | None:
        return None  # more than the instances differs from draw to draw


class Described(Section):
    """A description of data, or a part of one. Keys that are not known are refused."""

    model_config = ConfigDict(extra="forbid")


class PublishedValues(Described):
    """Values of one metric that others print for this benchmark, by the name of the judge; source: where."""

    metric: Text
    source: Text
    values: dict[str, FiniteFloat]


class Benchmark(Protocol):
    """What a benchmark has; one that inherits from this has the defaults, any other class may have the same by itself.

    `data_hash` changes with anything that can change a score or a label.

    `shipped` are scorers whose values come with the data: their rows are always in the tables. `world` names the
    generated world the examples are about; a judge whose card names a world knows no other texts. `human` are metrics
    of one annotator against another, a ceiling for scorers; where the data allow none, `no_ceiling` says why.
    `published` are values of others' judges; `about` are lines that a reader of its tables needs.
    `absolute`: each answer has a label of its own, so a ranking says nothing of it, and references that are too long
    for a model can be judged in pieces.
    """

    name: str
    examples: list[Example]
    data_hash: str
    world: str | None = None
    shipped: tuple[Scorer, ...] = ()
    human: tuple[Metric, ...] = ()
    no_ceiling: str | None = None
    published: Sequence[PublishedValues] = ()
    about: tuple[str, ...] = ()
    absolute: bool = False

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        """Metrics from the scored examples by id; an example without a score leaves its instance out."""


def mean_metric(name: str, values: Sequence[float | None]) -> Metric:
    """The mean over instances; None is an instance without a value."""
    return Metric(name, *mean(values))


def ratio_metric(name: str, counts: Sequence[tuple[int, int] | None]) -> Metric:
    """Sum of the first counts over sum of the second (a rate over claims); None is an instance without a value."""
    pairs = np.array([pair or (0, 0) for pair in counts], dtype=float).reshape(-1, 2)
    scored = np.array([pair is not None for pair in counts], dtype=bool)
    return Metric(name, Ratio(pairs[:, 0], pairs[:, 1]), scored)


def better_first(scored: Scored | None, first_is_better: bool) -> Pair | None:
    """The scores of an example's two answers, that of the better one first; None without scores."""
    if scored is None:
        return None
    first, second = scored.values
    return (first, second) if first_is_better else (second, first)


def pairwise_metrics(pairs: Sequence[Pair | None], prefix: str = "") -> list[Metric]:
    """How often the better answer has the higher score: a tie counts 1 (best), 1/2 (middle) or 0 (worst).

    Takes a pair of `better_first` per instance (best/middle/worst: Ispas et al. 2025, arXiv:2503.16161, section 4.2).
    """
    ties = {"best": 1.0, "middle": 0.5, "worst": 0.0}
    return [mean_metric(f"{prefix}pairwise_{name}", [_wins(pair, tie) for pair in pairs]) for name, tie in ties.items()]


def _wins(pair: Pair | None, tie: float) -> float | None:
    if pair is None or pair[0] is None or pair[1] is None:
        return None
    return tie if pair[0] == pair[1] else float(pair[0] > pair[1])


def examples_hash(examples: Sequence[Example], labels: Any) -> str:
    """sha256 over the examples and what is known about them."""
    content = json.dumps([[_own_fields(example) for example in examples], labels], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _own_fields(example: Example) -> dict[str, Any]:
    """The example's fields without those that only repeat its reference, or say nothing."""
    silent = {
        "truth": (None, example.reference),
        "chunks": ((), (example.reference,)),
        "reference_kind": ("reference",),
        "unanswered": ((),),
    }
    return {name: value for name, value in asdict(example).items() if value not in silent.get(name, ())}
