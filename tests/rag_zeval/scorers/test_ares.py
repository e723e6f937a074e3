"""ARES' few-shot judge in this process: the document first, and a label or no score."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_by_prompt import JudgeByPrompt

from rag_zeval.judge.example import Example
from rag_zeval.replies.loose_json import Unreadable
from rag_zeval.scorers.ares import MEASURES, read_label

EXAMPLE = Example("x", "Who?", "The reference.", ("Ada.",), truth="The truth.", chunks=("A chunk.",))


@pytest.mark.parametrize("measure", [measure.name for measure in MEASURES])
def test_an_irrelevant_document_makes_all_three_zero_in_one_call(measure: str) -> None:
    judge = JudgeByPrompt({"ares_context_relevance": "[[No]]"})
    assert judge.score(measure, EXAMPLE).values == (0,)
    assert judge.rounds == [[("ares_context_relevance", {"question": "Who?", "document": "The reference."})]]
    assert judge.temperatures == {1}


@given(
    st.sampled_from(["Yes", "No", "yes", "NO"]),
    st.sampled_from([("[[", "]]"), ("[", "]"), ("[ [ ", " ] ]"), ("**[[", "]]**")]),
    st.text("yesno []\n", max_size=20).filter(lambda text: "[" not in text and "]" not in text),
)
def test_a_label_is_found_whatever_is_around_it(word: str, brackets: tuple[str, str], around: str) -> None:
    opening, closing = brackets
    label = f"{opening}{word}{closing}"
    for reply in (f"{around}\n{label}\n{around}", f"It is so: {around}. {label}", f"Output: {label}\n{around}"):
        assert read_label(reply) is (word.lower() == "yes")
    with pytest.raises(Unreadable, match="a label within a sentence"):
        read_label(f"The document says {label} there.")
    with pytest.raises(Unreadable, match="a label within a sentence"):
        read_label(f"It is not {label}.")
    with pytest.raises(Unreadable):
        read_label(f"{around}{word}{around}")
