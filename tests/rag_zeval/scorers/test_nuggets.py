"""The AutoNuggetizer: how nuggets come about, and the six scores."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.evaluator import Example
from rag_zeval.scorers import nuggets
from rag_zeval.scorers.asking import Failed

NAMES = [f"nuggets_{score}{strict}" for score in ("all", "vital", "weighted") for strict in ("", "_strict")]
EXAMPLE = Example("1", "Which?", "all of it", ("a0 a1 part2 a4",), chunks=("grade 0", "grade 1", "grade 3"))
ROUNDS = [["n0", "n1"], ["n0", "n1", "n2", "n3", "n4"]]  # what creation gives, the last one again and again
IMPORTANCE = {"n0": "vital", "n1": "okay", "n2": "vital", "n3": "vital", "n4": "okay"}


def world(rounds: list[list[str]] = ROUNDS, importance: dict[str, str] = IMPORTANCE) -> Any:
    """A judge's replies: nugget "n2" is held by an answer with "a2" in it, and a part of it by one with "part2"."""

    def reply(prompt: str, given: dict[str, Any]) -> Any:
        if prompt == "umbrela":
            return {"M": 0, "T": 0, "O": int(given["passage"][-1])}
        assert given["question"] == "Which?"
        if prompt == "nuggets_create":
            done = next((at + 1 for at, made in enumerate(rounds) if made == given["nuggets"]), 0)
            return {"nuggets": rounds[min(done, len(rounds) - 1)]}
        if prompt == "nuggets_importance":
            return {"labels": [importance[one] for one in given["nuggets"]]}
        words = given["answer"].split()
        found = {f"n{word[-1]}": "support" if word[0] == "a" else "partial_support" for word in words}
        return {"labels": [found.get(one, "not_support") for one in given["nuggets"]]}

    return reply


