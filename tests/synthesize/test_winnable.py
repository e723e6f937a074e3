"""What is left to rank, against counting by hand."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.stages.answer_quality import REASONS, AnswerFilter
from synthesize.winnable import print_winnable, winnable

ALPHAS = (0.0, -0.5, -1.0, -1.4)
LIMITS = AnswerFilter(True, 0.9, 0.2, 0.9, True)
WORDS = [f"w{at}" for at in range(20)]
LONG, NEAR = " ".join(WORDS), " ".join([*WORDS[:19], "other"])  # 95% the same
ANSWERS = st.tuples(
    st.sampled_from([LONG, NEAR, "x", "x y", ""]), st.booleans(), st.sampled_from([0.0, 0.25, 0.5, 1.0])
)
QUESTIONS = st.lists(st.lists(ANSWERS, min_size=4, max_size=4), min_size=1, max_size=8)


def row(answers, known=True):
    return {
        "status": "ok",
        "passage": "The passage.",
        "responses": [
            {"alpha": alpha, "text": text, "finished": finished, "true_support": support if known else None}
            for alpha, (text, finished, support) in zip(ALPHAS, answers, strict=True)
        ],
    }


def near(first, second):
    return {first, second} == {LONG, NEAR}


@given(QUESTIONS)
def test_pairs_are_those_counted_by_hand(drawn):
    found = winnable([*map(row, drawn), {"status": "failed: too long", "responses": []}], LIMITS)
    numbered = itertools.combinations(enumerate(ALPHAS), 2)
    for pair, ((i, high), (j, low)) in zip(found["pairs"], numbered, strict=True):
        assert pair["alphas"] == [high, low]
        alike = [q for q in drawn if near(q[i][0], q[j][0])]
        for key, of, hits in (
            ("identical", drawn, [q[i][0] == q[j][0] for q in drawn]),
            ("near_identical", drawn, [near(q[i][0], q[j][0]) for q in drawn]),
            ("tied", drawn, [q[i][2] == q[j][2] for q in drawn]),
            ("near_identical_tied", alike, [q[i][2] == q[j][2] for q in alike]),
        ):
            assert pair[key]["n"] == len(of)
            if of:
                assert pair[key]["share"] == sum(hits) / len(of)
                assert (pair[key]["low"], pair[key]["high"]) == pytest.approx(wilson(sum(hits), len(of)), abs=1e-12)
            else:
                assert pair[key]["share"] is None


def wilson(hits, n, z=1.959963984540054):
    share, half = hits / n, z * math.sqrt(hits / n * (1 - hits / n) / n + z * z / (4 * n * n))
    return tuple((share + z * z / (2 * n) + sign * half) / (1 + z * z / n) for sign in (-1, 1))


@given(QUESTIONS)
def test_what_is_left_for_each_k(drawn):
    found = winnable([row(answers) for answers in drawn], LIMITS)
    assert [size["k"] for size in found["sets"]] == [2, 3, 4]
    for size in found["sets"]:
        assert list(size["left"]) == list(REASONS) and size["questions"] == len(drawn)
        counts = [len(drawn), *size["left"].values()]
        assert counts == sorted(counts, reverse=True)  # a reason more never leaves more
        distinct = [len({text for text, _, _ in q if text}) for q in drawn]
        assert size["left"]["identical"] == sum(n >= size["k"] for n in distinct)
        finished = [{text for text, done, _ in q if text and done} for q in drawn]
        apart = [len(texts) - ({LONG, NEAR} <= texts) for texts in finished]
        assert size["left"]["unfinished"] == sum(n >= size["k"] for n in apart)
        falling = [
            any(
                all(a > b for a, b in itertools.pairwise(chosen))
                for chosen in itertools.combinations(supports, size["k"])
            )
            for supports in ([support for _, _, support in q] for q in drawn)
        ]
        assert size["truly_ordered"] == sum(falling)


def test_flags_are_counted_and_the_limits_said():
    found = winnable([row([(LONG, True, 1.0), (LONG, True, 1.0), (NEAR, False, 0.5), ("", True, 0.0)])], LIMITS)
    assert found["flagged"] == {
        "-1": {"unfinished": 1},
        "-1.4": {"empty": 1},
        "0 / -0.5": {"identical": 1},
        "0 / -1": {"near_identical": 1},
        "-0.5 / -1": {"near_identical": 1},
    }
    assert found["limits"] == {
        "identical": True, "near_identical": 0.9, "repetition": 0.2, "passage": 0.9, "unfinished": True
    }  # fmt: skip


def test_tables_print_with_and_without_truth_and_without_answers(capsys):
    answers = [(LONG, True, 1.0), (LONG, True, 1.0), (NEAR, True, 0.5), ("x", True, 0.0)]
    print_winnable(winnable([row(answers)], LIMITS))
    with_truth = capsys.readouterr().out
    assert "0 / -0.5" in with_truth and "1.000 [0.207, 1.000]" in with_truth  # Wilson for 1 of 1
    found = winnable([row(answers, known=False)], LIMITS)
    assert {size["truly_ordered"] for size in found["sets"]} == {None}
    assert all(pair["tied"]["n"] == 0 for pair in found["pairs"])
    print_winnable(found)
    print_winnable(winnable([{"status": "failed: x", "responses": []}], LIMITS))
