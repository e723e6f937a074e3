"""The hierarchical bootstrap, against plain resampling and against a world of known variance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eval_benchmarks.benchmark import MeanOverSeeds, Metric, mean_metric
from experiments.arm_estimates import estimate
from rag_zeval.statistics.bootstrap import Correlation, Ratio, hierarchical_draws, hierarchical_interval, multiplicities

N = 12
counts = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), min_size=N, max_size=N)
groups = st.lists(counts.map(lambda pairs: Ratio(*np.array(pairs, float).T)), max_size=4)


@given(groups, groups.filter(bool), st.lists(st.booleans(), min_size=N, max_size=N))
def test_a_draw_is_what_resampling_by_hand_gives(first: list[Ratio], second: list[Ratio], kept: list[bool]) -> None:
    """Prompts are drawn once for both groups, and the seeds of each group by themselves."""
    keep = np.array(kept)
    if not keep.any():
        assert hierarchical_interval(first, second, keep, 20, 5) is None
        return
    instances = multiplicities(int(keep.sum()), 20, 5).astype(int)
    means = []
    for group, seed in ((first, 7), (second, 6)):
        seeds = multiplicities(len(group), 20, seed).astype(int) if group else np.zeros((20, 0), int)
        drawn = [
            [_value(model, np.repeat(np.flatnonzero(keep), rows)) for model in np.repeat(group, times)] or [0.0]
            for rows, times in zip(instances, seeds, strict=True)
        ]
        means.append(np.mean(drawn, axis=1))
    assert hierarchical_draws(first, second, keep, 20, 5) == pytest.approx(means[1] - means[0], abs=1e-12)


def _value(model: Ratio, rows: np.ndarray) -> float:
    return float(model.top[rows].sum() / model.bottom[rows].sum())


def test_correlations_of_seeds_and_their_mean_as_one_metric_are_drawn_alike() -> None:
    """Tables of an experiment take seeds by `hierarchical_draws`, those of the paper by MeanOverSeeds."""
    random, every = np.random.default_rng(0), np.ones(30, dtype=bool)
    labels = random.integers(-2, 3, (30, 2)).astype(float)
    seeds = [Correlation("kendall", labels.mean(1) + random.normal(0, noise, 30), labels) for noise in (1, 2, 3)]
    own = hierarchical_draws([], seeds, every, 50, 0)
    mean = MeanOverSeeds(tuple(Metric("kendall", seed, every) for seed in seeds))
    assert mean.draws(every, multiplicities(30, 50, 0)) == pytest.approx(own)
    assert mean.point(every) == pytest.approx(np.mean([seed.point(every) for seed in seeds]))
    rows, chosen = multiplicities(30, 50, 0)[7].astype(int), multiplicities(3, 50, 1)[7]
    drawn = np.repeat(np.arange(30), rows)
    by_hand = [stats.kendalltau(np.repeat(one.x[drawn], 2), labels[drawn].ravel()).statistic for one in seeds]
    assert own[7] == pytest.approx(np.average(by_hand, weights=chosen))


def test_a_model_that_was_not_drawn_may_be_undefined() -> None:
    nothing, something = Ratio(np.zeros(4), np.zeros(4)), Ratio(np.ones(4), np.ones(4))
    draws = hierarchical_draws([], [nothing, something], np.ones(4, bool), 200, 0)
    assert set(draws[~np.isnan(draws)]) == {1.0}
    assert 0.15 < np.mean(~np.isnan(draws)) < 0.35  # the share of draws that take the second model twice: 1/4


@pytest.mark.parametrize(
    ("seeds", "of_seeds", "of_prompts", "low", "high"),
    [
        (25, 0.2, 1.0, 0.92, 0.98),  # both count
        (25, 1.0, 0.1, 0.90, 0.98),  # seeds alone
        (3, 0.0, 1.0, 0.92, 0.99),  # prompts alone
        (3, 1.0, 0.1, 0.65, 0.85),  # seeds alone, and too few: too narrow, as the docstring says
    ],
)
def test_the_interval_covers_the_truth_as_often_as_it_says(
    seeds: int, of_seeds: float, of_prompts: float, low: float, high: float
) -> None:
    """Trained minus base of 0.1; the standard deviations of a seed's and of a prompt's own effect are known."""
    rng = np.random.default_rng(1)
    n, truth, runs = 100, 0.1, 400
    ones, keep = np.ones(n), np.ones(n, bool)
    covered = 0
    for _ in range(runs):
        prompts = rng.normal(0, 1, n)
        gain = truth + rng.normal(0, of_prompts, n)
        models = [Ratio(prompts + gain + rng.normal(0, of_seeds), ones) for _ in range(seeds)]
        limits = hierarchical_interval([Ratio(prompts, ones)], models, keep, 400, 0)
        assert limits
        covered += limits[0] <= truth <= limits[1]
    assert low <= covered / runs <= high


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=6))
def test_by_seeds_alone_is_students_interval(values: list[int]) -> None:
    models = [mean_metric("m", [float(value)] * N) for value in values]
    row = estimate([mean_metric("m", [0.0] * N)], models, 60, [*range(len(values))])
    if len(set(values)) > 1:
        found = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        assert (row["t_low"], row["t_high"]) == pytest.approx((found.low, found.high))
    else:
        value = values[0] if len(values) > 1 else None  # one seed has no spread
        assert (row["t_low"], row["t_high"]) == (value, value)