# vital: n0 held, n2 in part, n3 not; okay: n1 and n4 held
BY_HAND = {
    "nuggets_all": 3.5 / 5,
    "nuggets_vital": 1.5 / 3,
    "nuggets_weighted": (1.5 + 0.5 * 2) / (3 + 0.5 * 2),
    "nuggets_all_strict": 3 / 5,
    "nuggets_vital_strict": 1 / 3,
    "nuggets_weighted_strict": (1 + 0.5 * 2) / (3 + 0.5 * 2),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_values_and_calls_are_those_worked_out_by_hand(name: str, plain_judge: Any, score_one: Any) -> None:
    judge = plain_judge(world())
    one = score_one(name, judge, EXAMPLE)
    assert one.values == (pytest.approx(BY_HAND[name]),)
    calls = {"umbrela": 3, "nuggets_create": 3, "nuggets_importance": 1, "nuggets_assignment": 1}
    assert Counter(judge.prompts) == calls and one.calls == 8  # the third creation changed nothing
    assert one.parts["answers"][0]["nuggets"] == ["n0", "n2", "n3", "n1", "n4"]
    assert one.parts["answers"][0]["vital"] == [True] * 3 + [False] * 2


def test_scores_share_all_calls_and_answers_all_but_the_assignment(plain_judge: Any, score_one: Any) -> None:
    judge = plain_judge(world())
    assert set(BY_HAND) == set(NAMES) == {measure.name for measure in nuggets.MEASURES}
    two = Example("1", "Which?", "all of it", (*EXAMPLE.answers, "a3"), chunks=EXAMPLE.chunks)
    for name in NAMES:
        score_one(name, judge, two)
    assert len(judge.asked) == 8 + 1


def test_creation_sees_the_related_chunks_and_what_came_before(plain_judge: Any, score_one: Any) -> None:
    judge = plain_judge(world())
    score_one("nuggets_all", judge, EXAMPLE)
    created = [given for prompt, given in judge.asked if prompt == "nuggets_create"]
    assert [given["nuggets"] for given in created] == [[], *ROUNDS]
    assert all(given["context"] == ["grade 1", "grade 3"] and given["at_most"] == 30 for given in created)


def test_without_chunks_the_reference_is_the_context_and_is_not_graded(plain_judge: Any, score_one: Any) -> None:
    judge = plain_judge(world())
    one = score_one("nuggets_vital", judge, Example("1", "Which?", "all of it", EXAMPLE.answers))
    assert one.values == (0.5,) and "umbrela" not in judge.prompts
    assert judge.asked[0][1]["context"] == ["all of it"]


@pytest.mark.parametrize(
    ("sizes", "creations", "kept", "batches"),
    [
        ((1, 2, 3, 4, 5, 6), 5, 5, (1, 1)),  # five calls at most
        ((12, 30, 7), 2, 20, (3, 2)),  # thirty nuggets are enough: twenty of them are looked for
        ((30,), 1, 20, (3, 2)),
        ((10,), 2, 10, (1, 1)),
        ((11,), 2, 11, (2, 2)),
    ],
)
def test_creation_ends_and_labels_come_in_tens(
    sizes: tuple[int, ...], creations: int, kept: int, batches: tuple[int, int], plain_judge: Any, score_one: Any
) -> None:
    importance = {f"n{n}": "vital" if n % 3 == 0 else "okay" for n in range(30)}
    judge = plain_judge(world([[f"n{n}" for n in range(size)] for size in sizes], importance))
    found = score_one("nuggets_all", judge, EXAMPLE).parts["answers"][0]
    counted = Counter(judge.prompts)
    assert counted["nuggets_create"] == creations
    assert (counted["nuggets_importance"], counted["nuggets_assignment"]) == batches
    last = sizes[creations - 1] if creations <= len(sizes) else sizes[-1]
    vital, okay = ([n for n in range(last) if (n % 3 == 0) is wanted] for wanted in (True, False))
    assert found["nuggets"] == [f"n{n}" for n in [*vital, *okay][:kept]]


def test_an_answer_with_everything_scores_1_also_when_every_nugget_is_vital(plain_judge: Any, score_one: Any) -> None:
    judge = plain_judge(world(importance=dict.fromkeys(IMPORTANCE, "vital")))
    example = Example("1", "Which?", "r", ("a0 a1 a2 a3 a4",))
    assert {score_one(name, judge, example).values for name in NAMES} == {(1.0,)}  # the original's weighted: 5 / 5.5


def test_without_a_vital_nugget_there_is_no_vital_score(plain_judge: Any, score_one: Any) -> None:
    judge = plain_judge(world(importance=dict.fromkeys(IMPORTANCE, "okay")))
    found = {name: score_one(name, judge, EXAMPLE) for name in NAMES}
    for name in ("nuggets_vital", "nuggets_vital_strict"):
        assert found[name].values == (None,) and found[name].scores[0].status == "failed: no vital nuggets"
    assert found["nuggets_weighted"].values == found["nuggets_all"].values == (pytest.approx(3.5 / 5),)


def test_without_a_related_chunk_or_a_nugget_there_is_no_score(plain_judge: Any, score_one: Any) -> None:
    none = Example("1", "Which?", "all of it", ("a0",), chunks=("grade 0",))
    assert score_one("nuggets_all", plain_judge(world()), none).scores[0].status == (
        "failed: no chunk is related to the question"
    )
    assert score_one("nuggets_all", plain_judge(world([[]])), EXAMPLE).scores[0].status == (
        "failed: no nuggets in the context"
    )


@pytest.mark.parametrize(
    ("prompt", "said", "reason"),
    [
        ("nuggets_create", {"nuggets": [f"n{n}" for n in range(31)]}, "31 nuggets, more than 30"),
        ("nuggets_create", {"nuggets": ["n0", 3]}, "'3' is no text"),
        ("nuggets_create", {"nuggets": "n0"}, "'n0' is no list"),
        ("nuggets_importance", {"labels": ["vital"] * 4}, "4 judgements of 5"),
        ("nuggets_importance", {"labels": ["vital"] * 4 + ["good"]}, "'good' is none of vital, okay"),
        ("nuggets_assignment", {"labels": ["support"] * 6}, "6 judgements of 5"),
        ("nuggets_assignment", {"labels": ["support"] * 4 + [1]}, "'1' is no"),
        ("umbrela", {"O": 7}, "'7' is none of 0, 1, 2, 3"),
    ],
)
def test_judgements_that_do_not_fit_the_question_are_not_made_to(
    prompt: str, said: Any, reason: str, plain_judge: Any, score_one: Any
) -> None:
    right = world()
    one = score_one(
        "nuggets_all", plain_judge(lambda asked, given: said if asked == prompt else right(asked, given)), EXAMPLE
    )
    assert one.values == (None,) and one.scores[0].status.startswith(f"failed: {prompt}: ")
    assert reason in one.scores[0].status


def test_a_nugget_that_stands_twice_counts_once(plain_judge: Any, score_one: Any) -> None:
    twice = plain_judge(world([["n0", "n1", "n0 "]]))
    assert score_one("nuggets_all", twice, EXAMPLE).parts["answers"][0]["nuggets"] == ["n0", "n1"]


def test_spoiled_replies_make_no_wrong_score(check_faults: Any) -> None:
    check_faults("nuggets_weighted", world(), EXAMPLE)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=20))
def test_scores_are_means_and_weighted_lies_between_all_and_vital(judged: list[tuple[bool, float]]) -> None:
    vital, support = [v for v, _ in judged], [s for _, s in judged]
    found = {weight: nuggets.mean_support(vital, support, weight) for weight in (1.0, 0.5)}
    assert found[1.0] == pytest.approx(sum(support) / len(support))
    held = [s for v, s in judged if v]
    if not held:
        with pytest.raises(Failed, match="no vital nuggets"):
            nuggets.mean_support(vital, support, 0.0)
        assert found[0.5] == pytest.approx(found[1.0])
        return
    only = nuggets.mean_support(vital, support, 0.0)
    assert only == pytest.approx(sum(held) / len(held))
    low, high = sorted([only, found[1.0]])
    assert low - 1e-9 <= found[0.5] <= high + 1e-9
    n_okay = len(judged) - len(held)
    assert found[0.5] == pytest.approx((sum(held) + 0.5 * (sum(support) - sum(held))) / (len(held) + 0.5 * n_okay))
