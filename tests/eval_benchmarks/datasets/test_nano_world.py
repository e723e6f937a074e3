"""The nano world's benchmarks: known truth, the same prompts each time."""

import random
import re
from dataclasses import asdict
from typing import Any

import pytest

from eval_benchmarks.datasets.nano_cad import ROWS, NanoCad, choose
from eval_benchmarks.datasets.nano_eval import NanoEval
from rag_zeval.errors import InputError
from rag_zeval.files import read_jsonl
from rag_zeval.judge.schema import AtomicClaim, CandidateEvaluation
from rag_zeval.scorers.score import Score, Scored
from rag_zeval.stages import world
from rag_zeval.stages.config import load_config

N = 20


def values(benchmark: NanoEval, scored: dict[str, Scored]) -> dict[str, tuple[float, int]]:
    return {m.name: (m.value, m.n) for m in benchmark.metrics(scored)}


def judged(claims: list[list[tuple[str, bool]]], values: tuple[float | None, ...]) -> dict[str, Any]:
    candidates = [
        asdict(CandidateEvaluation(letter, tuple(AtomicClaim(text, said) for text, said in own)))
        for letter, own in zip("ABCD", claims, strict=False)
    ]
    scores = tuple(Score(value) for value in values)
    return {"scores": scores, "parts": {"trajectory": candidates, "strict": True}}


def test_prompts_are_new_people_with_distinct_true_support_and_follow_from_the_seeds() -> None:
    benchmark = NanoEval(N, 1, 2)
    assert [len(e.answers) for e in benchmark.examples] == [4] * N + [2] * N
    assert len({e.id for e in benchmark.examples}) == 2 * N
    known = set(world.remembered_people("train")) | set(world.new_people("train")) | set(world.new_people("dev"))
    assert not any(e.question.endswith(f" of {person}?") for e in benchmark.examples for person in known)
    assert any(e.question.endswith(f" of {person}?") for e in benchmark.examples for person in world.new_people("test"))
    assert benchmark.data_hash == NanoEval(N, 1, 2).data_hash != NanoEval(N, 1, 3).data_hash


def test_claims_are_counted_against_the_world() -> None:
    """Three claims: one right, one wrong, one that no sentence of the world reads like (not right, in no rate)."""
    benchmark = NanoEval(1, 1, 2)
    asked = world.ranked_examples("test", 1, 4, 1)[0]
    key = asked.question.keys[0]
    truth = asked.question.facts[key]
    lie = next(v for v in world.ATTRIBUTES[key].values if v != truth)
    claims = [
        (world.claim(asked.question.person, key, truth), True),
        (world.claim(asked.question.person, key, lie), True),
        ("Nothing of the kind.", False),
    ]
    row = Scored(asked.id, **judged([claims, [], [], []], (1.0, None, None, None)))
    row.parts["trajectory"][1] = None
    found = values(benchmark, {asked.id: row})
    assert found["verdict_accuracy"] == (pytest.approx(1 / 3), 1)
    assert (found["verdict_tpr"], found["verdict_tnr"]) == ((1.0, 1), (0.0, 1))
    assert found["ranking_accuracy"][1] == 0  # answers without a score: missing, not wrong


def test_claims_left_out_are_seen_and_those_about_another_answer_do_not_help() -> None:
    benchmark = NanoEval(1, 1, 2)
    example = world.ranked_examples("test", 1, 4, 1)[0]
    name, keys, facts = example.question.person, example.question.keys, example.question.facts
    stated = [re.findall(r"[^.]+\.", answer) for answer in example.answers]
    assert all(len(own) == len(keys) for own in stated)
    perfect = example.true_support.index(1.0)
    claims: list[list[tuple[str, bool]]] = [[] for _ in example.answers]
    claims[perfect] = [(world.claim(name, keys[0], facts[keys[0]]), True)] * 3  # one fact of four, three times
    worst = example.true_support.index(min(example.true_support))
    claims[worst] = [("Nothing of the kind.", False)]
    row = Scored(example.id, **judged(claims, (1.0, 1.0, 1.0, 1.0)))
    assert values(benchmark, {example.id: row})["claim_recall"] == (1 / 16, 1)
    row.parts["trajectory"][worst] = None  # not read, so not known
    assert values(benchmark, {example.id: row})["claim_recall"] == (1 / 12, 1)


