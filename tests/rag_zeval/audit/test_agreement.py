"""Statistics against loops and scipy, and what their intervals hold, with simulated annotators."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, spearmanr

from experiments.kappa_intervals import intervals, simulated, width_and_coverage
from rag_zeval.audit.agreement import (
    Measure,
    Ratings,
    balanced_accuracy,
    difference,
    estimate,
    kappa,
    kendall,
    linear_kappa,
    quadratic_kappa,
    raw_agreement,
    share_second,
    spearman,
)


@st.composite
def rated(draw: st.DrawFn) -> Ratings:
    n, levels = draw(st.integers(2, 25)), draw(st.sampled_from([2, 3, 5]))
    grades = st.lists(st.integers(0, levels - 1), min_size=n, max_size=n)
    first, second = (np.array(draw(grades)) / (levels - 1) for _ in range(2))
    weights = np.array(draw(st.lists(st.floats(0.1, 50), min_size=n, max_size=n)))
    return Ratings(first, second, weights, [str(row // 2) for row in range(n)], levels)


def value(measure: Measure, ratings: Ratings) -> float:
    return float(measure(ratings, ratings.weights[None])[0])


@given(rated())
def test_balanced_accuracy_is_the_mean_of_the_agreement_on_each_class_of_the_second_rater(ratings: Ratings) -> None:
    same = ratings.first == ratings.second
    assert value(raw_agreement, ratings) == pytest.approx(np.average(same, weights=ratings.weights))
    grades = np.rint(ratings.second * (ratings.levels - 1))
    of_each = [grades == level for level in range(ratings.levels)]
    recalls = [np.average(same[of], weights=ratings.weights[of]) if of.any() else math.nan for of in of_each]
    assert value(balanced_accuracy, ratings) == pytest.approx(np.mean(recalls), nan_ok=True)


@given(rated())
def test_tau_counts_each_pair_of_rows_by_both_weights(ratings: Ratings) -> None:
    balance = apart_first = apart_second = 0.0
    rows = list(zip(ratings.first, ratings.second, ratings.weights, strict=True))
    for (a, b, w), (c, d, v) in itertools.combinations(rows, 2):
        balance += w * v * np.sign(a - c) * np.sign(b - d)
        apart_first += w * v * (a != c)
        apart_second += w * v * (b != d)
    expected = balance / math.sqrt(apart_first * apart_second) if apart_first and apart_second else math.nan
    assert value(kendall, ratings) == pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.filterwarnings("ignore")  # scipy's, of a rater who says the same of all rows
@given(rated())
def test_rho_is_scipys_of_rows_that_stand_as_often_as_they_weigh(ratings: Ratings) -> None:
    times = np.ceil(ratings.weights / 10)
    weighted = Ratings(ratings.first, ratings.second, times / 3, ratings.cases, ratings.levels)
    repeated = (np.repeat(values, times.astype(int)) for values in (ratings.first, ratings.second))
    expected = spearmanr(*repeated).statistic
    assert value(spearman, weighted) == pytest.approx(expected, abs=1e-9, nan_ok=True)


@given(rated())
def test_a_weight_is_so_many_rows(ratings: Ratings) -> None:
    times = np.ceil(ratings.weights / 10).astype(int)
    weighted = Ratings(ratings.first, ratings.second, times.astype(float), ratings.cases, ratings.levels)
    first, second = np.repeat(ratings.first, times), np.repeat(ratings.second, times)
    repeated = Ratings(first, second, np.ones(times.sum()), ["0"] * times.sum(), ratings.levels)
    for measure in (kappa, linear_kappa, quadratic_kappa, raw_agreement, balanced_accuracy, share_second):
        assert value(measure, weighted) == pytest.approx(value(measure, repeated), abs=1e-9, nan_ok=True)


@settings(max_examples=30)
@given(rated())
def test_an_interval_is_there_and_holds_the_estimate(ratings: Ratings) -> None:
    for measure in (kappa, raw_agreement, kendall, spearman):
        found = estimate(measure, ratings)
        assert (found.value is None) == math.isnan(value(measure, ratings))
        several = len(set(ratings.cases)) > 1
        assert (found.interval is not None) == (several and found.value is not None)
        if found.interval and found.value is not None:
            low, high = found.interval
            assert -1 - 1e-9 <= low <= found.value <= high <= 1 + 1e-9 and low < high


# Intervals that hold the truth in 95% of cases do so in less than this share of 200 once in 10,000 times.
LEAST_OF_200 = int(binom.ppf(1e-4, 200, 0.95)) / 200


@pytest.mark.parametrize(("true", "rows", "oversampled"), [(0.9, 50, 1.0), (0.5, 100, 4.0)])
def test_intervals_hold_the_true_kappa(true: float, rows: int, oversampled: float) -> None:
    width, coverage = width_and_coverage(intervals(true, rows, 200, oversampled), true)
    assert coverage >= LEAST_OF_200
    assert 0.05 < width < 0.6  # an interval that holds everything would pass, else


@pytest.mark.slow
@pytest.mark.parametrize(("true", "rows", "oversampled"), [(0.7, 200, 1.0), (0.7, 100, 3.0), (0.9, 100, 1.0)])
def test_of_a_thousand_intervals_930_hold_the_true_kappa(true: float, rows: int, oversampled: float) -> None:
    assert width_and_coverage(intervals(true, rows, 1_000, oversampled), true)[1] >= 0.93


def test_simulated_annotators_have_the_kappa_that_they_are_said_to_have() -> None:
    for oversampled in (1.0, 4.0):
        ratings = simulated(0.6, 200_000, np.random.default_rng(1), oversampled)
        assert value(kappa, ratings) == pytest.approx(0.6, abs=0.02)
        assert value(share_second, ratings) == pytest.approx(0.8, abs=0.01)


def test_rows_of_a_case_are_drawn_together_with_their_weights() -> None:
    """A row of weight 20 is worth as much as 20 like it of one case, and not as 20 of cases of their own."""
    random = np.random.default_rng(2)
    rows = simulated(0.6, 200, random)
    times = random.choice([1, 20], size=200)
    weighted = Ratings(rows.first, rows.second, times.astype(float), rows.cases)
    first, second, cases = (np.repeat(values, times) for values in (rows.first, rows.second, np.array(rows.cases)))
    repeated = Ratings(first, second, np.ones(len(first)), cases.tolist())
    found, expected = (estimate(kappa, ratings).interval for ratings in (weighted, repeated))
    assert found and expected and found == pytest.approx(expected, abs=0.02)
    width = found[1] - found[0]
    for other in (rows, Ratings(first, second, np.ones(len(first)), [str(row) for row in range(len(first))])):
        low, high = estimate(kappa, other).interval or (0.0, 1.0)
        assert high - low < 0.85 * width


def test_a_difference_is_drawn_on_the_same_rows() -> None:
    """Two judges that hardly differ are compared far better than each is known."""
    ratings = simulated(0.6, 200, np.random.default_rng(3))
    flipped = ratings.first.copy()
    flipped[0] = 1 - flipped[0]
    other = Ratings(flipped, ratings.second, ratings.weights, ratings.cases)
    apart = difference(kappa, ratings, other)
    assert apart.value == pytest.approx(value(kappa, ratings) - value(kappa, other))
    alone = estimate(kappa, ratings).interval
    assert apart.interval and alone and apart.interval[0] <= apart.value <= apart.interval[1]
    assert apart.interval[1] - apart.interval[0] < 0.3 * (alone[1] - alone[0])
    same = difference(kappa, ratings, ratings)
    assert (same.value, same.interval) == (0, (0, 0))
