"""A percentile's change, and a group that stands out: against enumeration, and how often chance raises an alarm."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from rag_zeval.statistics.paired_change import percentile_estimates, percentile_p, standing_out_p


@pytest.mark.filterwarnings("ignore:Precision loss")
@pytest.mark.parametrize("seed", range(4))
def test_a_group_is_compared_with_every_choice_of_as_many(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(-1, 4, 12) / 4
    group, others = values[:4] + 0.25, values[4:]
    moved = others - min(0.0, others.mean())
    both = np.concatenate([group, moved])
    seen = stats.ttest_ind(group, moved, equal_var=False).statistic
    of_all = [
        stats.ttest_ind(both[list(one)], np.delete(both, one), equal_var=False).statistic
        for one in combinations(range(12), 4)
    ]
    exact = np.mean(np.array(of_all) >= seen - 1e-9) if seen > 0 else 1.0
    # after 100 choices as far as this one, the standard deviation is a tenth of the value
    assert standing_out_p(group, others, 20_000, seed) == pytest.approx(exact, rel=0.4)


def test_a_noisier_group_raises_no_more_alarms_and_the_fall_of_others_none() -> None:
    random = np.random.default_rng(0)
    alarms = [standing_out_p(random.normal(0, 3, 12), random.normal(0, 1, 48), 400, at) <= 0.05 for at in range(600)]
    assert sum(alarms) / 600 <= 0.085  # 3 standard deviations above .05; with the plain mean it is twice that
    assert standing_out_p(np.zeros(12), np.full(48, -1.0), 400, 0) == 1.0
    assert standing_out_p(np.ones(1), np.zeros(9), 400, 0) == standing_out_p(np.ones(9), np.zeros(0), 400, 0) == 1.0
    assert standing_out_p(np.full(5, 0.3), np.zeros(40), 2000, 0) < 0.005  # no noise anywhere


def test_a_percentile_and_its_change_have_intervals_that_hold_and_a_test_that_keeps_its_level() -> None:
    random = np.random.default_rng(1)
    held = alarms = 0
    for at in range(200):
        pairs = random.gamma(2.0, 1.0, (100, 2))
        first, second, change = percentile_estimates(pairs, 0.9, 300, at)
        assert change.value == pytest.approx(second.value - first.value)
        assert first.value == pytest.approx(np.percentile(pairs[:, 0], 90))
        held += change.low <= 0 <= change.high
        alarms += percentile_p(pairs, 0.9, 200, at) <= 0.05
    assert held >= 178 and alarms <= 20  # of 190 and 10 expected
    assert percentile_p(np.column_stack([np.arange(50.0), np.arange(50.0) + 20]), 0.9, 400, 0) < 0.05
