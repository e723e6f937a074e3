"""What is counted of the answers, against counting by hand."""

import itertools
from dataclasses import asdict
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from rag_zeval.stages.answer_quality import REASONS, AnswerFilter
from synthesize.faithfulness import (
    MEASURES,
    measure_faithfulness,
    passage_words,
    print_faithfulness,
    rouge_l_precision,
)
from synthesize.statistics import print_report, response_statistics

ALPHAS = (0.0, -0.5, -1.0, -1.4)
LIMITS = AnswerFilter(True, 0.9, 0.2, 0.9, True)
WORDS = [f"w{at}" for at in range(20)]
LONG, NEAR = " ".join(WORDS), " ".join([*WORDS[:19], "other"])  # 95% the same
FAILED = {"status": "failed: too long", "responses": []}


class Answer(NamedTuple):
    text: str
    finished: bool
    support: float | None
    n_tokens: int = 5


def questions(*supports):
    texts = [LONG, NEAR, "x", "x y", ""]
    answers = st.builds(Answer, st.sampled_from(texts), st.booleans(), st.sampled_from(supports), st.integers(1, 9))
    return st.lists(st.lists(answers, min_size=4, max_size=4), min_size=1, max_size=8)


def row(answers):
    responses = [
        {"alpha": alpha, "text": a.text, "n_tokens": a.n_tokens, "finished": a.finished, "true_support": a.support}
        for alpha, a in zip(ALPHAS, answers, strict=True)
    ]
    return {"status": "ok", "passage": "The passage.", "responses": responses}


def near(first, second):
    return {first.text, second.text} == {LONG, NEAR}


def falls(supports):
    return all(first > second for first, second in itertools.pairwise(supports))


def share(hits):
    return sum(hits) / len(hits) if hits else None


@given(questions(None, 0.0, 0.25, 0.5, 1.0))
def test_shares_are_those_counted_by_hand(drawn):
    found = response_statistics([*map(row, drawn), FAILED], LIMITS)["statistics"]
    assert (found["questions"], found["answered"], found["failed"]) == (len(drawn) + 1, len(drawn), 1)
    assert found["identical"]["any"] == share([len({a.text for a in answers}) < 4 for answers in drawn])
    known = [[a.support for a in answers] for answers in drawn if all(a.support is not None for a in answers)]
    assert found["strictly_ordered"] == share([falls(supports) for supports in known])
    for at, alpha, answers in zip(found["by_alpha"], ALPHAS, zip(*drawn, strict=True), strict=True):
        supports = [a.support for a in answers if a.support is not None]
        assert at["alpha"] == alpha and at["answers"] == len(drawn)
        assert at["unfinished"] == share([not a.finished for a in answers])
        assert at["empty"] == share([not a.text for a in answers])
        assert at["n_tokens"] == pytest.approx(share([a.n_tokens for a in answers]))
        assert at["repetition"] == (0 if {LONG, NEAR} & {a.text for a in answers} else None)
        assert at["true_support_n"] == len(supports)
        if supports:
            assert at["true_support"] == pytest.approx(share(supports))
            low, high = at["true_support_low"], at["true_support_high"]
            if len(supports) == 1:
                assert low is high is None
            else:
                assert min(supports) <= low <= high <= max(supports)
        else:
            assert at["true_support"] is None and at["true_support_low"] is None


@given(questions(0.0, 0.25, 0.5, 1.0))
def test_pairs_are_those_counted_by_hand(drawn):
    found = response_statistics([*map(row, drawn), FAILED], LIMITS)["winnable"]
    numbered = itertools.combinations(enumerate(ALPHAS), 2)
    for pair, ((i, high), (j, low)) in zip(found["pairs"], numbered, strict=True):
        assert pair["alphas"] == [high, low]
        hits = {
            "identical": [answers[i].text == answers[j].text for answers in drawn],
            "near_identical": [near(answers[i], answers[j]) for answers in drawn],
            "tied": [answers[i].support == answers[j].support for answers in drawn],
            "near_identical_tied": [a[i].support == a[j].support for a in drawn if near(a[i], a[j])],
        }
        for key, outcomes in hits.items():
            assert (pair[key]["n"], pair[key]["share"]) == (len(outcomes), share(outcomes))
            if outcomes:
                wilson = binomtest(sum(outcomes), len(outcomes)).proportion_ci(method="wilson")
                interval = pytest.approx((wilson.low, wilson.high), abs=1e-12)
                assert (pair[key]["low"], pair[key]["high"]) == interval


@given(questions(0.0, 0.25, 0.5, 1.0))
def test_what_is_left_for_each_k(drawn):
    found = response_statistics([*map(row, drawn)], LIMITS)["winnable"]
    assert [size["k"] for size in found["sets"]] == [2, 3, 4] and found["limits"] == asdict(LIMITS)
    assert found["flagged"].get("0", {}).get("empty", 0) == sum(not answers[0].text for answers in drawn)
    for size in found["sets"]:
        assert list(size["left"]) == list(REASONS) and size["questions"] == len(drawn)
        counts = [len(drawn), *size["left"].values()]
        assert counts == sorted(counts, reverse=True)  # a reason more never leaves more
        distinct = [len({a.text for a in answers if a.text}) for answers in drawn]
        assert size["left"]["identical"] == sum(n >= size["k"] for n in distinct)
        finished = [{a.text for a in answers if a.text and a.finished} for answers in drawn]
        apart = [len(texts) - ({LONG, NEAR} <= texts) for texts in finished]
        assert size["left"]["unfinished"] == sum(n >= size["k"] for n in apart)
        sets = [itertools.combinations([a.support for a in answers], size["k"]) for answers in drawn]
        assert size["truly_ordered"] == sum(any(map(falls, of)) for of in sets)


