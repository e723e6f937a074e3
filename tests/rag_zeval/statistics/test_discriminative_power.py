import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rag_zeval.statistics.discriminative_power import Pair, discriminative_power, holm, randomisation_p


@settings(max_examples=10)
@given(st.lists(st.floats(-1, 1, width=16), min_size=1, max_size=6))
def test_p_is_the_share_of_signs_with_as_large_a_mean(differences: list[float]) -> None:
    _, (pair,) = discriminative_power({"a": differences, "b": [0.0] * len(differences)})
    means = [
        abs(sum(sign * d for sign, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    expected = sum(mean >= abs(sum(differences)) - 1e-12 for mean in means) / len(means)
    assert pair.p == pytest.approx(expected)
    assert pair.difference == pytest.approx(sum(differences) / len(differences))


def test_a_question_without_a_score_counts_for_neither_system_of_a_pair() -> None:
    good, bad = [1.0, 0.9, 0.8, 1.0, 0.7, 0.9, 1.0], [0.1, 0.2, 0.0, 0.1, 0.3, 0.2, 0.1]
    _, (pair,) = discriminative_power({"good": [*good, None, 0.0], "bad": [*bad, 1.0, None]})
    _, (alone,) = discriminative_power({"good": good, "bad": bad})
    assert pair == alone and pair.questions == 7
    assert discriminative_power({"a": [None, 1.0], "b": [1.0, None]}) == (0.0, [Pair("a", "b", 0, None, None)])


def test_many_questions_are_sampled_with_a_seed_and_finely_enough_for_holm() -> None:
    systems = {str(i): [i / 10 + (q * 7 % 10) / 100 for q in range(40)] for i in range(4)}
    power, pairs = discriminative_power(systems, seed=3)
    assert power == 1 and discriminative_power(systems, seed=3)[1] == pairs


@pytest.mark.parametrize("n", [14, 100, 1000])
def test_p_of_many_questions_is_that_of_scipy(n: int) -> None:
    difference = np.random.default_rng(n).normal(1.6 / n**0.5, 1, n).round(1)
    test = stats.permutation_test(
        (difference, np.zeros(n)),
        lambda ours, theirs, axis: (ours - theirs).mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=4_000,
        rng=1,
    )
    assert 0.01 < test.pvalue < 0.6
    found = randomisation_p(difference, 4_000, 0)
    assert found == pytest.approx(test.pvalue, abs=5 * (test.pvalue / 4_000) ** 0.5)
    assert randomisation_p(np.append(difference, np.zeros(50)), 4_000, 0) == found  # a tie says nothing
    assert randomisation_p(-difference, 4_000, 0) == found


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.999))
def test_holm_rejects_what_his_steps_reject(p_values: list[float], alpha: float) -> None:
    rejected: set[int] = set()
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[at] * (len(p_values) - rank) > alpha:
            break
        rejected.add(at)
    adjusted = holm(p_values)
    assert {at for at, p in enumerate(adjusted) if p <= alpha} == rejected
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    assert holm([None, *p_values, None]) == [None, *adjusted, None]


@pytest.mark.parametrize("systems", [{}, {"a": [1.0]}, {"a": [1.0], "b": [1.0, 2.0]}])
def test_what_cannot_be_compared_is_refused(systems: dict[str, list[float]]) -> None:
    with pytest.raises(ValueError, match="two systems or more, with as many questions each"):
        discriminative_power(systems)
