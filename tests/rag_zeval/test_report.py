from __future__ import annotations

import json
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.backends.scripted import ScriptedBackend
from rag_zeval.evaluator import Evaluator, Example
from rag_zeval.evidence import ReferenceIndex
from rag_zeval.report import TEMPLATES, marked_reference, verbatim_share, words, write_report
from rag_zeval.results import result_row, summarize
from rag_zeval.schema import LETTERS

HOSTILE = "<script>alert('x')</script> \"'> <img src=x onerror=alert(1)> {{ 7 * 191 }} </details></html>"


class Page(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.marked = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.tags[-1:] == ["mark"]:
            self.marked += data


def page(tmp_path: Path, example: Example, reply: str) -> Page:
    evaluator = Evaluator(ScriptedBackend([reply], name=HOSTILE))
    rows = [result_row(evaluator, example, evaluator.evaluate_many([example]).__next__(), 0)]
    path = tmp_path / "report.html"
    write_report(path, [example], rows, summarize(rows))
    return Page(path.read_text(encoding="utf-8"))


def trajectory(claim: str, evidence: list[str], analysis: str = "", supported: bool = True) -> str:
    item = {"claim": claim, "is_supported": supported, "grounding_evidence": evidence, "analysis": analysis}
    return json.dumps([{"id": "A", "answer": "", "atomic_claims": [item]}])


def test_hostile_text_is_shown_and_stays_text(tmp_path: Path) -> None:
    shown = page(tmp_path, Example(HOSTILE, HOSTILE, HOSTILE, (HOSTILE,)), trajectory(HOSTILE, [HOSTILE], HOSTILE))
    harmless = page(tmp_path, Example("i", "q", "r", ("a",)), trajectory("c", ["r"], "n"))
    assert shown.tags.count("script") == shown.tags.count("img") == 0
    assert sorted(set(shown.tags)) == sorted(set(harmless.tags)) and set(shown.attributes) == set(harmless.attributes)
    assert shown.text.count("<script>alert('x')</script>") >= 8  # model, question twice, reference, answer, claim, …
    assert "{{ 7 * 191 }}" in shown.text and "1337" not in shown.text


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    shown = page(tmp_path, Example("i", "q", "r", ("a",)), trajectory("c", ["r"]))
    assert not {"src", "href"} & set(shown.attributes) and not {"link", "script", "img"} & set(shown.tags)


def test_it_shows_what_the_judge_found_and_which_quotes_are_real(tmp_path: Path) -> None:
    example = Example("r1", "Who?", "Ann was born in 1950. She paints.", ("Ann paints.",))
    real = page(tmp_path, example, trajectory("Ann paints.", ["She paints."], "Plainly said."))
    for text in ("r1", "Who?", "Ann paints.", "She paints.", "Plainly said.", "1.00", "supported", "verbatim"):
        assert text in real.text
    assert "She paints." in real.marked and "Ann" not in real.marked
    invented = page(tmp_path, example, trajectory("Ann paints.", ["She paints houses today now."], supported=False))
    assert "not verbatim: longest run found is 33% of its words" in invented.text
    assert "✗ not supported" in invented.text


def test_a_failed_row_shows_its_reason_and_the_raw_reply(tmp_path: Path) -> None:
    shown = page(tmp_path, Example("r1", "Who?", "r", ("a", "b")), "I <b>refuse</b>.")
    assert "failed: format:" in shown.text and "I <b>refuse</b>." in shown.text and shown.text.count("–") >= 4


def test_answers_have_the_letters_of_the_trajectory(tmp_path: Path) -> None:
    shown = page(tmp_path, Example("r1", "Who?", "r", tuple("a" * len(LETTERS))), "no")
    assert all(f"Answer {letter} " in shown.text for letter in LETTERS)
    assert LETTERS not in (TEMPLATES / "report.html").read_text()


@given(st.text(max_size=60), st.lists(st.text(max_size=10), max_size=3))
def test_marking_keeps_every_character(reference: str, quotes: list[str]) -> None:
    pieces = marked_reference(reference, quotes)
    assert "".join(text for text, _ in pieces) == reference
    assert all(one[1] != other[1] for one, other in pairwise(pieces))


@given(st.lists(st.sampled_from("abc"), max_size=12), st.data())
def test_a_cut_of_the_reference_is_verbatim_and_marked(tokens: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(tokens)))
    end = data.draw(st.integers(start, len(tokens)))
    quote = "  ".join(tokens[start:end])  # spacing does not matter
    assert verbatim_share(quote, ReferenceIndex(tokens)) == (1.0 if end > start else 0.0)
    marked = "".join(text for text, quoted in marked_reference(" ".join(tokens), [quote]) if quoted)
    assert words(quote) == [] or "".join(words(quote)) in "".join(words(marked))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("It's 3.5 km", ["It", "'", "s", "3", ".", "5", "km"]), ("東京は首都", list("東京は首都")), ("größe", ["größe"])],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected
