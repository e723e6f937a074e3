"""Sentences of texts in several languages."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_zeval.scorers.sentences import pieces, sentences_of


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Berg lebt z. B. in Ulm.", "Sie kam am 3. Mai 1950 d. h. im 20. Jahrhundert.", "Sie hat ca. 20 Hefte."],
        ["1. Mai ist ein Feiertag.", "Es war 1976.", "Er wohnt in der Nr. 5 bzw. Nr. 7."],
        ["Er sagte: „Ich bleibe.“", "Sie rief: »Halt!«", "Dann ging er."],
        ["وُلد د. سالم عام 1950.", "هل هو معلم؟", "قال: «حقا؟»", 'قالت: "نعم؟!"', "ثم خرج."],
        ["وہ استاد ہے۔", "وہ لاہور میں رہتا ہے۔"],
        ["वह शिक्षक है।", "वह दिल्ली में रहता है।"],
        ["He lives in Fresno, CA.", "She is 5.", "In July it was hot.", "He left."],
    ],
)
def test_sentences(sentences: list[str]) -> None:
    assert sentences_of(" ".join(sentences)) == sentences


@pytest.mark.parametrize(
    "sentences",
    [["林安生于1950年。", "他是老师吗？", "是的！？", "她说：“我住这里。”", "“好。”", "（完。）", "再见"]],
)
def test_sentences_without_spaces_between_them(sentences: list[str]) -> None:
    assert sentences_of("".join(sentences)) == sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Steps: 1. Go in. 2. Sit down.", ["Steps: 1.", "Go in.", "Sit down."]),
        ("It was then. 1879.", ["It was then.", "1879."]),  # an answer, not a mark
        ("42", ["42"]),
        ("Mr. Fox paid $3.50. He left! Why?", ["Mr. Fox paid $3.50.", "He left!", "Why?"]),
        ("", []),
    ],
)
def test_marks_of_a_list_are_no_sentences(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences


@given(st.text("ab1字م؟。！”» .\n!?", max_size=40))
def test_no_letter_is_lost_and_sentences_stand_in_the_text(text: str) -> None:
    found = sentences_of(text)
    assert [letter for letter in "".join(found) if letter.isalpha()] == [letter for letter in text if letter.isalpha()]
    assert bool(found) == bool(text.strip()) and all(sentence in text for sentence in found)


@given(st.text("ab1字م؟。！”» .\n!?", max_size=40), st.integers(0, 9))
@example("How many? 42. It is small.", 9)  # the number is no mark of a list
def test_pieces_keep_all_letters_and_digits(text: str, most: int) -> None:
    found = pieces(text, lambda piece: len(piece) <= most)
    assert "".join("".join(found).split()) == "".join(text.split())
