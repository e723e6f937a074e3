"""Flags of answers against other ways to compute them."""

from __future__ import annotations

import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.scoring import same_words
from rag_zeval.stages.answer_quality import (
    REASONS,
    AnswerFilter,
    blocking_reason,
    copied_share,
    count_flags,
    find_flags,
    may_be_shown,
    repetition,
    similarity,
)

ALPHAS = (0.0, -0.5, -1.0, -1.4)
WORDS = st.lists(st.sampled_from("a b c d".split()), max_size=8).map(" ".join)
LIMIT = st.one_of(st.none(), st.sampled_from([0.1, 0.3, 0.5, 0.8, 1.0]))
FILTERS = st.builds(AnswerFilter, st.booleans(), LIMIT, LIMIT, LIMIT, st.booleans())
FOUR = st.lists(WORDS, min_size=4, max_size=4).map(lambda texts: dict(zip(ALPHAS, texts, strict=True)))
CUT_OFF = st.frozensets(st.sampled_from(ALPHAS))


class Words:
    def tokenize(self, text: str) -> list[str]:
        return text.split()


@given(st.lists(st.sampled_from("a b c d e".split()), max_size=90).map(" ".join), WORDS)
def test_similarity_is_rouge_l(first: str, second: str) -> None:
    rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")
    found = similarity(first, second)
    assert found == similarity(second, first)
    assert (found == 1) == same_words(first, second)
    if first and second:
        rouge = rouge_scorer.RougeScorer(["rougeL"], tokenizer=Words()).score(first, second)["rougeL"]
        assert found == pytest.approx(rouge.fmeasure)


def test_text_that_loops_takes_no_longer() -> None:
    """5,000 words each: a table of 25 million cells, and the worst case of difflib."""
    started = time.process_time()
    assert similarity("a b c " * 1700, "c b a " * 1700) == pytest.approx(2 / 3, abs=0.01)
    assert time.process_time() - started < 5


@given(st.integers(1, 40), st.data())
def test_similarity_of_one_word_exchanged(n: int, data: st.DataObject) -> None:
    words = [f"w{at}" for at in range(n)]
    other = list(words)
    other[data.draw(st.integers(0, n - 1))] = "another"
    assert similarity(" ".join(words), "  ".join(other)) == pytest.approx((n - 1) / n)


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


@given(FOUR, WORDS, CUT_OFF)
def test_by_default_only_empty_and_identical_answers_are_flagged(
    answers: dict[float, str], passage: str, unfinished: frozenset[float]
) -> None:
    expected = {(alpha,): "empty" for alpha, text in answers.items() if not text.split()}
    expected |= {
        (high, low): "identical"
        for high, low in combinations(ALPHAS, 2)
        if answers[high].split() == answers[low].split()
    }
    assert find_flags(answers, passage, unfinished, AnswerFilter()) == expected


@given(FOUR, WORDS, CUT_OFF, FILTERS, st.integers(2, 4))
def test_the_reason_is_the_first_that_leaves_too_few_answers(
    answers: dict[float, str], passage: str, unfinished: frozenset[float], wanted: AnswerFilter, k: int
) -> None:
    """Reason after reason is turned on; the rules are spelled out again here."""

    def on(limit: float | None, value: float | None) -> bool:
        return limit is not None and value is not None and value >= limit

    def bad_alone(alpha: float, reasons: set[str]) -> bool:
        text = answers[alpha]
        return (
            ("empty" in reasons and not text)
            or ("repetition" in reasons and on(wanted.repetition, repetition(text)))
            or ("passage" in reasons and bool(text) and on(wanted.passage, copied_share(text, passage)))
            or ("unfinished" in reasons and wanted.unfinished and alpha in unfinished)
        )

    def bad_together(first: str, second: str, reasons: set[str]) -> bool:
        return ("identical" in reasons and wanted.identical and first == second) or (
            "near_identical" in reasons
            and not (wanted.identical and first == second)
            and on(wanted.near_identical, similarity(first, second))
        )

    def left(reasons: set[str]) -> list[tuple[float, ...]]:
        return [
            chosen
            for chosen in combinations(ALPHAS, k)
            if not any(bad_alone(alpha, reasons) for alpha in chosen)
            and not any(bad_together(answers[a], answers[b], reasons) for a, b in combinations(chosen, 2))
        ]

    flags = find_flags(answers, passage, unfinished, wanted)
    first = next((why for at, why in enumerate(REASONS) if not left(set(REASONS[: at + 1]))), None)
    assert blocking_reason(flags, ALPHAS, k) == first
    assert [chosen for chosen in combinations(ALPHAS, k) if may_be_shown(chosen, flags)] == left(set(REASONS))


@given(FOUR, WORDS, st.sampled_from(["near_identical", "repetition", "passage"]), st.tuples(LIMIT, LIMIT))
def test_a_higher_limit_flags_no_more(
    answers: dict[float, str], passage: str, key: str, limits: tuple[float | None, float | None]
) -> None:
    low, high = sorted(limits, key=lambda limit: 2 if limit is None else limit)
    strict, lax = (find_flags(answers, passage, (), AnswerFilter(**{key: limit})) for limit in (low, high))
    assert lax.keys() <= strict.keys()


@given(st.lists(st.tuples(FOUR, CUT_OFF), max_size=5), FILTERS)
def test_counts_are_by_alpha_and_pair(
    questions: list[tuple[dict[float, str], frozenset[float]]], wanted: AnswerFilter
) -> None:
    found = [find_flags(answers, "a b c", unfinished, wanted) for answers, unfinished in questions]
    counts = count_flags(found)
    assert sum(sum(of.values()) for of in counts.values()) == sum(map(len, found))
    for label, of in counts.items():
        alphas = tuple(float(alpha) for alpha in label.split(" / "))
        assert alphas == tuple(sorted(alphas, reverse=True))
        assert all(n == sum(flags.get(alphas) == reason for flags in found) for reason, n in of.items())
