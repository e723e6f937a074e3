"""Three systems or more on the same questions: every two of them by a metric, and how many the metric tells apart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag_zeval.decisions.sides import Side
from rag_zeval.statistics.bootstrap import DRAWS, BootstrapEstimate, mean_estimates
from rag_zeval.statistics.discriminative_power import discriminative_power
from rag_zeval.statistics.weighted_correlations import Floats


@dataclass(frozen=True)
class System:
    """A system's mean over the `scored` of all `cases` that any file has; None without a score."""

    name: str
    scored: int
    cases: int
    mean: BootstrapEstimate | None


@dataclass(frozen=True)
class SystemPair:
    """Mean of `second` minus mean of `first` over the n cases that both have a score for; None without any.

    p_holm: of the paired randomisation test, two-sided, after Holm's correction over all pairs.
    """

    first: str
    second: str
    n: int
    change: BootstrapEstimate | None
    p_holm: float


@dataclass(frozen=True)
class Pairwise:
    """All systems by one metric. power: the share of pairs told apart (see `discriminative_power`)."""

    metric: str
    systems: tuple[System, ...]
    pairs: tuple[SystemPair, ...]
    power: float


def compare_pairwise(sides: Sequence[Side], metric: str, draws: int = DRAWS, seed: int = 0) -> Pairwise:
    """Compare every two of the sides, whose names differ, by a metric that all have. draws: of the bootstrap."""
    cases = list(dict.fromkeys(case for side in sides for case in side.judged[metric]))
    scores = {
        side.name: [side.judged[metric][case].score if case in side.judged[metric] else None for case in cases]
        for side in sides
    }
    values = {name: np.array(of_side, dtype=float) for name, of_side in scores.items()}  # None becomes NaN
    power, tested = discriminative_power(scores, seed=seed)
    return Pairwise(
        metric,
        tuple(
            System(name, int((~np.isnan(one)).sum()), len(cases), _mean(one, draws, seed))
            for name, one in values.items()
        ),
        tuple(
            SystemPair(first, second, pair.questions, _mean(values[second] - values[first], draws, seed), pair.p)
            for (first, second), pair in zip(itertools.combinations(values, 2), tested, strict=True)
        ),
        power,
    )


def _mean(values: Floats, draws: int, seed: int) -> BootstrapEstimate | None:
    there = values[~np.isnan(values)]
    return mean_estimates(there[:, None], draws, seed)[0] if len(there) else None