def test_a_prompt_counts_once_however_many_claims_it_has() -> None:
    benchmark = NanoEval(2, 1, 2)
    one, two = world.ranked_examples("test", 2, 4, 1)
    texts = [[world.claim(e.question.person, k, e.question.facts[k]) for k in e.question.keys] for e in (one, two)]
    right, wrong = [(texts[0][0], True)], [(text, False) for text in texts[1]]
    scored = {
        one.id: Scored(one.id, **judged([right], (1.0, 1.0, 1.0, 1.0))),
        two.id: Scored(two.id, **judged([wrong, wrong], (0.0, 0.0, 0.0, 0.0))),
    }
    found = values(benchmark, scored)
    assert found["verdict_accuracy"] == (0.5, 2)
    assert found["verdict_tpr"] == (pytest.approx(1 / 9), 2)  # a rate over claims: 1 of 1 + 8


def test_ranking_is_strict_over_all_pairs_and_pairwise_follows_the_truth(score_by: Any) -> None:
    benchmark = NanoEval(N, 1, 2)
    truth = [e.true_support for k, seed in ((4, 1), (2, 2)) for e in world.ranked_examples("test", N, k, seed)]
    right = values(benchmark, score_by(benchmark, lambda i: truth[i]))
    assert set(right.values()) == {(1.0, N)}
    assert list(right) == ["ranking_accuracy", "pairwise_best", "pairwise_middle", "pairwise_worst"]
    backwards = score_by(benchmark, lambda i: [-support for support in truth[i]])
    assert set(values(benchmark, backwards).values()) == {(0.0, N)}
    best_alone = score_by(benchmark, lambda i: [float(support == max(truth[i])) for support in truth[i]])
    assert values(benchmark, best_alone)["ranking_accuracy"] == (0.0, N)
    assert {n for _, n in values(benchmark, {}).values()} == {0}  # what nobody scored is missing


def responses(count: int) -> list[dict[str, Any]]:
    """Answers with 0, 1, 2 and 3 facts wrong to even questions, 0, 0, 1 and 1 to odd ones."""
    rows = []
    for at, asked in enumerate(world.questions("test", count, 3)):
        rng = random.Random(at)
        wrong = (0, 1, 2, 3) if at % 2 == 0 else (0, 0, 1, 1)
        texts = [world.answer_with_errors(asked, n, rng) for n in wrong]
        rows.append(
            {"id": asked.id, "status": "ok", "responses": [{"alpha": -i, "text": t} for i, t in enumerate(texts)]}
        )
    return rows


def test_only_answers_that_can_be_ranked_are_chosen() -> None:
    rows = choose(responses(40), 15)
    assert rows == choose(responses(40), 15)
    assert [len(row["answers"]) for row in rows] == [4] * 15 + [2] * 15
    assert len({row["id"] for row in rows}) == 30
    for row in rows:
        facts = world.find_question(row["id"]).facts
        assert len({world.true_support(text, facts) for text in row["answers"]}) == len(row["answers"])
    with pytest.raises(InputError, match="40 questions gave 20 prompts with K=4, 21 are wanted"):
        choose(responses(40), 21)


def test_an_empty_answer_has_no_true_support_and_is_not_taken_for_one_without_a_true_claim() -> None:
    rows = responses(40)
    for row in rows:
        row["responses"].append({"alpha": -9, "text": ""})
    chosen = choose(rows, 15)
    assert not any("" in row["answers"] for row in chosen)
    with pytest.raises(InputError, match="an empty answer has no true support"):
        NanoCad([{**chosen[0], "answers": ["", *chosen[0]["answers"][1:]]}])


def test_the_true_support_ranks_the_answers(score_by: Any) -> None:
    benchmark = NanoCad(choose(responses(20), 5))

    def supports(at: int) -> list[float | None]:
        facts = world.find_question(benchmark.examples[at].id).facts
        return [world.true_support(text, facts) for text in benchmark.examples[at].answers]

    assert {m.value for m in benchmark.metrics(score_by(benchmark, supports))} == {1.0}


def test_the_test_sets_are_those_that_were_fixed_before_any_tuning() -> None:
    """A change of the world or of a seed that changes what is tested has to be made here, knowingly."""
    config = load_config("bench", []).nano_eval
    drawn = NanoEval(config.n, config.seed_ranked, config.seed_pairs)
    assert drawn.data_hash == "d2366d2f65f59689b2b8bddb691579acffbf3baf14a68efb91d7e7c2a734ebb8"
    shipped = NanoCad(read_jsonl(ROWS))
    assert [len(e.answers) for e in shipped.examples] == [4] * 500 + [2] * 500
    assert {world.find_question(e.id).person for e in shipped.examples} <= set(world.remembered_people("test"))
    assert shipped.data_hash == "ae2707ddcc97b3f61c71a6d01430c7984174791328f245a5bb53af391afd5a6f"
