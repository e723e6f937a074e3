"""Support by citations: the parts of an answer, and what is made of the support of each."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_by_prompt import JudgeByPrompt

from rag_zeval.judge.example import Example
from rag_zeval.scorers.citations import CitingText, parts_of

LEVELS = {"all": "full_support", "some": "partial_support", "none": "no_support"}
ANSWER = "One [1][2]. Two [2], [0, 4]. Three."
CHUNKS = ("One all", "One some, Two none", "One all, Two all, Three all")
EXAMPLE = Example("1", "Which?", "r", (ANSWER,), chunks=CHUNKS)


def support(inputs: dict[str, Any]) -> Any:
    """Chunks say what they support: `One all` all of a statement with "One" in it."""
    levels = dict(pair.split() for pair in inputs["passage"].split(", "))
    (level,) = (levels[word] for word in levels if word in inputs["statement"])
    return {"support": LEVELS[level]}


# One: [1] 1, [2] .5; Two: [2] 0, and 0 by [0] and [4], which there are none of; Three: nothing cited
PRECISION = (1 + (0.5 + 0) / 2 + 0 + 0) / 4
RECALL = (0.75 + 0 + 0) / 3
F1 = 2 * PRECISION * RECALL / (PRECISION + RECALL)


@pytest.mark.parametrize(
    ("name", "value"), [("citation_precision", PRECISION), ("citation_recall", RECALL), ("citation_f1", F1)]
)
def test_values_and_calls_are_those_worked_out_by_hand(name: str, value: float) -> None:
    judge = JudgeByPrompt({"citation_support": support})
    scored = judge.score(name, EXAMPLE)
    assert scored.values == (pytest.approx(value),) and scored.calls == 3 and judge.temperatures == {0}
    asked = [("One", CHUNKS[0]), ("One", CHUNKS[1]), (". Two", CHUNKS[1])]
    assert [inputs for _, inputs in judge.asked] == [{"statement": one, "passage": chunk} for one, chunk in asked]
    assert scored.parts["answers"][0]["parts"][1] == {"text": ". Two", "support": [(2, 0.0), (0, 0.0), (4, 0.0)]}


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        ("One two.", [("One two.", ())]),
        ("One [1][2] two [3] three", [("One", (1, 2)), ("two", (3,)), ("three", ())]),
        ("One [1, 2,3].", [("One", (1, 2, 3))]),
        ("One [1], [2] and two [2] [1].", [("One", (1, 2)), ("and two", (2, 1))]),
        ("One [2][2, 2].", [("One", (2,))]),
        ("[1] One", [("One", ())]),  # a citation stands after its text
        ("In [2024] one [sic] [a] [] [1-2]", [("In [2024] one [sic] [a] [] [1-2]", ())]),
        ("One [0] two [12].", [("One", (0,)), ("two", (12,))]),
        (" . ", []),
        ("", []),
    ],
)
def test_parts_are_the_texts_up_to_their_citations(answer: str, parts: list[tuple[str, tuple[int, ...]]]) -> None:
    assert parts_of(answer) == [CitingText(*part) for part in parts]


WORDS = st.text("abc .,", min_size=1).filter(lambda text: any(map(str.isalpha, text)))
CITED = st.lists(st.integers(0, 99), max_size=4, unique=True).map(tuple)


@given(st.lists(st.tuples(WORDS, CITED.filter(bool)), max_size=5), WORDS, st.booleans())
def test_what_was_cited_is_found_again(parts: list[tuple[str, tuple[int, ...]]], rest: str, listed: bool) -> None:
    def block(numbers: tuple[int, ...]) -> str:
        return str([*numbers]) if listed else "".join(f"[{n}]" for n in numbers)

    answer = "".join(f"{text}{block(numbers)}" for text, numbers in parts) + rest
    assert parts_of(answer) == [CitingText(text.strip(), numbers) for text, numbers in [*parts, (rest, ())]]
