import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_zeval.judge.evidence import MIN_SPAN_TOKENS, ReferenceIndex, grounding
from rag_zeval.judge.quotes import find_quotes
from rag_zeval.judge.words import mostly_ascii, words

repetitive = st.text("ab. ", max_size=40)


def marked_by_looking(reference: str, quotes: Sequence[str]) -> list[bool]:
    """For each character whether it is quoted: every place is compared with every quote."""
    marked = [False] * len(reference)
    for quote in quotes:
        for start in range(len(reference)):
            for end in range(start + 1, len(reference) + 1):
                whole = all(end in (0, len(reference)) or splits(reference, end) for end in (start, end))
                inner = reference[start:end]
                if whole and inner == inner.strip() and words(quote) and words(inner) == words(quote):
                    marked[start:end] = [True] * (end - start)
    return marked


def splits(text: str, at: int) -> bool:
    """Whether no word stands across this place."""
    return words(text[:at]) + words(text[at:]) == words(text)


@given(repetitive, st.lists(repetitive, max_size=5))
def test_every_place_of_every_quote_is_marked(reference: str, quotes: list[str]) -> None:
    marked = [quoted for text, quoted in find_quotes(reference, quotes).pieces() for _ in text]
    assert marked == marked_by_looking(reference, quotes)


@given(repetitive, st.lists(repetitive, max_size=5))
def test_the_first_place_of_a_quote_is_found(reference: str, quotes: list[str]) -> None:
    found = find_quotes(reference, quotes)
    assert found.first.keys() == {quote for quote in quotes if found.verbatim[quote] == 1}
    spans = [match.span() for match in re.finditer(r"[ab]+|\.", reference)]
    for quote, (start, end) in found.first.items():
        assert words(reference[start:end]) == words(quote)
        wanted, tokens = words(quote), words(reference)
        places = [at for at in range(len(tokens)) if tokens[at : at + len(wanted)] == wanted]
        assert (start, end) == (spans[places[0]][0], spans[places[0] + len(wanted) - 1][1])


@given(st.lists(st.sampled_from("ab.c"), max_size=40), st.lists(st.lists(st.sampled_from("ab.d"), max_size=12)))
def test_the_verbatim_share_is_the_longest_common_run(tokens: list[str], quotes: list[list[str]]) -> None:
    found = find_quotes(" ".join(tokens), map(" ".join, quotes)).verbatim
    reference = ReferenceIndex(tokens)
    for quote in quotes:
        expected = reference.longest_common_span(quote) / len(quote) if quote else 0.0
        assert found[" ".join(quote)] == expected


@given(st.text(max_size=60), st.lists(st.text(max_size=10), max_size=3))
def test_marking_keeps_every_character(reference: str, quotes: list[str]) -> None:
    pieces = list(find_quotes(reference, quotes).pieces())
    assert "".join(text for text, _ in pieces) == reference and all(text for text, _ in pieces)
    assert all(one[1] != other[1] for one, other in pairwise(pieces))


LONG = {
    "one word": lambda n: ("a " * n, ["a " * (n // 2)]),
    "two words": lambda n: ("a b " * n, ["a b " * (n // 4), "b " * 50]),
    "many quotes": lambda n: ("a b " * n, ["a b " * 10 + str(at) for at in range(n // 100)]),
    "nothing there": lambda n: ("a " * n, ["a " * (n // 4) + "b"] * 9),
}


@pytest.mark.parametrize("kind", LONG)
def test_repetitive_texts_take_linear_time(kind: str, growth: Callable[[Callable[[int], Any], int], float]) -> None:
    def attempt(n: int) -> None:
        reference, quotes = LONG[kind](n)
        assert sum(len(text) for text, _ in find_quotes(reference, quotes).pieces()) == len(reference)

    assert growth(attempt, 4_000) < 8


VISIBLE = ("größe", "Größe", "مدرسة", "مَدرسة", "مـدرسة", "１９５０", "1950", "“", '"')


@pytest.mark.parametrize("quote", VISIBLE)
def test_a_quote_is_verbatim_if_it_looks_the_same(quote: str) -> None:
    assert all(find_quotes(text, [quote]).verbatim[quote] == (text == quote) for text in VISIBLE)
    for text in (normalize("NFD", quote), f"\u202b{quote}\u200f"):
        found = find_quotes(f"a {text} b", [quote])
        assert found.verbatim[quote] == 1 and text.strip("\u202b\u200f") in dict(found.pieces())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's 3.5 km", ["It", "'", "s", "3", ".", "5", "km"]),
        ("größe", ["größe"]),
        ("東京は首都。", list("東京は首都。")),
        ("ภาษาไทย", list("ภาษาไทย")),
        ("وُلد سالم، هنا؟", ["وُلد", "سالم", "،", "هنا", "؟"]),
        ("हिन्दी में।", ["हिन्दी", "में", "।"]),
        ("\u200fسالم\u200e (1950)", ["سالم", "(", "1950", ")"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text("aäß éоё أآَّ がギ7.、 ", max_size=40))
def test_how_a_text_is_coded_makes_no_difference(text: str) -> None:
    assert words(normalize("NFD", text)) == words(normalize("NFC", text)) == words(text)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Über Füße müsste man, so Jörg, auch an der See reden."], True),
        (["The name (紫禁城) means forbidden city."], True),
        (["", "12."], True),
        (["PyTorch 的 DataLoader 加载数据"], False),
        (["سالم", "1950 7"], False),
    ],
)
def test_texts_that_are_mostly_ascii(texts: list[str], expected: bool) -> None:
    assert mostly_ascii(*texts) == expected


def longest_common_substring(first, second):
    """The O(n m) table of any algorithms book."""
    best, above = 0, [0] * (len(second) + 1)
    for x in first:
        row = [0] * (len(second) + 1)
        for j, y in enumerate(second, 1):
            if x == y:
                row[j] = above[j - 1] + 1
                best = max(best, row[j])
        above = row
    return best


TOKENS = st.integers(1, 8).flatmap(lambda kinds: st.lists(st.integers(0, kinds), max_size=40))


@settings(max_examples=1_000)
@given(TOKENS, TOKENS)
def test_grounding_is_the_share_of_the_textbook_and_short_spans_count_nothing(reference, span):
    index, common = ReferenceIndex(reference), longest_common_substring(reference, span)
    assert index.longest_common_span(span) == common
    assert grounding(span, index) == (0 if len(span) < MIN_SPAN_TOKENS else common / len(span))
