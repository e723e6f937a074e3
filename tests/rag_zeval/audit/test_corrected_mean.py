"""The corrected mean against textbook intervals, another implementation, and simulated audits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments.corrected_coverage import (
    GRADES,
    Grades,
    Setting,
    coverage,
    error_rates,
    judge_alone,
)
from rag_zeval.audit.corrected_mean import (
    LabelledSample,
    best_power,
    by_error_rates,
    corrected_mean,
    labels_alone,
    mean_of_labels,
)
from rag_zeval.statistics.weighted_correlations import Floats

UNITS = st.integers(0, 10).map(lambda tenths: tenths / 10)


def simple(scores: Floats, drawn: list[int], labels: Floats) -> LabelledSample:
    """Rows of as many cases, each drawn with the same probability."""
    cases = [str(row) for row in range(len(scores))]
    weights = np.full(len(drawn), len(scores) / len(drawn))
    return LabelledSample(scores, np.ones(len(scores)), cases, np.array(drawn), labels, weights)


@st.composite
def samples(draw: st.DrawFn) -> LabelledSample:
    scores = np.array(draw(st.lists(UNITS, min_size=5, max_size=40)))
    drawn = draw(st.lists(st.integers(0, len(scores) - 1), min_size=2, max_size=len(scores), unique=True))
    return simple(scores, drawn, np.array([draw(UNITS) for _ in drawn]))


@given(samples())
def test_without_the_judge_it_is_the_mean_of_the_labels_with_its_t_interval(sample: LabelledSample) -> None:
    found = mean_of_labels(sample, power=0.0, added=False)
    assert found.value == pytest.approx(sample.labels.mean())
    expected = stats.t.interval(0.95, len(sample.labels) - 1, sample.labels.mean(), stats.sem(sample.labels) or 1e-12)
    assert found.interval == pytest.approx(np.clip(expected, 0, 1), abs=1e-6)


def test_at_full_power_it_is_that_of_ppi_python() -> None:
    scores = np.arange(40) % 7 / 6
    labels = np.array([0, 1, 0.5, 1, 0, 1, 0.25])
    sample = simple(scores, [1, 5, 8, 13, 22, 31, 39], labels)
    found = mean_of_labels(sample, power=1.0, added=False)
    # ppi-python 0.2.3: ppi_mean_pointestimate(labels, scores[drawn], scores, lam=1)
    assert found.value == pytest.approx(0.5148809523809524, abs=1e-9)


@given(samples())
def test_labels_of_all_rows_are_the_answer_whatever_the_judge_says(sample: LabelledSample) -> None:
    n = len(sample.scores)
    labels = np.resize(sample.labels, n)
    every = simple(sample.scores, list(range(n)), labels)
    for power in (0.0, 0.4, 1.0):
        assert mean_of_labels(every, power, added=False).value == pytest.approx(labels.mean())
    verdicts, truth = (sample.scores >= 0.5).astype(float), (labels >= 0.5).astype(float)
    rates = by_error_rates(simple(verdicts, list(range(n)), truth))
    if rates is not None:
        assert rates.mean.value == pytest.approx(truth.mean())


def test_a_good_judge_narrows_the_interval_and_a_misleading_one_is_not_used() -> None:
    random = np.random.default_rng(0)
    good = Setting(0.95, 0.95, 0.5).sample(100, random)
    wrong = Setting(0.1, 0.1, 0.5).sample(100, random)
    corrected, alone = (estimate(good).interval for estimate in (corrected_mean, labels_alone))
    assert corrected and alone and corrected[1] - corrected[0] < 0.8 * (alone[1] - alone[0])
    assert best_power(good) > 0.7 and best_power(wrong) == 0
    assert corrected_mean(wrong) == labels_alone(wrong)
    assert by_error_rates(wrong) is None


def test_claims_of_one_case_count_as_one_when_there_is_no_other() -> None:
    sample = LabelledSample(
        np.ones(3), np.full(3, 1 / 3), ["a"] * 3, np.array([0, 1]), np.array([1.0, 0.0]), np.full(2, 1.5)
    )
    assert mean_of_labels(sample, 0.0, added=False).interval is None
    found = labels_alone(sample)
    assert found.interval is not None and found.interval[0] < 0.2 and found.interval[1] > 0.8


def test_intervals_hold_the_true_mean_where_the_judges_own_does_not() -> None:
    estimates = {"corrected": corrected_mean, "judge alone": judge_alone, "error rates": error_rates}
    found = coverage(Setting(0.9, 0.7, 0.5), labels=50, runs=200, seed=0, estimates=estimates)
    assert found["corrected"][0] >= 0.93 and found["error rates"][0] >= 0.93 and found["judge alone"][0] < 0.1


@pytest.mark.parametrize("name", GRADES)
def test_intervals_hold_the_mean_grade(name: str) -> None:
    estimates = {"corrected": corrected_mean, "labels alone": labels_alone}
    found = coverage(Grades(GRADES[name], 0.3), labels=25, runs=100, seed=0, estimates=estimates)
    assert min(covers for covers, _ in found.values()) >= 0.93
