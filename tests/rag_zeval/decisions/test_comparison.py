"""What a comparison finds: planted damage, and nothing else; oracles are scipy and plain loops."""

import itertools
import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rag_zeval.decisions.comparison import Comparison, compare_pairwise, compare_sides, estimate
from rag_zeval.decisions.metric_validity import APART, of_metric
from rag_zeval.statistics.bootstrap import BootstrapEstimate, mean_estimate, share_interval

Scores = Mapping[str, float | None]
SLICES = ("billing", "login", "search", "api")
CLAIMS, HELD, DAMAGE = 10, 0.8, 0.15

CASES = st.sampled_from([f"{tag}:{at}" for tag in "st" for at in range(5)] + ["u", "v"])
SCORES = st.dictionaries(CASES, st.none() | st.integers(0, 8).map(lambda k: k / 8), min_size=1).map(
    lambda scores: dict(sorted(scores.items()))
)


def judged_scores(random: np.random.Generator, n: int, damaged: str | None = None) -> dict[str, float]:
    """Supported claims / claims of n cases, one slice of which has DAMAGE less than the others."""
    cases = [f"{SLICES[at % len(SLICES)]}:{at}" for at in range(n)]
    held = [HELD - DAMAGE * (damaged is not None and case.startswith(damaged)) for case in cases]
    return dict(zip(cases, (random.binomial(CLAIMS, held) / CLAIMS).tolist(), strict=True))


def test_planted_damage_is_found_in_its_slice_and_measured_rightly(side: Any) -> None:
    """Of 40 damaged versions of 1,000 answers, the damaged slice is told apart in all, its amount is in 95% of the
    intervals (so in 33 of 40 but for one time in 10,000), and the others are rarely told apart."""
    inside = others = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        found = compare_sides(
            side(judged_scores(random, 1000)), side(judged_scores(random, 1000, "login")), "m", draws=500
        )
        by_slice = {one.slice_tag: one for one in found.slices}
        assert set(by_slice) == set(SLICES) and {one.n for one in found.slices} == {250}
        login = by_slice.pop("login")
        assert login.change is not None and login.p_holm is not None and login.p_holm < 0.01
        inside += login.change.low <= -DAMAGE <= login.change.high
        others += any(one.p_holm is not None and one.p_holm <= 0.05 for one in by_slice.values())
        assert found.overall.change is not None and found.overall.change.value < 0
    assert inside >= 33 and others <= 7


def test_the_order_in_which_the_judge_replied_changes_no_number(side: Any) -> None:
    """A file has its rows in that order, so the same scores could pass one night and fail the next."""
    random = np.random.default_rng(3)
    before, after = judged_scores(random, 60), judged_scores(random, 60, "login")
    found = compare_sides(side(before), side(after), "m", draws=500)
    for _ in range(3):
        shuffled = [dict(random.permutation([*scores.items()]).tolist()) for scores in (before, after)]
        again = compare_sides(*(side({case: float(score) for case, score in of.items()}) for of in shuffled), "m", 500)
        assert again == found


@given(SCORES, SCORES)
def test_the_slice_that_got_worse_most_comes_first(side: Any, before: Scores, after: Scores) -> None:
    for metric, sign in (("m", 1), ("ragchecker_hallucination", -1)):
        slices = compare_sides(side(before, metric), side(after, metric), metric, draws=10).slices
        changes = [sign * one.change.value for one in slices if one.change]
        assert changes == sorted(changes) and all(one.change is None for one in slices[len(changes) :])


def test_interval_and_p_are_those_of_scipy(side: Any) -> None:
    random = np.random.default_rng(1)
    a, b = random.random(60).round(2), random.random(60).round(2) - 0.1
    found = compare_sides(*(side({str(at): one for at, one in enumerate(of)}) for of in (a.tolist(), b.tolist())), "m")  # type: ignore[arg-type]
    theirs = stats.bootstrap(
        (a, b), lambda x, y, axis: (y - x).mean(axis=axis), paired=True, method="percentile", n_resamples=10_000,
        rng=random,
    ).confidence_interval  # fmt: skip
    change = found.overall.change
    assert change is not None and not found.slices
    width = theirs.high - theirs.low
    assert (change.low, change.high) == pytest.approx((theirs.low, theirs.high), abs=0.04 * width)
    test = stats.permutation_test(
        (a, b), lambda x, y, axis: (y - x).mean(axis=axis), permutation_type="samples", vectorized=True,
        n_resamples=10_000, rng=random,
    )  # fmt: skip
    assert 0.001 < test.pvalue < 0.5
    assert found.overall.p == pytest.approx(test.pvalue, abs=4 * (test.pvalue / 10_000) ** 0.5)


