"""Paired tests between scorers: RAG-Zeval against every other scorer, or any two scorers.

Both scorers are compared on the same instances, so what makes an instance hard for both cancels out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from eval_benchmarks.benchmark import Metric, ratio_metric
from eval_benchmarks.trials import BenchResults, ScorerTrials
from rag_zeval.files import Row
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.statistics.bootstrap import drawn, interval, paired_interval, resampled
from rag_zeval.statistics.discriminative_power import holm, randomisation_p

SAME = 0.01  # scores at most this far apart count as the same
ROUNDING = 1e-12  # allowance for rounding errors in differences
ENOUGH = 20  # fewest instances, or clusters of them, for a bootstrap p-value
KEYS = "benchmark metric scorer model minus_scorer minus_model difference ci_low ci_high n coverage p p_holm".split()


@dataclass(frozen=True)
class PairedTest:
    """A difference between two scorers, its 95% interval, and the two-sided p-value of no difference.

    interval: None for a single instance. p: None if there are too few instances for a p-value.
    """

    difference: float
    interval: tuple[float, float] | None
    p: float | None


def paired_test(first: Metric, second: Metric, draws: int) -> PairedTest | None:
    """Test `first` minus `second` on the instances that both scored. Return None if a value is undefined.

    The interval is a percentile bootstrap with the same resamples for both. There are two kinds of p:
    - For means over instances (wins, ranks, accuracy), the scorers are exchanged at random on each instance
      (`randomisation_p`). This is valid for few instances too.
    - For a correlation or a rate over claims, p comes from the bootstrap, if there are at least ENOUGH instances or
      clusters.

    The second is p = (1 + #{|d* - d| >= |d|}) / (1 + draws). Here d is the difference seen, and d* that of a draw. The
    draws vary around d as the difference would vary around 0 if there were none. Draws in which a value is undefined
    are not counted, neither above nor below.

    Sources: Smucker et al. 2007, A comparison of statistical significance tests for information retrieval evaluation;
    Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 16.4 (the distribution moved to the null);
    Davison and Hinkley 1997, Bootstrap Methods and their Application, section 4.4 (1 added above and below).
    """
    both = first.scored & second.scored
    if not both.any():
        return None
    difference = first.statistic.point(both) - second.statistic.point(both)
    if np.isnan(difference):
        return None
    limits = paired_interval(second.statistic, first.statistic, both, draws, seed=0)
    ours, theirs = first.statistic.instances(both), second.statistic.instances(both)
    if ours is not None and theirs is not None:
        return PairedTest(difference, limits, randomisation_p(ours - theirs, draws, seed=0))
    if limits is None or resampled(first.statistic, both) < ENOUGH:
        return PairedTest(difference, limits, None)
    values = drawn(first.statistic, both, draws, seed=0) - drawn(second.statistic, both, draws, seed=0)
    values = values[~np.isnan(values)]
    as_far = np.abs(values - difference) >= abs(difference) - ROUNDING
    return PairedTest(difference, limits, float((1 + as_far.sum()) / (1 + len(values))))


def find_ours(scorers: Sequence[ScorerTrials]) -> ScorerTrials | None:
    """Return RAG-Zeval with the last model listed with which it gave a score. None if there is none."""
    judges = [scorer for scorer in scorers if scorer.scorer == RagZeval.name]
    return next((judge for judge in reversed(judges) if any(trial.has_a_score for trial in judge.trials)), None)


def comparison_rows(results: BenchResults) -> list[Row]:
    """Return RAG-Zeval minus every other scorer and model, on each benchmark and metric.

    Benchmarks without scores of RAG-Zeval have no rows. p_holm: Holm's p over the tests of one benchmark and metric,
    which are one family.
    """
    families: dict[tuple[str, str], list[Row]] = {}
    for scorers in results.by_benchmark.values():
        ours = find_ours(scorers)
        for other in scorers:
            if ours is not None and other is not ours:
                for row in pair_rows(results, ours, other):
                    families.setdefault((row["benchmark"], row["metric"]), []).append(row)
    for family in families.values():
        for row, p in zip(family, holm([row["p"] for row in family]), strict=True):
            row["p_holm"] = p
    return [row for family in families.values() for row in family]


def pair_rows(results: BenchResults, first: ScorerTrials, second: ScorerTrials) -> list[Row]:
    """Return `first` minus `second` on each metric that both have.

    An undefined difference is None. `p_holm` is None here.
    """
    rows = []
    for name in (name for name in first.metrics if name in second.metrics):
        ours, theirs = first.metrics[name], second.metrics[name]
        both = ours.scored & theirs.scored
        row = dict.fromkeys(KEYS) | {
            "benchmark": first.benchmark.name,
            "metric": name,
            "scorer": first.scorer,
            "model": first.model,
            "minus_scorer": second.scorer,
            "minus_model": second.model,
            "n": int(both.sum()),
            "coverage": float(both.mean()),
        }
        if test := paired_test(ours, theirs, results.draws):
            low, high = test.interval or (None, None)
            row |= {"difference": test.difference, "ci_low": low, "ci_high": high, "p": test.p}
        rows.append(row)
    return rows


def agreement_rows(results: BenchResults, first: ScorerTrials, second: ScorerTrials) -> list[Row]:
    """Return how often two scorers agree in their first trials, as shares with 95% intervals.

    The intervals resample instances of the benchmark.
    same_score: share of answers whose two scores are at most SAME apart.
    same_ranking: share of examples in which both scorers put every two answers in the same order.
    What only one could score counts as different. What neither could score is left out.
    """
    ours, theirs = (scorer.trials[0].scored for scorer in (first, second))
    ids = [example.id for example in first.benchmark.examples if example.id in ours and example.id in theirs]
    both = [(ours[id_], theirs[id_]) for id_ in ids]
    rows = []
    for name, count in (("same_score", _same_scores), ("same_ranking", _same_rankings)):
        counts = [count([*zip(one.values, other.values, strict=True)]) for one, other in both]
        metric = ratio_metric(name, [same if same[1] else None for same in counts])
        if metric.n:
            low, high = interval(metric.statistic, metric.scored, results.draws, seed=0) or (None, None)
            n = sum(of for _, of in counts)
            rows.append({"metric": name, "value": metric.value, "ci_low": low, "ci_high": high, "n": n})
    return rows


Pairs = Sequence[tuple[float | None, float | None]]  # the two scorers' scores of each answer


def _same_scores(answers: Pairs) -> tuple[int, int]:
    """Return how many answers have the same score, and how many at least one of the scorers could score."""
    scored = [(one, other) for one, other in answers if (one, other) != (None, None)]
    same = [one is not None and other is not None and abs(one - other) <= SAME + ROUNDING for one, other in scored]
    return sum(same), len(scored)


def _same_rankings(answers: Pairs) -> tuple[int, int]:
    """Return (1, 1) if both scorers order all answers alike, and (0, 1) if not.

    The second number is 0 if neither scorer gives any order.
    """
    first, second = ([_order(*two) for two in combinations(side, 2)] for side in zip(*answers, strict=True))
    return int(first == second), int(any(order is not None for order in (*first, *second)))


def _order(one: float | None, other: float | None) -> int | None:
    return None if one is None or other is None else (one > other) - (one < other)
