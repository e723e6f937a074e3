import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.replies.loose_json import Unreadable
from rag_zeval.replies.reading import read_json, read_text
from rag_zeval.replies.thoughts import THOUGHT_TAGS
from rag_zeval.replies.values import a_list, a_number, a_text, one_of, yes_or_no
from rag_zeval.scripted_judge import SPOILED

plain = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=20)
objects = st.fixed_dictionaries(
    {"verdicts": st.lists(st.integers(0, 1), min_size=1, max_size=4), "reason": plain, "sure": st.booleans()}
)


def verdicts(value: Any) -> list[bool]:
    return [yes_or_no(one) for one in a_list(value["verdicts"])]


@given(objects, st.sampled_from(["fenced", "prose", "single quotes"]))
def test_what_surrounds_a_reply_changes_nothing(reply: dict[str, Any], fault: str) -> None:
    text = json.dumps(reply, ensure_ascii=False)
    expected = read_json(text, verdicts)
    assert expected == [bool(one) for one in reply["verdicts"]]
    assert read_json(SPOILED[fault](text), verdicts) == expected
    assert read_json(f'<think>Perhaps {{"verdicts": [0]}} or not</think>\n{text}', verdicts) == expected


@given(objects, st.data())
def test_a_reply_that_breaks_off_anywhere_has_no_value(reply: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(reply)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(Unreadable):
        read_json(cut, verdicts)
    with pytest.raises(Unreadable):  # nor does the list inside, whatever has its shape
        read_json(cut, lambda value: [yes_or_no(one) for one in a_list(value)])


@given(st.text(max_size=60) | st.text(alphabet="[]{}\"',:0 ", max_size=30))
def test_any_text_is_read_or_refused_with_one_line(text: str) -> None:
    try:
        read_json(text, verdicts)
    except Unreadable as error:
        assert str(error) and "\n" not in str(error) and len(str(error)) < 200


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" + "9" * 10_000 + ",'"])
def test_a_text_made_to_hurt_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        read_json(text, verdicts)


MANY = {
    "that differ": (lambda at: f'{{"verdicts": [{at % 2}], "n": {at}}}', lambda value: value["n"]),
    "of another shape": (lambda at: f"[{at}]", verdicts),
    "that are equal": (lambda at: '{"verdicts": [1]}', verdicts),
    "that need a repair": (lambda at: "[1,]", lambda value: value),
}


@pytest.mark.parametrize("kind", MANY)
def test_many_values_take_linear_time(kind: str, growth: Callable[[Callable[[int], Any], int], float]) -> None:
    value, read = MANY[kind]

    def attempt(count: int) -> None:
        with suppress(Unreadable):
            read_json("\n".join(map(value, range(count))), read)

    assert growth(attempt, 2_000) < 8


@given(st.lists(st.integers(0, 2), max_size=6), st.randoms(use_true_random=False))
def test_one_answer_however_often_is_read_and_two_are_not(values: list[int], rng: Any) -> None:
    said = [rng.choice(("{}", "[1]", '{"verdicts": 1}', f'{{"value": {value}}}', "[sic]")) for value in values]
    meant = {value for value, text in zip(values, said, strict=True) if "value" in text}
    if len(meant) == 1:
        assert read_json("\nand\n".join(said), lambda found: found["value"]) == meant.pop()
    else:
        with pytest.raises(Unreadable, match="2 different answers in one reply" if meant else None):
            read_json("\nand\n".join(said), lambda found: found["value"])


def test_a_value_too_deep_to_be_looked_at_is_refused() -> None:
    def depth(value: Any) -> int:
        return 1 + max(map(depth, value), default=0)

    assert read_json("[[[]]]", depth) == 3
    deep = 600 if sys.version_info < (3, 13) else 2_000  # is read, but too deep for a function of Python
    with pytest.raises(Unreadable, match="JSON of another shape"):
        read_json("[" * deep + "]" * deep, depth)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<think>hm</think> ", "the reply is empty"),
        ("I cannot [sic] judge {this}.", "no JSON in the reply"),
        ('{"verdicts": [NaN]}', "'None' is neither yes (true, 1) nor no"),
        ('{"verdict": 1}', "JSON of another shape"),
        ('{"verdicts": 1}', "'1' is not a list"),
        ('{"verdicts": [1]} No, wait: {"verdicts": [0]}', "2 different answers in one reply"),
        ("{'verdicts': [__import__('os').getpid()]}", "JSON that cannot be read"),
        ('{"verdicts": [1, 0]', "JSON that cannot be read (it ends within a value): '{\"verdicts\": [1, 0]'"),
        ('The answer says {"verdicts": [1]}. I cannot judge.', "JSON within a sentence"),
        ('<think>{"verdicts": [1]}', "the reply does not end its thoughts"),
        ('<plan>{"verdicts": [1]}</plan> No.', "inside an unknown tag: 'plan'"),
        ('{"verdicts": [1], "verdicts": [0]}', "JSON that cannot be read"),
    ],
)
def test_the_reason_is_said(text: str, reason: str) -> None:
    with pytest.raises(Unreadable) as error:
        read_json(text, verdicts)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        '{"verdicts": [1, 0,], }',
        "{'verdicts': [True, 0]}",
        '{"verdicts": [1, 0], "reason": "he said "yes" to it"}',
        '{"verdicts": ["1", "No"]}',
        '{"verdicts": [1, 0]} So again: {"verdicts": [1, 0]}',
        'As [1] says: ```\n{"verdicts": [1.0, false]}\n```',
    ],
)
def test_what_is_meant_is_understood(text: str) -> None:
    assert read_json(text, verdicts) == [True, False]


