"""Intervals against theory, scipy, and drawing instances or groups of values one by one."""

import math
import random
import statistics
import warnings
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rag_zeval.statistics import bootstrap
from rag_zeval.statistics.bootstrap import (
    Correlation,
    Ratio,
    drawn,
    grouped_share_interval,
    hierarchical_interval,
    interval,
    low_share_p,
    mean,
    mean_estimate,
    mean_interval,
    multiplicities,
    paired_interval,
    score_interval,
    share_interval,
)
from rag_zeval.statistics.classification import OfSums

SCIPY: dict[str, Any] = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def by_scipy(kind: str, x: Any, y: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(SCIPY[kind](x, y).statistic)


@st.composite
def rated(draw: st.DrawFn) -> tuple[Correlation, np.ndarray[Any, Any]]:
    """A scorer with ties, two annotators, and one bootstrap draw."""
    n = draw(st.integers(2, 12))
    values = st.floats(-5, 5).map(lambda v: round(v, 1)) | st.integers(-1, 1)
    x = draw(st.lists(values, min_size=n, max_size=n))
    y = draw(st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=n, max_size=n))
    drawn = draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    kind = draw(st.sampled_from(sorted(SCIPY)))
    weights = np.bincount(drawn, minlength=n).astype(float)
    return Correlation(kind, np.array(x, float), np.array(y, float)), weights


@settings(max_examples=400, deadline=None)
@given(rated())
def test_a_draw_is_what_scipy_gives_on_the_resampled_rows(case: tuple[Correlation, Any]) -> None:
    correlation, weights = case
    times = weights.astype(int)
    x = np.repeat(np.repeat(correlation.x, times), 2)
    y = np.repeat(correlation.y, times, axis=0).ravel()
    keep = np.ones(len(times), bool)
    found = correlation.draws(keep, weights[None])[0]
    assert found == pytest.approx(by_scipy(correlation.kind, x, y), abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("held", [1, 50, 700, 1000, 10**7])
def test_draws_are_the_same_in_however_many_parts_they_are_made(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WHOLE": held, "HELD": 2 * held, "BLOCK": held}.items():
        monkeypatch.setattr(bootstrap, name, value)
    x, y = np.random.default_rng(0).normal(size=(2, 30))
    expected = np.random.default_rng(7).multinomial(30, np.full(30, 1 / 30), size=40)
    bootstrap._held.cache_clear()
    assert (multiplicities(30, 40, 7) == expected).all()
    for statistic in (Ratio(x, np.ones(30)), Correlation("kendall", x, y[:, None])):
        found = drawn(statistic, np.ones(30, dtype=bool), 40, 7)
        assert found == pytest.approx(statistic.draws(np.ones(30, dtype=bool), expected.astype(float)), abs=1e-12)


@given(st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=30))
def test_the_mean_leaves_missing_values_out(values: list[float | None]) -> None:
    statistic, scored = mean(values)
    known = [value for value in values if value is not None]
    assert scored.sum() == len(known)
    if known:
        assert statistic.point(scored) == pytest.approx(np.mean(known))
    else:
        assert interval(statistic, scored, 10, 0) is None


def test_a_ratio_weighs_its_instances_by_their_counts() -> None:
    ratio = Ratio(np.array([1.0, 0.0, 3.0]), np.array([1.0, 0.0, 9.0]))
    assert ratio.point(np.ones(3, bool)) == pytest.approx(0.4)
    assert np.isnan(ratio.point(np.array([False, True, False])))


def test_a_difference_is_drawn_with_the_same_instances_for_both() -> None:
    rng = np.random.default_rng(1)
    worse = rng.random(60)
    (first, scored), (second, _) = mean(worse.tolist()), mean((worse + 0.1).tolist())
    low, high = paired_interval(first, second, scored, 500, 0) or (0.0, 0.0)
    assert (low, high) == pytest.approx((0.1, 0.1))  # unpaired draws would spread it
    alone = interval(first, scored, 500, 0) or (0.0, 0.0)
    assert alone[1] - alone[0] > 0.05


def test_what_is_constant_has_no_correlation() -> None:
    constant = Correlation("kendall", np.zeros(5), np.arange(10.0).reshape(5, 2))
    everything = np.ones(5, bool)
    assert np.isnan(constant.point(everything))
    assert interval(constant, everything, 50, 0) is None


@pytest.mark.parametrize("n", [1, 7, 300])
def test_a_mean_is_estimated_as_by_scipy_and_as_by_multiplicities(n: int) -> None:
    values = np.random.default_rng(n).gamma(2.0, size=n)
    found = mean_estimate(values, 10_000, 0)
    assert found.value == pytest.approx(values.mean())
    if n == 1:
        assert found.low is None and found.high is None
        return
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=10_000, rng=1).confidence_interval
    ours = interval(Ratio(values, np.ones(n)), np.ones(n, bool), 10_000, 0)
    for bounds in ((theirs.low, theirs.high), ours):
        assert (found.low, found.high) == pytest.approx(bounds, abs=0.05 * (theirs.high - theirs.low))


