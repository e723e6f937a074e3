"""Rank correlations of a judge's score: against scipy and least squares, and with judges whose bias is known."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rag_zeval.statistics.bootstrap import Statistic
from rag_zeval.statistics.judge_bias import JudgedAnswer, RankCorrelation, judge_bias, overlap

rows = st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=6, max_size=30)


def ranks_left(values: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """What a straight line through the ranks of `fixed` leaves of the ranks of `values`."""
    x, y = stats.rankdata(fixed), stats.rankdata(values)
    slope, intercept = np.polyfit(x, y, 1)
    return y - slope * x - intercept


def varied(*columns: np.ndarray) -> bool:
    return all(len(set(column)) > 1 for column in columns)


@given(rows)
def test_it_is_scipys_spearman_and_partial_that_of_residuals(values: list[tuple[int, int, int]]) -> None:
    x, y, z = np.array(values, dtype=float).T
    keep, alone = np.ones(len(x), dtype=bool), np.arange(len(x))
    plain, partial = (RankCorrelation(x, y, fixed, alone).point(keep) for fixed in (None, z))
    if not varied(x, y):
        assert np.isnan(plain) and np.isnan(partial)
        return
    assert plain == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    if not varied(z) or max(abs(stats.spearmanr(of, z).statistic) for of in (x, y)) > 1 - 1e-9:
        assert np.isnan(partial)
    else:
        expected = stats.pearsonr(ranks_left(x, z), ranks_left(y, z)).statistic
        assert partial == pytest.approx(expected, abs=1e-7)


@given(rows, st.data())
def test_a_draw_is_the_value_of_the_prompts_drawn_with_all_their_answers(
    values: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    x, y, z = np.array(values, dtype=float).T
    prompts = np.array([data.draw(st.integers(0, 3)) for _ in values])
    keep = np.array([data.draw(st.booleans()) for _ in values[1:]] + [True])
    names = np.unique(prompts[keep])
    times = np.array([[data.draw(st.integers(0, 2)) for _ in names] for _ in range(3)], dtype=float)
    for fixed in (None, z):
        statistic: Statistic = RankCorrelation(x, y, fixed, prompts)
        for drawn, counts in zip(statistic.draws(keep, times), times, strict=True):
            kept = zip(prompts, keep, strict=True)
            often = np.array([int(counts[names == prompt][0]) if there else 0 for prompt, there in kept])
            if not often.sum():
                assert np.isnan(drawn)
                continue
            of = [np.repeat(v, often) for v in (x, y, z)]
            again = RankCorrelation(of[0], of[1], None if fixed is None else of[2], np.arange(len(of[0])))
            assert drawn == pytest.approx(again.point(np.ones(len(of[0]), dtype=bool)), abs=1e-9, nan_ok=True)


PASSAGE = "The river rose in May and the old mill by the bridge was closed"
SAID = PASSAGE.split()


def judged_by(judge: Callable[[int, float, int, random.Random], float], seed: int = 0) -> list[JudgedAnswer]:
    """Answers whose better ones are the longer ones, though not always."""
    rng, answers = random.Random(seed), []
    for prompt in range(150):
        for position in range(1, 5):
            support = rng.choice([0.0, 0.25, 0.5, 0.75, 1.0])
            length = max(1, round(4 + 8 * support + rng.gauss(0, 3)))
            answer = " ".join(rng.choice(SAID) if rng.random() < 0.5 else "elsewhere" for _ in range(length))
            score = judge(length, support, position, rng)
            answers.append(JudgedAnswer(str(prompt), position, answer, PASSAGE, score, support))
    return answers


def test_the_partial_correlation_tells_a_judge_of_length_from_one_of_support() -> None:
    by_support = judge_bias(judged_by(lambda length, support, at, rng: support + rng.gauss(0, 0.2)))["length"]
    by_length = judge_bias(judged_by(lambda length, support, at, rng: length + rng.gauss(0, 2)))["length"]
    mixed = judge_bias(judged_by(lambda length, support, at, rng: support + length / 16 + rng.gauss(0, 0.2)))["length"]
    for found in (by_support, by_length, mixed):
        assert found.correlation and found.partial and found.correlation.low > 0.4  # alone it tells nothing apart
        assert found.partial.low < found.partial.value < found.partial.high
    assert by_support.partial and by_length.partial and mixed.partial
    assert by_support.partial.low < 0 < by_support.partial.high
    assert mixed.partial.low > by_support.partial.high and by_length.partial.low > mixed.partial.high


def test_a_judge_that_prefers_the_first_is_seen_by_position_alone() -> None:
    found = judge_bias(judged_by(lambda length, support, at, rng: support - at / 4 + rng.gauss(0, 0.1)))
    place, length = found["position"].partial, found["length"].partial
    assert place and place.high < -0.5 and length and length.low < 0 < length.high


def test_what_is_not_known_is_none_and_not_0() -> None:
    answers = judged_by(lambda length, support, at, rng: 1.0)
    assert all(bias.correlation is None and bias.partial is None for bias in judge_bias(answers).values())
    unknown = [JudgedAnswer(a.prompt, a.position, a.answer, PASSAGE, a.support, None) for a in answers]
    missing = JudgedAnswer("more", 1, "x", PASSAGE, None, 1.0)
    found = judge_bias([*unknown, missing])["length"]
    assert found.correlation and found.partial is None and (found.n, found.n_known) == (600, 0)
    assert judge_bias([])["length"].n == 0
    assert overlap("The  MILL, sunk!", PASSAGE) == pytest.approx(2 / 3) and overlap("?!", PASSAGE) == 0.0
