"""The interval of a mean against theory and against drawing groups one by one."""

import random

import pytest

from rag_zeval.statistics.bootstrap import mean_interval


def test_for_single_values_it_is_close_to_the_normal_interval():
    rng = random.Random(0)
    values = [rng.gauss(5, 2) for _ in range(400)]
    mean = sum(values) / 400
    half = 1.96 * (sum((v - mean) ** 2 for v in values) / 400) ** 0.5 / 400**0.5
    low, high = mean_interval([[v] for v in values])
    assert low == pytest.approx(mean - half, abs=0.1 * half)
    assert high == pytest.approx(mean + half, abs=0.1 * half)


def test_groups_are_drawn_whole():
    rng = random.Random(1)
    groups = [[rng.random() + shift] * rng.randint(1, 6) for shift in range(30)]
    means = []
    for _ in range(4000):
        drawn = [value for group in rng.choices(groups, k=30) for value in group]
        means.append(sum(drawn) / len(drawn))
    means.sort()
    low, high = mean_interval(groups)
    width = high - low
    assert low == pytest.approx(means[100], abs=0.08 * width)
    assert high == pytest.approx(means[3900], abs=0.08 * width)


def test_it_repeats_and_a_constant_has_no_width():
    assert mean_interval([[1.0, 0.0], [0.5]]) == mean_interval([[1.0, 0.0], [0.5]])
    assert mean_interval([[0.25], [0.25, 0.25]]) == pytest.approx((0.25, 0.25))
