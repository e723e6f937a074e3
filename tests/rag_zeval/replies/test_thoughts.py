"""A draft is never an answer, whatever tags a model thinks in."""

import json
from typing import Any

import pytest

from rag_zeval.replies.loose_json import Unreadable
from rag_zeval.replies.reading import read_json, read_text
from rag_zeval.replies.thoughts import THOUGHT_TAGS

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