def test_tables_print_with_and_without_truth_and_without_answers(capsys):
    answers = [Answer(LONG, True, 1.0), Answer(LONG, True, 1.0), Answer(NEAR, True, 0.5), Answer("x", True, 0.0)]
    print_report(**response_statistics([row(answers)], LIMITS), title="runs/x")
    assert "1.000 [0.207, 1.000]" in capsys.readouterr().out  # Wilson for 1 of 1
    found = response_statistics([row([answer._replace(support=None) for answer in answers])], LIMITS)
    assert {size["truly_ordered"] for size in found["winnable"]["sets"]} == {None}
    assert all(pair["tied"]["n"] == 0 for pair in found["winnable"]["pairs"])
    print_report(**found, title="runs/y")
    print_report(**response_statistics([FAILED], LIMITS), title="runs/z")
    assert "answered 0, failed 1" in capsys.readouterr().out


PASSAGE = "The tower has 2,579 steps and was built in 1976 by the city."
TEXTS = ("It has 2,579 steps.", "Built in 1976.", "steps tower", "Nobody knows.", "the", "")


def texts_row(texts, gold=("2,579 steps",), status="ok"):
    responses = [{"alpha": alpha, "text": text} for alpha, text in zip(ALPHAS[:3], texts, strict=True)]
    gold = {"gold_answers": list(gold)} if gold else {}
    return {"status": status, "passage": PASSAGE, "responses": responses if status == "ok" else [], **gold}


@given(st.lists(st.tuples(*[st.sampled_from(TEXTS)] * 3), min_size=1, max_size=9))
def test_the_fall_with_alpha_is_the_one_counted_by_hand(drawn):
    rows = [*map(texts_row, drawn), texts_row(["x"] * 3, gold=()), texts_row(TEXTS[:3], status="failed: too long")]
    gold = measure_faithfulness(rows)["gold_answer"]
    holds = [["2,579 steps" in text for text in texts] for texts in drawn]
    for at, (alpha, of_alpha) in enumerate(zip(ALPHAS[:3], gold["by_alpha"], strict=True)):
        assert (of_alpha["alpha"], of_alpha["n"]) == (alpha, len(drawn))
        assert of_alpha["mean"] == pytest.approx(sum(of_text[at] for of_text in holds) / len(drawn))
        assert 0 <= of_alpha["low"] <= of_alpha["mean"] <= of_alpha["high"] <= 1
    for pair, (i, j) in zip(gold["pairs"], [(0, 1), (0, 2), (1, 2)], strict=True):
        assert pair["alphas"] == [ALPHAS[:3][i], ALPHAS[:3][j]]
        assert pair["higher"]["mean"] == pytest.approx(sum(h[i] > h[j] for h in holds) / len(drawn))
        assert pair["tied"]["mean"] == pytest.approx(sum(h[i] == h[j] for h in holds) / len(drawn))
    assert gold["ordered"]["mean"] == 0  # of two values three answers cannot all be different


def test_a_measure_is_there_where_it_can_be_taken_and_missing_is_no_zero(capsys):
    measures = measure_faithfulness([texts_row(["It has 2,579 steps.", "the", "Nobody knows."], gold=())])
    assert set(measures) == {"passage_words", "rouge_l"}
    assert [of["mean"] for of in measures["passage_words"]["by_alpha"]] == [0.8, None, 0]
    assert [of["n"] for of in measures["passage_words"]["pairs"][0].values() if isinstance(of, dict)] == [0, 0]
    assert measures["passage_words"]["ordered"] == {"mean": None, "low": None, "high": None, "n": 0}
    print_faithfulness(measures)
    shown = capsys.readouterr().out
    assert "0.800 │" in shown and MEASURES["rouge_l"] in shown and MEASURES["gold_answer"] not in shown


def test_one_alpha_has_no_order():
    answer = row([Answer("It has 2,579 steps.", True, 1.0)] * 4)
    answer["responses"] = answer["responses"][:1]
    assert response_statistics([answer], LIMITS)["statistics"]["strictly_ordered"] is None
    assert measure_faithfulness([answer])["rouge_l"]["ordered"]["n"] == 0


words = st.lists(st.sampled_from(["steps", "built", "in", "1976", "tower", "x"]), max_size=12)


def test_rouge_l_precision_counts_the_words_in_the_passages_order():
    for text, precision in (("steps tower", 1 / 2), ("The tower has been built.", 3 / 4), ("x", 0), ("", None)):
        assert rouge_l_precision(text, PASSAGE) == precision


@given(words, words)
def test_words_in_the_passage_are_counted_once_each(text, passage):
    share = len({*text} & {*passage}) / len({*text}) if text else None
    assert passage_words(" ".join(text), " ".join(passage)) == share
