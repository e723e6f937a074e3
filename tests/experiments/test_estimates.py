"""The hierarchical bootstrap, against plain resampling and against a world of known variance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eval_benchmarks.benchmark import mean_metric
from experiments.estimates import estimate
from rag_zeval.statistics.bootstrap import (
    Ratio,
    hierarchical_draws,
    hierarchical_interval,
    multiplicities,
    paired_interval,
)
from rag_zeval.statistics.weighted_correlations import Floats

N = 12
counts = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), min_size=N, max_size=N)


def ratio(pairs: list[tuple[int, int]]) -> Ratio:
    top, bottom = np.array(pairs, float).T
    return Ratio(top, bottom)


@given(counts, counts, st.lists(st.booleans(), min_size=N, max_size=N), st.integers(0, 9))
def test_with_one_seed_it_is_the_paired_interval(first: list, second: list, kept: list[bool], seed: int) -> None:
    a, b, keep = ratio(first), ratio(second), np.array(kept)
    found, plain = (hierarchical_interval([a], [b], keep, 60, seed), paired_interval(a, b, keep, 60, seed))
    assert (found is None) == (plain is None) == (not keep.any())
    assert found == plain or found == pytest.approx(plain, abs=1e-12)


@given(counts, counts, st.integers(2, 5), st.integers(0, 9))
def test_seeds_that_do_not_differ_add_no_variance(first: list, second: list, seeds: int, seed: int) -> None:
    a, b, keep = ratio(first), ratio(second), np.ones(N, bool)
    many = hierarchical_draws([a] * seeds, [b] * seeds, keep, 60, seed)
    assert many == pytest.approx(hierarchical_draws([a], [b], keep, 60, seed), abs=1e-12)


@given(st.lists(counts, min_size=1, max_size=4), st.lists(counts, min_size=1, max_size=3))
def test_a_draw_is_what_resampling_by_hand_gives(first: list, second: list) -> None:
    before, after = [ratio(pairs) for pairs in first], [ratio(pairs) for pairs in second]
    keep = np.arange(N) != 3
    found = hierarchical_draws(before, after, keep, 20, 5)
    instances = multiplicities(N - 1, 20, 5).astype(int)
    means = []
    for models, seed in ((before, 7), (after, 6)):
        seeds = multiplicities(len(models), 20, seed).astype(int)
        drawn = [
            [_value(models[s], np.repeat(np.flatnonzero(keep), rows)) for s in np.repeat(np.arange(len(models)), times)]
            for rows, times in zip(instances, seeds, strict=True)
        ]
        means.append(np.mean(drawn, axis=1))
    assert found == pytest.approx(means[1] - means[0], abs=1e-12)


def _value(model: Ratio, rows: np.ndarray) -> float:
    return float(model.top[rows].sum() / model.bottom[rows].sum())


def test_a_model_that_was_not_drawn_may_be_undefined() -> None:
    nothing, something = Ratio(np.zeros(4), np.zeros(4)), Ratio(np.ones(4), np.ones(4))
    draws = hierarchical_draws([], [nothing, something], np.ones(4, bool), 200, 0)
    assert set(draws[~np.isnan(draws)]) == {1.0}
    assert 0.15 < np.mean(~np.isnan(draws)) < 0.35  # the share of draws that take the second model twice: 1/4


def test_without_instances_there_is_no_interval() -> None:
    one = Ratio(np.ones(3), np.ones(3))
    assert hierarchical_interval([one], [one, one], np.zeros(3, bool), 50, 0) is None


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


def test_arms_are_paired_by_prompt_and_their_seeds_are_not() -> None:
    rng = np.random.default_rng(2)
    ones, keep = np.ones(200), np.ones(200, bool)
    prompts = rng.normal(0, 5, 200)

    def arm(gain: float, seeds: Floats) -> list[Ratio]:
        return [Ratio(prompts + gain + effect, ones) for effect in seeds]

    effects = np.array([-0.3, 0.0, 0.3])
    width = _width(hierarchical_interval(arm(0, effects), arm(1, effects), keep, 2000, 0))
    assert width == pytest.approx(2 * 1.96 * np.sqrt(2 * effects.var() / 3), rel=0.15)  # of the seeds alone


def _width(limits: tuple[float, float] | None) -> float:
    assert limits
    return limits[1] - limits[0]


@given(st.lists(st.integers(-20, 20), min_size=2, max_size=6))
def test_by_seeds_alone_is_students_interval(values: list[int]) -> None:
    models = [mean_metric("m", [float(value)] * N) for value in values]
    row = estimate([mean_metric("m", [0.0] * N)], models, 60, 0, [*range(len(values))])
    if len(set(values)) > 1:
        found = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        assert (row["t_low"], row["t_high"]) == pytest.approx((found.low, found.high))
    else:
        assert (row["t_low"], row["t_high"]) == (values[0], values[0])


def test_one_seed_has_no_interval_by_seeds() -> None:
    row = estimate([], [mean_metric("m", [1.0] * N)], 60, 0, [1])
    assert (row["t_low"], row["t_high"]) == (None, None)