def test_single_values_are_of_their_kind_or_refused() -> None:
    assert (a_text(" x "), one_of("neutral ", ("Neutral",)), a_number("2.5", 0, 3)) == ("x", "Neutral", 2.5)
    for read, value in (
        (a_text, " "),
        (a_text, 3),
        (lambda value: one_of(value, ("Neutral",)), "Neutral?"),
        (yes_or_no, 0.5),
        (lambda value: a_number(value, 0, 3), 4),
        (lambda value: a_number(value, 0, 3), True),
        (lambda value: a_number(value, 0, 3), "nan"),
        (lambda value: a_list(value, 2), [1, 2, 3]),
    ):
        with pytest.raises(Unreadable):
            read(value)


NAMED = [
    pair
    for name in THOUGHT_TAGS
    for pair in ((f"<{name}>", f"</{name}>"), (f"<{name.title()} x='1'>", f"</{name.upper()}>"))
]
OTHERS = [
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>\n<|begin_of_solution|>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("analysisWe need JSON. ", "assistantfinal"),
    ("<|channel>thought\n", "<channel|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("Here is my thought process:", "Here is my response:"),
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
]
UNKNOWN = [
    ("<pondering>", "</pondering>"),
    ("<my:draft a='b'>", "</my:draft>"),
    ("[SCRATCHPAD]", "[/SCRATCHPAD]"),
    ("◁plan▷", "◁/plan▷"),
    ("<|deliberate|>", "<|/deliberate|>"),
    ("<|begin_of_plan|>", "<|end_of_plan|>"),
]
FINAL, DRAFT = json.dumps({"verdict": 1}), json.dumps({"verdict": 0})


def verdict(value: Any) -> int:
    return int(value["verdict"])


def read(text: str, cut: bool = False) -> int | str:
    """The verdict, or "none"."""
    try:
        return read_json(text, verdict, cut=cut)
    except Unreadable:
        return "none"


@pytest.mark.parametrize(("opening", "closing"), NAMED + OTHERS)
def test_what_follows_thoughts_is_the_answer_and_thoughts_never_are(opening: str, closing: str) -> None:
    for draft in (f"Perhaps\n{DRAFT}\nHmm.", f"Perhaps\n{FINAL}\n", "Perhaps { or [", '\n{"verdict": "</think>"}\n'):
        assert read(f"{opening}{draft}{closing}{FINAL}") == 1
        assert read(f"{opening}{draft}{closing}\n\n{FINAL}\nDone.", cut=True) == 1
        assert read(f"{draft}{closing}{FINAL}") == 1  # the chat template wrote the opening tag
        assert read(f"{opening}{draft}") == read(f"{opening}{draft}", cut=True) == "none"
        assert read(f"{opening}{draft}{closing}") == read(f"{draft}{closing}\nI cannot judge this.") == "none"
        assert read(f"{opening}{draft}{closing}{opening}{draft}") == "none"
    with pytest.raises(Unreadable):
        read_text(f"{opening}It is so. 7", int)
    assert read_text(f"{opening}It is 6.{closing}7", int) == 7


@pytest.mark.parametrize(("opening", "closing"), UNKNOWN)
def test_what_stands_in_a_tag_that_is_not_known_is_no_answer(opening: str, closing: str) -> None:
    for text in (
        f"{opening}{{}}",
        f"{opening}{{}}{closing}",
        f"{opening}\n{{}}\n{closing}\nI cannot judge this.",
        f"{{}}\n{closing}\n",
    ):
        assert read(text.replace("{}", DRAFT)) == "none"
    assert read(f"{opening}It is so.{closing}\n{FINAL}") == 1
    for text in (f"{opening}6", f"{opening}6{closing}7", f"6{closing}7"):
        with pytest.raises(Unreadable):
            read_text(text, lambda said: said)


@pytest.mark.parametrize(
    "text",
    [
        f"<answer>{FINAL}</answer>",
        f"<answer>\n{FINAL}\n</answer>",
        f"<pre><code>{FINAL}</code></pre>",
        f"<|begin_of_box|>{FINAL}<|end_of_box|>",
        f"{FINAL}<|im_end|>",
        f"{FINAL}</s>",
        "I looked for <br/> and a < b and c > d:\n" + FINAL,
    ],
)
def test_other_tags_change_nothing(text: str) -> None:
    assert read(text) == 1


@pytest.mark.parametrize("tag", ["</think>", "<think>", "[/THINK]", "assistantfinal", "<pondering>"])
def test_a_tag_within_a_string_is_text(tag: str) -> None:
    value = {"reason": f"It says {tag} there.", "verdict": 1}
    for text in (json.dumps(value), f"So:\n{json.dumps(value)}\n", f"<think>{DRAFT}</think>{json.dumps(value)}"):
        assert read(text) in (1, "none")
    assert read(json.dumps(value)) == 1


def test_a_reply_that_was_cut_counts_only_if_its_json_comes_first() -> None:
    assert read(f"```json\n{FINAL}\n```\nAs you", cut=True) == 1
    assert read(f"Let me see. Perhaps:\n{FINAL}\nBut", cut=True) == "none"