def test_the_mean_of_scores_of_0_and_1_has_the_interval_of_a_share(side: Any) -> None:
    before, after = ({str(at): score for at, score in enumerate(scores)} for scores in ([1.0] * 9, [1.0] * 8 + [0.5]))
    found = compare_sides(side(before), side(after), "m").overall
    assert found.first == BootstrapEstimate(1.0, *share_interval(9, 9))
    assert found.second is not None and found.second.high == 1.0 and found.second.low == pytest.approx(0.83, abs=0.02)


@settings(max_examples=60)
@given(SCORES, SCORES)
def test_missing_scores_are_counted_and_in_no_mean(side: Any, a: Scores, b: Scores) -> None:
    found = compare_sides(side(a), side(b), "m", draws=20)
    pairs = {case: (a[case], b[case]) for case in a if a[case] is not None and b.get(case) is not None}
    assert found.overall.n == len(pairs) == sum(one.n for one in found.slices) or not found.slices
    if pairs:
        means = [statistics.fmean(side) for side in zip(*pairs.values(), strict=True)]  # type: ignore[arg-type]
        first, second, change = found.overall.first, found.overall.second, found.overall.change
        assert first and second and change
        assert [first.value, second.value] == pytest.approx(means)
        assert change.value == pytest.approx(means[1] - means[0])
    else:
        assert found.overall.change is None and found.overall.p is None
    either = {*a, *b}
    assert (found.only_first, found.only_second) == (len(either - {*b}), len(either - {*a}))
    assert found.overall.n + found.lost + found.only_first + found.only_second == len(either)
    assert found.first.cases == found.second.cases == len(either)
    assert found.first.scored == sum(score is not None for score in a.values())


def test_grades_of_0_and_1_are_no_share() -> None:
    grades = np.array([0.0, 1.0, 1.0, 1.0])
    assert estimate(grades, "umbrela", 100) == mean_estimate(grades, 100, 0)
    assert estimate(grades, "rag_zeval", 100) == BootstrapEstimate(0.75, *share_interval(3, 4))


@settings(max_examples=30)
@given(SCORES, SCORES)
def test_the_bounds_are_reached_by_scores_of_0_and_1_in_place_of_the_missing(side: Any, a: Scores, b: Scores) -> None:
    cases = sorted({*a, *b})
    cells = [of.get(case) for case in cases for of in (a, b)]
    missing = [at for at, score in enumerate(cells) if score is None]
    assert compare_sides(side(a, "umbrela"), side(b, "umbrela"), "umbrela", draws=2).bounds is None  # goes up to 3
    found = compare_sides(side(a), side(b), "m", draws=2).bounds
    if not missing or len(missing) > 10:
        assert (found is None) == (not missing)
        return
    means = []
    for filled in itertools.product((0.0, 1.0), repeat=len(missing)):
        whole = np.array(cells, dtype=float)
        whole[missing] = filled
        means.append((whole[1::2] - whole[::2]).mean())
    assert found == pytest.approx((min(means), max(means)))


def worst(comparison: Comparison) -> list[str]:
    return [one.first.case for one in comparison.worse]


def test_the_answers_that_changed_most_come_first(side: Any) -> None:
    before = {str(at): at / 20 for at in range(20)}
    after = dict.fromkeys(before, 0.0) | {"0": 1.0}
    found = compare_sides(side(before), side(after), "m", draws=2)
    assert worst(found) == [str(at) for at in range(19, 0, -1)]
    assert [(one.first.case, one.change) for one in found.better] == [("0", 1.0)]


def test_scores_that_differ_by_rounding_are_the_same(side: Any) -> None:
    trials, single = statistics.fmean([0.2, 0.4]), 0.3
    assert trials != single
    sides = [side(dict.fromkeys("abcdefghij", score), name=str(score)) for score in (trials, single)]
    found = compare_sides(*sides, "m", draws=2)
    assert (found.overall.p, found.overall.change, found.worse, found.better) == (
        1.0, BootstrapEstimate(0.0, 0.0, 0.0), (), ()
    )  # fmt: skip
    assert compare_pairwise(sides, "m").power == 0.0
    scores = {(case, one.name, "answer"): of.score for one in sides for case, of in one.judged["m"].items()}
    assert [one.value for one in of_metric("m", scores) if one.what == APART] == [0.0]


@pytest.mark.parametrize("metric", ["ragchecker_hallucination", "ragchecker_noise_sensitivity_in_relevant@truth"])
def test_of_a_metric_of_faults_more_is_worse(metric: str, side: Any) -> None:
    found = compare_sides(side({"1": 0.0, "2": 0.5}, metric), side({"1": 1.0, "2": 0.25}, metric), metric, draws=2)
    assert found.lower_is_better and worst(found) == ["1"]
    assert [one.first.case for one in found.better] == ["2"]