@pytest.mark.parametrize("clusters", [None, [0, 0, 1]])
def test_a_single_instance_or_cluster_shows_no_spread(clusters: list[int] | None) -> None:
    parts, places = np.array([[0.25, 1], [0.5, 1], [1, 1]]), np.array([0, 1, 2] if clusters is None else clusters)
    one = OfSums(parts, lambda sums: sums[:, 0] / sums[:, 1], places)
    for keep in (np.array([True, False, False]), places == 0, np.zeros(3, bool)):
        assert interval(one, keep, 50, 0) is None
        assert paired_interval(one, one, keep, 50, 0) is None
        assert hierarchical_interval([one], [one, one], keep, 50, 0) is None
    assert interval(one, np.ones(3, bool), 50, 0) is not None
    assert mean_interval([[0.25, 0.5]]) is mean_interval([]) is None


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 4))
def test_the_interval_of_a_share_is_scipys_and_copies_of_an_outcome_add_nothing(hits: list[bool], copies: int) -> None:
    theirs = stats.binomtest(sum(hits), len(hits)).proportion_ci(method="wilson")
    for found in (share_interval(sum(hits), len(hits)), grouped_share_interval([[hit] * copies for hit in hits])):
        assert found == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_interval_of_a_share_of_groups_covers_it(share: float) -> None:
    """In half of 40 groups, all five outcomes are equal: they say no more than one."""
    rng = np.random.default_rng(0)
    covered = np.zeros(2)
    for _ in range(400):
        outcomes = rng.random((40, 5)) < share
        outcomes[:20] = outcomes[:20, :1]
        both = grouped_share_interval(outcomes.tolist()), share_interval(int(outcomes.sum()), 200)
        covered += [low <= share <= high for low, high in both]
    assert covered[0] / 400 > 0.88 and covered[1] / 400 < 0.85


def test_many_outcomes_of_one_group_say_no_more_than_few() -> None:
    assert grouped_share_interval([[True, False] * 50]) == grouped_share_interval([[True, False]])


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=6))
def test_the_interval_of_scores_is_that_of_a_share_where_all_are_0_or_1(scores: list[float]) -> None:
    found = score_interval([[score] for score in scores])
    if len(scores) < 2:
        assert found is None
    elif 0.5 in scores:
        assert found == mean_interval([[score] for score in scores])
    else:
        assert found == pytest.approx(share_interval(int(sum(scores)), len(scores)))
    grades = [[score] for score in scores]  # from 0 to 3
    assert score_interval(grades, highest=3) == mean_interval(grades)


@pytest.mark.parametrize("decimals", [None, 0])
def test_the_interval_of_a_mean_draws_groups_whole(decimals: int | None) -> None:
    """Also where groups are equal, which are drawn as one kind."""
    rng = random.Random(1)
    groups = [[round(rng.random() + shift % 4, decimals)] * rng.randint(1, 6) for shift in range(30)]
    means = sorted(statistics.fmean(chain(*rng.choices(groups, k=30))) for _ in range(4000))
    low, high = mean_interval(groups) or (0.0, 0.0)
    assert (low, high) == pytest.approx((means[100], means[3900]), abs=0.08 * (high - low))


def test_the_interval_of_a_mean_repeats_and_has_no_width_where_values_are_equal() -> None:
    assert mean_interval([[1.0, 0.0], [0.5]]) == mean_interval([[1.0, 0.0], [0.5]])
    assert mean_interval([[0.25], [0.25, 0.25]]) == pytest.approx((0.25, 0.25))


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.0, 0.2, 0.5, 0.95, 1.0]))
def test_the_p_of_a_low_share_is_the_exact_binomial_one(hits: int, more: int, share: float) -> None:
    if hits + more:
        n = hits + more
        expected = sum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(hits + 1))
        assert low_share_p(hits, n, share) == pytest.approx(expected, abs=1e-12)
    assert low_share_p(95_000, 100_000, 0.95) == pytest.approx(stats.binom.cdf(95_000, 100_000, 0.95), rel=1e-6)
