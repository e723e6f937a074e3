"""JSON as models write it is read as it was meant; where it cannot be told what was meant, it is not read."""

import ast
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.replies.loose_json import OBJECTS, Unreadable, read_spans, unescaped

_words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | _words,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), _values, min_size=1, max_size=3)


def read_values(text: str, hidden: list[str] | None = None) -> tuple[list, str]:
    """The objects, and lists of objects, in a text, and the text around them."""
    spans, pieces = read_spans(text, OBJECTS, hidden or [], closed=False)
    return [value for value, _, _ in spans], "\n".join(pieces)


def spells_a_key(text: str, quote: str) -> bool:
    """Whether a string holds what may be a key: such a one is refused where quotes need not be escaped."""
    return re.search(rf"{quote}[^{quote}\\\n]*{quote}\s*:", text) is not None


@given(objects, st.sampled_from([None, 1]), st.booleans())
def test_json_is_read_as_json_reads_it(value: dict, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert read_values(f"so: {text} and [{text}] or") == ([value, [value]], "so: \n and \n or")


@given(objects, st.sampled_from([None, 1]), st.booleans())
def test_a_comma_too_many_changes_nothing(value: dict, indent: int | None, ascii_only: bool) -> None:
    """And json cannot read it then: the same value comes from the other reader."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)[:-1] + ",}"
    assert read_values(text)[0] == [value]


@given(objects)
def test_pythons_way_is_read_as_python_reads_it(value: dict) -> None:
    text = repr(value)
    assert ast.literal_eval(text) == value
    try:
        assert read_values(text)[0] == [value]
    except Unreadable as error:
        assert "holds a key" in str(error) and spells_a_key(text[1:], "['\"]")


@given(objects, st.data())
def test_what_is_cut_off_is_not_read(value: dict, data: st.DataObject) -> None:
    """Of an object alone, what ends within a value: behind its last value, only the bracket is missing."""
    text = json.dumps({**value, "last": ["x"]})
    cut = data.draw(st.integers(len('{"a":'), len(text) - 1))
    try:
        [read], _ = read_values(text[:cut])
    except (Unreadable, ValueError):
        return
    whole = {**value, "last": ["x"]}
    assert read == {key: whole[key] for key in read}  # whole values, the first ones in order
    assert list(read) == list(whole)[: len(read)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "He said "yes" to her.", "b": 1}', {"a": 'He said "yes" to her.', "b": 1}),
        ('{"a": ["the "Times" of 1999", "b"]}', {"a": ['the "Times" of 1999', "b"]}),
        ("{'a': 'it's so', 'b': \"it's\"}", {"a": "it's so", "b": "it's"}),
        ('{"a": ["x", // next\n "y"]}', {"a": ["x", "y"]}),
        ('{"a": TRUE, "b": None, // why\n "c": -1.5e2,}', {"a": True, "b": None, "c": -150}),
        (
            '{"a": "two\nlines", "b": "\\u00e9 \\ud83d\\ude00 \\_ \\\' \\x41",}',
            {"a": "two\nlines", "b": "é 😀 \\_ ' A"},
        ),
        ('[{"a": 1}, {"b": [2]}', [{"a": 1}, {"b": [2]}]),
        ('[{"a": 1}, {"b": [2]\n```\n', [{"a": 1}, {"b": [2]}]),
    ],
)
def test_what_models_write_instead(text: str, value: object) -> None:
    assert read_values(text)[0] == [value]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": true or false}',
        '{"a": true false}',
        '{"a": 1, "a": 2}',
        '{"a": 1, "b": {"c": 1, "c": 1},}',
        '{"a": "x", "b": "no end}',
        '[{"a": [1, 2',
        '[{"a": 1}, {"b": [{"c": 1}',
        '{"a": [{"b": 1}',
        '{"a": "x" "b": 1}',
        '{"a": "x"b": 1, "c": "y"}',  # where the first string ends cannot be told
        '{"a": ' + "[" * 20 + "]" * 20 + ",}",
        '{"a": /* why */ 1,}',
        '[{"a": 1, "b": "x"',
        '[{"a": 1, "b": "x", "c"',
        '{"a": 1} and {"b',
        '{"a": 1} and [{',
        '{"a": 1, // "b": 2\n "c": 3}',
        '{"a": ["x", // and so on\n]}',
        '{"a": ["x" // and so on\n]}',
        '{"a": ["x", # ...\n "y"]}',
        '{"a": ["x", // 3 more\n "y"]}',
        '{"a": ["x",\n // why\n "y"]}',
        '{"a": [ // why\n "y"]}',
        '{"a": ["x", ... "y"]}',
        '{"a": ["the "Times", 1999", "b"]}',
        '{"a": ["x", <more> "y"]}',
        '{"a": ["x" [...] , "y"]}',
        '{"a": ["x" and so on ,\n    "y"]}',
        "{'a': ['x' … 'y']}",
    ],
)
def test_what_cannot_be_told_is_not_read(text: str) -> None:
    with pytest.raises(Unreadable):
        read_values(text)


def test_prose_brackets_are_no_values_and_skipped_texts_are_nothing() -> None:
    prompt = 'Reply with [{"a": true or false}, ...]'
    assert read_values(f'{prompt} As in [1] and {{x}}: {{"a": 1}} [sic]', [prompt]) == (
        [{"a": 1}],
        "\n As in [1] and {x}: \n [sic]",
    )


@given(_words)
def test_escapes_are_those_of_json(text: str) -> None:
    assert unescaped(json.dumps(text)[1:-1]) == text


def test_what_a_reason_quotes_is_harmless_in_a_terminal() -> None:
    with pytest.raises(Unreadable) as error:
        list(read_spans('{"a": \x1b]0;owned\x9b31m\u202etxt', OBJECTS, ()))
    assert "owned" in str(error.value) and str(error.value).isprintable()
