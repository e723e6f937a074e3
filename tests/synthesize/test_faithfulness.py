"""How faithfulness falls with alpha, against counting by hand."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthesize.faithfulness import (
    MEASURES,
    measure_faithfulness,
    passage_words,
    print_faithfulness,
    rouge_l_precision,
)

ALPHAS = (0.0, -0.5, -1.0)
PASSAGE = "The tower has 2,579 steps and was built in 1976 by the city."
TEXTS = ("It has 2,579 steps.", "Built in 1976.", "steps tower", "Nobody knows.", "the", "")


def row(texts, gold=("2,579 steps",), status="ok"):
    responses = [{"alpha": alpha, "text": text} for alpha, text in zip(ALPHAS, texts, strict=True)]
    gold = {"gold_answers": list(gold)} if gold else {}
    return {"status": status, "passage": PASSAGE, "responses": responses if status == "ok" else [], **gold}


def lcs(first, second):
    """The textbook table."""
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, j in itertools.product(range(len(first)), range(len(second))):
        same = first[i] == second[j]
        table[i + 1][j + 1] = table[i][j] + 1 if same else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(st.lists(st.tuples(*[st.sampled_from(TEXTS)] * 3), min_size=1, max_size=9))
def test_shares_are_those_counted_by_hand(drawn):
    rows = [*map(row, drawn), row(["x"] * 3, gold=()), row(TEXTS[:3], status="failed: too long")]
    gold = measure_faithfulness(rows)["gold_answer"]
    holds = [["2,579 steps" in text for text in texts] for texts in drawn]
    for at, (alpha, of_alpha) in enumerate(zip(ALPHAS, gold["by_alpha"], strict=True)):
        assert (of_alpha["alpha"], of_alpha["n"]) == (alpha, len(drawn))
        assert of_alpha["mean"] == pytest.approx(sum(of_text[at] for of_text in holds) / len(drawn))
        assert 0 <= of_alpha["low"] <= of_alpha["mean"] <= of_alpha["high"] <= 1
    for pair, (i, j) in zip(gold["pairs"], [(0, 1), (0, 2), (1, 2)], strict=True):
        assert pair["alphas"] == [ALPHAS[i], ALPHAS[j]]
        assert pair["higher"]["mean"] == pytest.approx(sum(h[i] > h[j] for h in holds) / len(drawn))
        assert pair["tied"]["mean"] == pytest.approx(sum(h[i] == h[j] for h in holds) / len(drawn))
    assert gold["ordered"]["mean"] == 0  # of two values three answers cannot all be different


def test_a_measure_is_there_where_it_can_be_taken_and_missing_is_no_zero(capsys):
    measures = measure_faithfulness([row(["It has 2,579 steps.", "the", "Nobody knows."], gold=())])
    assert set(measures) == {"passage_words", "rouge_l"}
    assert [of["mean"] for of in measures["passage_words"]["by_alpha"]] == [0.8, None, 0]
    assert [of["n"] for of in measures["passage_words"]["pairs"][0].values() if isinstance(of, dict)] == [0, 0]
    assert measures["passage_words"]["ordered"] == {"mean": None, "low": None, "high": None, "n": 0}
    print_faithfulness(measures)
    shown = capsys.readouterr().out
    assert "0.800 [" in shown and MEASURES["rouge_l"] in shown and MEASURES["gold_answer"] not in shown


words = st.lists(st.sampled_from(["steps", "built", "in", "1976", "tower", "x"]), max_size=12)


@given(words, words)
def test_rouge_l_precision_is_the_textbooks(text, passage):
    expected = lcs(text, passage) / len(text) if text else None
    assert rouge_l_precision(" ".join(text), " ".join(passage)) == expected


@given(words, words)
def test_words_in_the_passage_are_counted_once_each(text, passage):
    share = len({*text} & {*passage}) / len({*text}) if text else None
    assert passage_words(" ".join(text), " ".join(passage)) == share
