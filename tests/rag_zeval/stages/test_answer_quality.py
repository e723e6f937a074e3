"""Flags of answers against other ways to compute them; gold answers found as whole words, however they are spelt."""

import re
import string
import time
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.scoring import same_words
from rag_zeval.stages.answer_quality import (
    REASONS,
    AnswerFilter,
    answer_words,
    blocking_reason,
    contains_answer,
    copied_share,
    count_flags,
    find_flags,
    may_be_shown,
    repetition,
    similarity,
)

ALPHAS = (0.0, -0.5, -1.0, -1.4)
WORDS = st.lists(st.sampled_from("a b c d".split()), max_size=8).map(" ".join)
LIMIT = st.one_of(st.none(), st.sampled_from([0.25, 0.5, 1.0]))  # values that the measures of few words reach
FILTERS = st.builds(AnswerFilter, st.booleans(), LIMIT, LIMIT, LIMIT, st.booleans())
ANSWERS = WORDS | st.sampled_from(["a b", "a b c d"])  # so that some are the same
FOUR = st.lists(ANSWERS, min_size=4, max_size=4).map(lambda texts: dict(zip(ALPHAS, texts, strict=True)))
CUT_OFF = st.frozensets(st.sampled_from(ALPHAS))


class Words:
    def tokenize(self, text: str) -> list[str]:
        return text.split()


@given(*[st.lists(st.sampled_from("a b c d e".split()), max_size=90).map(" ".join)] * 2)
def test_similarity_is_rouge_l(first: str, second: str) -> None:
    rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")
    value = similarity(first, second)
    assert value == similarity(second, first)
    assert (value == 1) == same_words(first, second)
    if first and second:
        rouge = rouge_scorer.RougeScorer(["rougeL"], tokenizer=Words()).score(first, second)["rougeL"]
        assert value == pytest.approx(rouge.fmeasure)


def test_text_that_loops_takes_no_longer() -> None:
    """5,000 words each: a table of 25 million cells, and the worst case of difflib."""
    started = time.process_time()
    assert similarity("a b c " * 1700, "c b a " * 1700) == pytest.approx(2 / 3, abs=0.01)
    assert time.process_time() - started < 5


@given(st.text(alphabet="ab "))
def test_repetition_counts_runs_seen_before(text: str) -> None:
    words = text.split()
    runs = [" ".join(words[i : i + 4]) for i in range(len(words) - 3)]
    expected = sum(run in runs[:i] for i, run in enumerate(runs)) / len(runs) if runs else None
    assert repetition(text) == (None if expected is None else pytest.approx(expected))


@given(WORDS, WORDS, WORDS)
def test_copied_share_is_the_longest_run_of_the_passage(answer: str, passage: str, more: str) -> None:
    words = passage.split()
    runs = (words[i:j] for i in range(len(words)) for j in range(i + 1, len(words) + 1))
    longest = max((len(run) for run in runs if f" {' '.join(run)} " in f" {answer} "), default=0)
    assert copied_share(answer, passage) == (longest / len(words) if words else 0)
    assert not words or copied_share(f"{more} {passage} {more}", passage) == 1


@given(FOUR, WORDS, CUT_OFF, FILTERS | st.just(AnswerFilter()), st.integers(2, 4))
def test_flags_follow_the_limits_and_the_reason_is_the_first_that_leaves_too_few_answers(
    answers: dict[float, str], passage: str, unfinished: frozenset[float], wanted: AnswerFilter, k: int
) -> None:
    """The rules are spelled out again; for the reason, they are turned on one after another."""

    def on(limit: float | None, value: float | None) -> bool:
        return limit is not None and value is not None and value >= limit

    expected = {}
    for alpha, text in answers.items():
        reasons = {
            "empty": not text,
            "repetition": on(wanted.repetition, repetition(text)),
            "passage": on(wanted.passage, copied_share(text, passage)),
            "unfinished": wanted.unfinished and alpha in unfinished,
        }
        expected[(alpha,)] = next((reason for reason, holds in reasons.items() if holds), None)
    for high, low in combinations(ALPHAS, 2):
        near = on(wanted.near_identical, similarity(answers[high], answers[low]))
        same = wanted.identical and answers[high] == answers[low]
        expected[high, low] = "identical" if same else "near_identical" if near else None
    flags = find_flags(answers, passage, unfinished, wanted)
    assert flags == {flagged: reason for flagged, reason in expected.items() if reason}

    def left(reasons: Sequence[str]) -> list[tuple[float, ...]]:
        against = [set(flagged) for flagged, reason in expected.items() if reason in reasons]
        return [shown for shown in combinations(ALPHAS, k) if not any(flagged <= set(shown) for flagged in against)]

    first = next((why for at, why in enumerate(REASONS) if not left(REASONS[: at + 1])), None)
    assert blocking_reason(flags, ALPHAS, k) == first
    assert [shown for shown in combinations(ALPHAS, k) if may_be_shown(shown, flags)] == left(REASONS)


@given(st.lists(st.tuples(FOUR, CUT_OFF), max_size=5), FILTERS)
def test_counts_are_by_alpha_and_pair(
    questions: list[tuple[dict[float, str], frozenset[float]]], wanted: AnswerFilter
) -> None:
    flagged = [find_flags(answers, "a b c", unfinished, wanted) for answers, unfinished in questions]
    counts = count_flags(flagged)
    assert sum(sum(reasons.values()) for reasons in counts.values()) == sum(map(len, flagged))
    for label, reasons in counts.items():
        alphas = tuple(float(alpha) for alpha in label.split(" / "))
        assert alphas == tuple(sorted(alphas, reverse=True))
        assert all(n == sum(flags.get(alphas) == reason for flags in flagged) for reason, n in reasons.items())


SPELT = st.lists(st.text("abtheXY09é", min_size=1, max_size=6), min_size=1, max_size=5)


def squad_normalised(text: str) -> list[str]:
    """The evaluation script of SQuAD 1.1, its steps in their order."""
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


@given(SPELT)
def test_without_marks_words_are_those_of_squads_script(listed: list[str]) -> None:
    assert answer_words(" ".join(listed)) == squad_normalised(" ".join(listed))


@given(SPELT, SPELT, SPELT)
def test_an_answer_is_found_wherever_it_stands(before: list[str], gold: list[str], after: list[str]) -> None:
    text = " ".join([*before, "(" + " ".join(gold).upper() + "),", *after])
    assert contains_answer(text, ["never said at all", " ".join(gold)]) == bool(answer_words(" ".join(gold)))


@pytest.mark.parametrize(
    "text, gold, found",
    [
        ("It was the year 1992.", ["1992"], True),
        ("It cost 21992 dollars.", ["1992"], False),
        ("A tower of 2,579 steps", ["2,579 steps"], True),
        ("Jean-Paul Sartre wrote it.", ["Jean Paul Sartre"], True),
        ("The Who sang it.", ["the who"], True),
        ("Anything", [], False),
        ("Anything at all", ["the", "?"], False),
    ],
)
def test_a_gold_answer_is_found_by_whole_words(text: str, gold: list[str], found: bool) -> None:
    assert contains_answer(text, gold) is found
