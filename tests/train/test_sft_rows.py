"""Lessons for the SFT trainer: whose answers, in what order, and what is to be replied."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval import world
from rag_zeval.backends.scripted import ScriptedBackend
from rag_zeval.errors import InputError
from rag_zeval.llm import Reply, Request
from rag_zeval.parser import parse_ranking, parse_strict
from rag_zeval.prompt import INPUTS, RANKING, VARIANTS, find_variant, judge_messages, without_evidence
from rag_zeval.scoring import rank_scores, strictly_ranked
from train.curriculum import Question, Stage
from train.sft_rows import Candidates, build_rows, draw_candidates, own_replies, ranking_reply, trajectory_text

ALPHAS = [0.0, -0.5, -1.0, -1.4]
COMPACT = find_variant("compact")


def question(name: str, texts: list[str] | None = None) -> Question:
    texts = texts or [f"Answer {at} of {name}." for at in range(4)]
    return Question(name, f"What of {name}?", f"The passage of {name}.", dict(zip(ALPHAS, texts, strict=True)))


@given(st.integers(2, 4).flatmap(lambda k: st.permutations(ALPHAS).map(lambda alphas: tuple(alphas[:k]))))
def test_the_ranking_reply_puts_the_largest_alpha_first(alphas: tuple[float, ...]) -> None:
    ranking = parse_ranking(ranking_reply(Candidates(question("q"), alphas)), len(alphas))
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
        drawn = draw_candidates(questions, [Stage(k, rows) for k, rows in stages], seed, filter_identical=True)
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
    wanted = [rows for _, rows in stages]
    if None not in wanted:
        assert len(drawn) == sum(rows or 0 for rows in wanted)


def test_all_sets_of_a_question_are_used_and_table_7_comes_out() -> None:
    """3,877 pairs, 3,874 triplets and 3,883 quadruplets, from as many questions as the paper trains on."""
    questions = [question(f"q{at}") for at in range(5500)]
    drawn = draw_candidates(questions, [Stage(2, 3877), Stage(3, 3874), Stage(4, 3883)], 0, filter_identical=True)
    sizes = [len(candidates.alphas) for candidates in drawn]
    assert [sizes.count(k) for k in (2, 3, 4)] == [3877, 3874, 3883]
    assert len({c.question.id for c in drawn}) == 647 + 969 + 3883
    shown_first = [candidates.alphas[0] for candidates in drawn]
    assert all(0.2 < shown_first.count(alpha) / len(drawn) < 0.3 for alpha in ALPHAS)  # no letter gives α away


def test_too_few_questions_are_an_error_with_the_figures() -> None:
    with pytest.raises(InputError, match=r"rows: K=4 needs 3, but the 2 questions left gave 2"):
        draw_candidates([question("a"), question("b")], [Stage(4, 3)], 0, filter_identical=True)
    with pytest.raises(InputError, match=r"rows: K=3 needs some, but the 1 questions left gave 0"):
        draw_candidates([question("a", ["x", "x", "y", "y"])], [Stage(3, None)], 0, filter_identical=True)


def perfect(request: Request, variant: str = "compact") -> str:
    """A trajectory of every answer's sentences, with evidence, that finds every second claim supported."""
    before, after = find_variant(variant).template.split(INPUTS)
    inputs = json.loads(request.messages[0]["content"][len(before) : -len(after) or None])
    values: dict[str, Any] = {"grounding_evidence": [inputs["reference"]], "analysis": 'so "it" is'}
    items = []
    for letter, answer in inputs["candidates"].items():
        claims = [{**values, "claim": part, "is_supported": at % 2 == 0} for at, part in enumerate(answer.split(". "))]
        claims = [{field: claim[field] for field in find_variant(variant).claim_fields} for claim in claims]
        echo = {"answer": answer} if find_variant(variant).echo_answer else {}
        items.append({"id": letter, **echo, "atomic_claims": claims})
    return json.dumps(items)


def test_the_base_gives_its_own_verdicts_and_only_the_evidence_goes() -> None:
    examples = world.ranked_examples("train", 6, 4, 0)
    drawn = []
    for example in examples:
        answers = dict(zip(ALPHAS, example.answers, strict=True))
        asked = Question(example.id, example.question.question, example.question.passage, answers)
        drawn.append(Candidates(asked, (-1.0, 0.0, -0.5)))
    said = [perfect(Request(tuple(c.messages(COMPACT)))) for c in drawn]
    scripted: list[str | Reply] = [*said]
    scripted[1] = said[1][:-1]  # cut off
    scripted[2] = said[2].replace('"is_supported": true', '"is_supported": "true"')  # strict: no coercion
    scripted[3] = Reply(None, "failed: no memory")
    target = without_evidence(COMPACT)
    replies = own_replies(ScriptedBackend(scripted), drawn, COMPACT, target)
    assert [reply is None for reply in replies] == [False, True, True, True, False, False]
    for text, reply in zip(said, replies, strict=True):
        if reply is None:
            continue
        before, after = parse_strict(text, 3, "compact"), parse_strict(reply, 3, target.name)
        assert "grounding_evidence" not in reply
        for one, other in zip(before, after, strict=True):
            assert [(c.claim, c.is_supported, c.analysis) for c in one.atomic_claims] == [
                (c.claim, c.is_supported, c.analysis) for c in other.atomic_claims
            ]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_trajectory_is_written_with_the_fields_of_its_variant_in_order(variant: str) -> None:
    request = Request(tuple(judge_messages(variant, "q", "r", ["One. Two.", "Three."])))
    trajectory = parse_strict(perfect(request, variant), 2, variant)
    text = trajectory_text(trajectory, find_variant(variant))
    assert parse_strict(text, 2, variant) == trajectory
    items = json.loads(text)
    assert all(tuple(c) == find_variant(variant).claim_fields for item in items for c in item["atomic_claims"])
    assert all(("answer" in item) == find_variant(variant).echo_answer for item in items)


def test_rows_hold_the_prompt_and_the_reply_and_what_is_left_out_is_counted() -> None:
    drawn = [Candidates(question(f"q{at}"), tuple(random.Random(at).sample(ALPHAS, 3))) for at in range(4)]
    replies = [ranking_reply(drawn[0]), None, ranking_reply(drawn[2]) + " " * 5000, ranking_reply(drawn[3])]
    rows, counts = build_rows(drawn, replies, RANKING, lambda messages: sum(len(m["content"]) for m in messages), 2000)
    assert counts == {"drawn": 4, "unreadable": 1, "too_long": 1, "train_rows": 2}
    assert [row["id"] for row in rows] == ["q0", "q3"]
    asked = drawn[3].question
    user, assistant = rows[1]["messages"]
    assert [user] == judge_messages(
        "ranking-only", asked.question, asked.passage, [asked.answers[alpha] for alpha in drawn[3].alphas]
    )
    assert assistant == {"role": "assistant", "content": ranking_reply(drawn[3])}
    assert rows[1]["k"] == 3 and rows[1]["alphas"] == list(drawn[3].alphas)
