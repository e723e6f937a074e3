"""Support by citations: the parts of an answer, and what is made of the support of each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.evaluator import Example
from rag_zeval.scorers import citations
from rag_zeval.scorers.asking import Failed
from rag_zeval.scorers.citations import Part, parts_of

LEVELS = {"all": "full_support", "some": "partial_support", "none": "no_support"}
ANSWER = "One [1][2]. Two [2], [4]. Three."
CHUNKS = ("One all", "One some, Two none", "One all, Two all, Three all")
EXAMPLE = Example("1", "Which?", "r", (ANSWER,), chunks=CHUNKS)
NAMES = ["citation_precision", "citation_recall", "citation_f1"]


def reply(prompt: str, given: dict[str, Any]) -> Any:
    """Chunks say what they support: `One all` all of a statement with "One" in it."""
    assert prompt == "citation_support" and set(given) == {"statement", "passage"}
    said = dict(pair.split() for pair in given["passage"].split(", "))
    (level,) = (said[word] for word in said if word in given["statement"])
    return {"support": LEVELS[level]}


# One: [1] 1, [2] .5; Two: [2] 0, [4], which there is none of, 0; Three: nothing cited
PRECISION = (1 + (0.5 + 0) / 2 + 0) / 3
RECALL = (0.75 + 0 + 0) / 3
BY_HAND = dict(zip(NAMES, (PRECISION, RECALL, 2 * PRECISION * RECALL / (PRECISION + RECALL)), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_values_and_calls_are_those_worked_out_by_hand(name: str, plain_judge: Any, score_one: Any) -> None:
    judge = plain_judge(reply)
    one = score_one(name, judge, EXAMPLE)
    assert one.values == (pytest.approx(BY_HAND[name]),) and one.calls == 3
    assert [(given["statement"], given["passage"]) for _, given in judge.asked] == [
        ("One", CHUNKS[0]),
        ("One", CHUNKS[1]),
        (". Two", CHUNKS[1]),
    ]
    assert one.parts["answers"][0]["parts"][1] == {"text": ". Two", "support": [(2, 0.0), (4, 0.0)]}


def test_the_scores_share_the_calls(plain_judge: Any, score_one: Any) -> None:
    judge = plain_judge(reply)
    assert set(NAMES) == {measure.name for measure in citations.MEASURES}
    for name in NAMES:
        score_one(name, judge, EXAMPLE)
    assert len(judge.asked) == 3


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        ("One two.", [("One two.", ())]),
        ("One [1].", [("One", (1,))]),
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
    assert parts_of(answer) == [Part(*part) for part in parts]


@pytest.mark.parametrize("answer", ["One is so.", "[1] One"])
def test_an_answer_without_citations_has_recall_0_and_no_precision(
    answer: str, plain_judge: Any, score_one: Any
) -> None:
    judge = plain_judge(reply)
    example = Example("1", "Which?", "r", (answer,), chunks=CHUNKS)
    for name in ("citation_precision", "citation_f1"):
        assert score_one(name, judge, example).scores[0].status == "failed: no citations in the answer"
    assert score_one("citation_recall", judge, example).values == (0.0,) and not judge.asked


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_answer_has_no_score(name: str, plain_judge: Any, score_one: Any) -> None:
    one = score_one(name, plain_judge(reply), Example("1", "Which?", "r", ("",), chunks=CHUNKS))
    assert one.values == (None,) and one.scores[0].status == "failed: no text in the answer"


def test_invented_sources_support_nothing_and_are_not_asked_about(plain_judge: Any, score_one: Any) -> None:
    judge = plain_judge(reply)
    example = Example("1", "Which?", "r", ("One [1]. Two [9]. Three [0].",), chunks=CHUNKS)
    assert score_one("citation_precision", judge, example).values == (pytest.approx(1 / 3),)
    assert score_one("citation_recall", judge, example).values == (pytest.approx(1 / 3),)
    assert len(judge.asked) == 1


@pytest.mark.parametrize("said", ["support", 1, None, "fully"])
def test_a_label_of_another_kind_is_no_score(said: Any, plain_judge: Any, score_one: Any) -> None:
    one = score_one("citation_recall", plain_judge(lambda *_: {"support": said}), EXAMPLE)
    assert one.values == (None,) and "is none of full_support, partial_support, no_support" in one.scores[0].status


@pytest.mark.parametrize("name", NAMES)
def test_spoiled_replies_make_no_wrong_score(name: str, check_faults: Any) -> None:
    check_faults(name, reply, EXAMPLE)


WORDS = st.text("abc .,", min_size=1).filter(lambda text: any(map(str.isalpha, text)))
CITED = st.lists(st.integers(0, 99), max_size=4, unique=True).map(tuple)


@given(st.lists(st.tuples(WORDS, CITED.filter(bool)), max_size=5), WORDS, st.booleans())
def test_what_was_cited_is_found_again(parts: list[tuple[str, tuple[int, ...]]], rest: str, listed: bool) -> None:
    def block(numbers: tuple[int, ...]) -> str:
        return str([*numbers]) if listed else "".join(f"[{n}]" for n in numbers)

    answer = "".join(f"{text}{block(numbers)}" for text, numbers in parts) + rest
    assert parts_of(answer) == [Part(text.strip(), numbers) for text, numbers in [*parts, (rest, ())]]


@given(st.text())
def test_any_text_has_parts(answer: str) -> None:
    assert all(part.text for part in parts_of(answer))


PARTS = st.lists(st.dictionaries(st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=5)


@given(PARTS.map(lambda parts: [list(part.items()) for part in parts]))
def test_precision_recall_and_f1_agree(parts: list[list[tuple[int, float]]]) -> None:
    recall = citations.recall(parts)
    assert citations.recall([*parts, []]) == pytest.approx(recall * len(parts) / (len(parts) + 1))
    if not any(parts):
        assert recall == 0
        with pytest.raises(Failed, match="no citations"):
            citations.precision(parts)
        return
    precision = citations.precision(parts)
    assert citations.precision([*parts, []]) == precision == pytest.approx(citations.precision([*reversed(parts)]))
    found = [support for part in parts for _, support in part]
    assert min(found) - 1e-9 <= precision <= max(found) + 1e-9
    low, high = sorted([precision, recall])
    assert citations.f1(parts) * (low + high) == pytest.approx(2 * low * high)
    one_each = [[(at, support)] for at, support in enumerate(found)]
    assert (
        citations.precision(one_each)
        == pytest.approx(citations.recall(one_each))
        == pytest.approx(sum(found) / len(found))
    )
