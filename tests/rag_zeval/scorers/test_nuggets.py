"""The AutoNuggetizer: how nuggets come about, and the six scores."""

from collections import Counter
from typing import Any

import pytest
from judge_by_prompt import JudgeByPrompt

from rag_zeval.judge.example import Example

EXAMPLE = Example("1", "Which?", "all of it", ("a0 a1 part2 a4",), chunks=("grade 0", "grade 1", "grade 3"))
ROUNDS = [["n0", "n1"], ["n0", "n1", "n2", "n3", "n4"]]  # what creation gives, the last one again and again
IMPORTANCE = {"n0": "vital", "n1": "okay", "n2": "vital", "n3": "vital", "n4": "okay"}


def judge_of(rounds: list[list[str]] = ROUNDS, importance: dict[str, str] = IMPORTANCE) -> JudgeByPrompt:
    """A judge to whom nugget "n2" is held by an answer with "a2" in it, and a part of it by one with "part2"."""

    def created(inputs: dict[str, Any]) -> Any:
        done = next((at + 1 for at, made in enumerate(rounds) if made == inputs["nuggets"]), 0)
        return {"nuggets": rounds[min(done, len(rounds) - 1)]}

    def assigned(inputs: dict[str, Any]) -> Any:
        words = inputs["answer"].split()
        held = {f"n{word[-1]}": "support" if word[0] == "a" else "partial_support" for word in words}
        return {"labels": [held.get(nugget, "not_support") for nugget in inputs["nuggets"]]}

    return JudgeByPrompt(
        {
            "umbrela": lambda inputs: {"M": 0, "T": 0, "O": int(inputs["passage"][-1])},
            "nuggets_create": created,
            "nuggets_importance": lambda inputs: {"labels": [importance[nugget] for nugget in inputs["nuggets"]]},
            "nuggets_assignment": assigned,
        }
    )


def test_without_chunks_the_reference_is_the_context_and_is_not_graded() -> None:
    judge = judge_of()
    assert judge.score("nuggets_vital", Example("1", "Which?", "all of it", EXAMPLE.answers)).values == (0.5,)
    assert judge.rounds[0][0][0] == "nuggets_create" and judge.rounds[0][0][1]["context"] == ["all of it"]


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
    sizes: tuple[int, ...], creations: int, kept: int, batches: tuple[int, int]
) -> None:
    importance = {f"n{n}": "vital" if n % 3 == 0 else "okay" for n in range(30)}
    judge = judge_of([[f"n{n}" for n in range(size)] for size in sizes], importance)
    parts = judge.score("nuggets_all", EXAMPLE).parts["answers"][0]
    asked = [inputs for prompt, inputs in judge.asked if prompt == "nuggets_create"]
    assert [len(inputs["nuggets"]) for inputs in asked] == [0, *sizes, *sizes][:creations]
    assert all(inputs["context"] == ["grade 1", "grade 3"] and inputs["at_most"] == 30 for inputs in asked)
    counted = Counter(prompt for prompt, _ in judge.asked)
    assert counted["nuggets_create"] == creations
    assert (counted["nuggets_importance"], counted["nuggets_assignment"]) == batches
    last = sizes[creations - 1] if creations <= len(sizes) else sizes[-1]
    vital, okay = ([n for n in range(last) if (n % 3 == 0) is wanted] for wanted in (True, False))
    assert parts["nuggets"] == [f"n{n}" for n in [*vital, *okay][:kept]]
