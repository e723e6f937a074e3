"""Lessons for the SFT trainer: whose answers, in what order, and what is to be replied."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from rag_zeval.judge.parser import as_reply, parse_ranking, parse_strict
from rag_zeval.judge.prompt import RANKING, judge_messages
from rag_zeval.judge.scoring import rank_scores, strictly_ranked, support_scores
from rag_zeval.scorers.word_rule import judge_by_words
from rag_zeval.stages.answer_quality import AnswerFilter
from train.curriculum import Question, flag_questions
from train.settings import Stage
from train.sft.rows import Lesson, build_rows, draw_lessons, ranking_reply, rule_reply

ALPHAS = [0.0, -0.5, -1.0, -1.4]


def question(name: str, texts: list[str] | None = None) -> Question:
    texts = texts or [f"Answer {at} of {name}." for at in range(4)]
    return Question(name, f"What of {name}?", f"The passage of {name}.", dict(zip(ALPHAS, texts, strict=True)))


def draw(
    questions: list[Question],
    stages: list[Stage],
    seed: int = 0,
    wanted: AnswerFilter | None = None,
    variant: str = RANKING.name,
    most: int | None = None,
) -> tuple[list[Lesson], list[dict[str, Any]]]:
    flags = flag_questions(questions, stages, wanted or AnswerFilter())
    settings: Any = SimpleNamespace(rows=stages, seed=seed, variant=variant, sets_per_question=most)
    return draw_lessons(settings, questions, flags)


def rows_of(lessons: list[Lesson], variant: str, tokens: Any = lambda messages: 1) -> Any:
    settings: Any = SimpleNamespace(variant=variant, verl=SimpleNamespace(data=SimpleNamespace(max_length=2000)))
    return build_rows(settings, lessons, tokens)


@given(st.integers(2, 4).flatmap(lambda k: st.permutations(ALPHAS).map(lambda alphas: tuple(alphas[:k]))))
def test_the_ranking_reply_puts_the_largest_alpha_first(alphas: tuple[float, ...]) -> None:
    ranking = parse_ranking(ranking_reply(alphas), len(alphas))
    assert strictly_ranked(rank_scores(ranking), alphas)  # closest to the passage scores highest


@given(
    st.lists(st.lists(st.sampled_from(["a b", "a  b", "a b c", "", "d"]), min_size=4, max_size=4), max_size=12),
    st.lists(st.tuples(st.integers(2, 4), st.one_of(st.none(), st.integers(1, 6))), min_size=1, max_size=3),
    st.integers(0, 3),
)
def test_a_question_gives_all_its_sets_to_one_k(
    texts: list[list[str]], stages: list[tuple[int, int | None]], seed: int
) -> None:
    questions = [question(f"q{at}", four) for at, four in enumerate(texts)]
    try:
        drawn, counts = draw(questions, [Stage(k, rows) for k, rows in stages], seed)
    except InputError:
        return
    groups = [list(group) for _, group in itertools.groupby(drawn, key=lambda c: (c.question.id, len(c.alphas)))]
    assert len({group[0].question.id for group in groups}) == len(groups)  # never in two places
    for group in groups:
        answers = group[0].question.answers
        assert len({frozenset(c.alphas) for c in group}) == len(group)  # no set twice
        for candidates in group:
            shown = [tuple(answers[alpha].split()) for alpha in candidates.alphas]
            assert len(set(shown)) == len(shown) and all(shown)
    assert sum(of["sets"] for of in counts) == len(drawn)
    wanted = [rows for _, rows in stages]
    if None not in wanted:
        assert len(drawn) == sum(rows or 0 for rows in wanted)


def test_all_sets_of_a_question_are_used_and_table_7_comes_out() -> None:
    """3,877 pairs, 3,874 triplets and 3,883 quadruplets, from as many questions as the paper trains on."""
    questions = [question(f"q{at}") for at in range(5500)]
    drawn, _ = draw(questions, [Stage(2, 3877), Stage(3, 3874), Stage(4, 3883)])
    sizes = [len(candidates.alphas) for candidates in drawn]
    assert [sizes.count(k) for k in (2, 3, 4)] == [3877, 3874, 3883]
    assert len({c.question.id for c in drawn}) == 647 + 969 + 3883
    shown_first = [candidates.alphas[0] for candidates in drawn]
    assert all(0.2 < shown_first.count(alpha) / len(drawn) < 0.3 for alpha in ALPHAS)  # no letter gives α away


def test_what_is_flagged_is_never_shown_and_counted_where_its_turn_came() -> None:
    cut = Question("cut", "Q?", "P.", dict(zip(ALPHAS, "abcd", strict=True)), frozenset([0.0]))
    questions = [cut, question("same", ["x", "x", "y", "z"]), question("whole")]
    drawn, counts = draw(questions, [Stage(4, None), Stage(3, None)], 0, AnswerFilter(unfinished=True))
    assert {(c.question.id, frozenset(c.alphas)) for c in drawn} == {
        ("whole", frozenset(ALPHAS)),
        ("cut", frozenset(ALPHAS[1:])),
        ("same", frozenset([0.0, -1.0, -1.4])),
        ("same", frozenset(ALPHAS[1:])),
    }
    assert [(of["k"], of["sets"], sum(of["left_out"].values())) for of in counts] == [(4, 1, 2), (3, 3, 0)]
    assert counts[0]["left_out"]["unfinished"] == counts[0]["left_out"]["identical"] == 1


def test_the_default_filter_draws_what_it_drew_before() -> None:
    """The hash is of the sets drawn when `filter_identical` was the only filter."""
    texts = ["", "He sang.", "He  sang.", "He rowed.", "He sang and rowed.", "She sang.", "She rowed a boat."]
    questions = [
        question(f"q{n}", [texts[n % 7], texts[n // 7 % 7], texts[n // 49 % 7], texts[n // 343]]) for n in range(7**4)
    ]
    drawn, _ = draw(questions, [Stage(4, 100), Stage(3, 100), Stage(2, 100)])
    assert (
        hashlib.sha256(json.dumps([[c.question.id, c.alphas] for c in drawn]).encode()).hexdigest()
        == "34829d6957208bff02143da9e73ca21e401d944536dc582fa6cf132b59a85663"
    )


def test_a_limit_of_sets_spreads_the_rows_over_more_questions() -> None:
    questions, stages = [question(f"q{at}") for at in range(12)], [Stage(3, 6), Stage(2, 6)]
    for most, asked in ((None, 3), (1, 12), (2, 6)):
        drawn, _ = draw(questions, stages, most=most)
        assert len(drawn) == 12 and len({of.question.id for of in drawn}) == asked


def test_too_few_questions_are_an_error_with_the_figures() -> None:
    with pytest.raises(InputError, match=r"rows: K=4 needs 3, but the 2 questions left gave 2"):
        draw([question("a"), question("b")], [Stage(4, 3)])
    with pytest.raises(InputError, match=r"rows: K=3 needs some, but the 1 .* gave 0; left out: 1 identical"):
        draw([question("a", ["x", "x", "y", "y"])], [Stage(3, None)])


def test_rows_hold_the_prompt_and_the_ranking_and_too_long_ones_are_counted() -> None:
    orders = [random.Random(at).sample(ALPHAS, 3) for at in range(3)]
    drawn = [Lesson(question(f"q{at}"), alphas, ranking_reply(alphas)) for at, alphas in enumerate(orders)]
    long = question("long", [f"Answer {at} of long. " * 100 for at in range(4)])
    drawn.insert(1, Lesson(long, [0.0, -0.5, -1.0], "no matter"))
    rows, counts = rows_of(drawn, RANKING.name, lambda messages: sum(len(m["content"]) for m in messages))
    assert {key: counts[key] for key in ("drawn", "too_long", "train_rows")} == {
        "drawn": 4, "too_long": 1, "train_rows": 3
    }  # fmt: skip
    assert sum(counts["shown"]["K=3"]["alphas"].values()) == 3
    assert all(sum(place.values()) == 3 for place in counts["shown"]["K=3"]["positions"].values())
    assert [row["id"] for row in rows] == ["q0", "q1", "q2"]
    asked = drawn[3].question
    user, assistant = rows[2]["messages"]
    assert [user] == judge_messages(
        "ranking-only", asked.question, asked.passage, [asked.answers[alpha] for alpha in drawn[3].alphas]
    )
    assert assistant == {"role": "assistant", "content": ranking_reply(drawn[3].alphas)}
    assert rows[2]["k"] == 3 and rows[2]["alphas"] == drawn[3].alphas


PASSAGE = "The tower was built in Toronto and opened in 1976. It has 2,579 steps."


def test_with_a_trajectorys_prompt_the_word_rules_trajectory_is_taught() -> None:
    answers = {0.0: "It opened in 1976 in Toronto.", -0.5: "Nobody knows.", -1.0: "?!", -1.4: "It opened in Toronto."}
    asked = Question("q", "Which tower?", PASSAGE, answers)
    drawn, _ = draw([asked], [Stage(2, None)], variant="compact")
    # an answer without a sentence cannot be ranked, nothing tells 0 and -1.4 apart, and -1.4 is above -0.5
    assert [{*lesson.alphas} for lesson in drawn] == [{0.0, -0.5}]
    rows, _ = rows_of(drawn, "compact")
    user, assistant = rows[0]["messages"]
    answers = asked.answers_at(drawn[0].alphas)
    assert [user] == judge_messages("compact", asked.question, asked.passage, answers)
    trajectory = judge_by_words(asked.question, asked.passage, answers, 0.5)
    assert assistant == {"role": "assistant", "content": as_reply(trajectory, "compact")}
    with pytest.raises(InputError, match=r"K=3 needs some, .* left out: 1 unranked"):
        draw([asked], [Stage(3, None)], variant="compact")


def test_the_rule_is_as_strict_as_alpha_wants_it() -> None:
    for first, second, verdicts in (
        ("It opened in Paris.", "It opened in Paris, 1978.", [True, False]),  # 1 of 2 and 1 of 3 words: half will do
        ("It opened in Toronto.", "It opened in Paris, Toronto.", [True, False]),  # 2 of 2, 2 of 3: more is asked
        ("It opened in Paris, 1978.", "It sank in Paris, 1978.", [True, False]),  # 1 of 3, 0 of 3: less
        ("It opened in Toronto.", "It sank.", [True, False]),
    ):
        asked = Question("q", "Which tower?", PASSAGE, {0.0: first, -1.4: second})
        reply = rule_reply(asked, (0.0, -1.4), "compact")
        assert reply is not None
        judged = parse_strict(reply, 2, "compact")
        assert [of.atomic_claims[0].is_supported for of in judged] == verdicts
        backwards = Question("q", "Which tower?", PASSAGE, {0.0: second, -1.4: first})
        assert rule_reply(backwards, (0.0, -1.4), "compact") is None


@given(
    st.lists(
        st.lists(st.sampled_from("tower opened 1976. steps; Paris, and London".split()), max_size=9).map(" ".join),
        min_size=4,
        max_size=4,
    ),
    st.integers(1, 4),
)
def test_whatever_is_taught_ranks_as_alpha_does(texts: list[str], k: int) -> None:
    asked = Question("q", "Which tower?", PASSAGE, dict(zip(ALPHAS, texts, strict=True)))
    try:
        drawn, _ = draw([asked], [Stage(k, None)], variant="compact")
    except InputError:
        return
    for lesson in drawn:
        judged = parse_strict(lesson.reply, k, "compact")
        assert strictly_ranked(support_scores(judged), lesson.alphas)
        for candidate in judged:
            claims = [claim.claim for claim in candidate.atomic_claims]
            assert claims and len({*claims}) == len(claims)
