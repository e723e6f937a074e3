import re
from collections.abc import Callable
from html import escape

import pytest
from hostile_pages import MANY, UNCLOSED
from hypothesis import given
from hypothesis import strategies as st
from long_replies import LINEAR
from lxml import etree

from rag_zeval.documents.html import page_text
from rag_zeval.errors import InputError

WORDS = st.text("abcdeä<>&'\"=/-! ", min_size=1, max_size=12).filter(str.strip)
NAMES = st.sampled_from("p div b i span ul li h1 pre em blockquote section".split())
SPACE = st.sampled_from([" ", "\n", "\t", "  "])
VALUES = st.one_of(
    st.text("ab<>='/!- ", max_size=6).map(lambda text: f'"{text}"'),
    st.text('ab<>="/!- ', max_size=6).map(lambda text: f"'{text}'"),
    st.text("ab='/", min_size=1, max_size=4).map(lambda text: f"x{text}"),
)
ATTRIBUTES = st.lists(st.tuples(SPACE, st.sampled_from("abc"), VALUES), max_size=3).map(
    lambda found: "".join(f"{space}{name}{at}={value}" for at, (space, name, value) in enumerate(found))
)
HIDDEN = st.one_of(
    st.text("ab<>='- ", max_size=8).map(lambda text: f"<!--x{text.replace('--', '')}x-->"),
    st.text("ab<>='! ", max_size=8).map(lambda text: f"<script>{text}</script>"),
    st.text("ab<>='! ", max_size=8).map(lambda text: f"<style a='>'>{text}</STYLE >"),
)
PAGES = st.recursive(
    st.one_of(WORDS.map(escape), HIDDEN, st.just("<br/>"), st.just("<!x>"), st.just("</>")),
    lambda inside: st.tuples(NAMES, ATTRIBUTES, st.lists(inside, max_size=5).map("".join), st.booleans()).map(
        lambda made: f"<{made[0]}{made[1]}>{made[2]}" + f"</{made[0].upper()}\n>" * made[3]
    ),
    max_leaves=25,
)


def second_reader(page: str) -> str:
    """The text that lxml finds, without white space."""
    root = etree.fromstring(f"<html><body>{page}", etree.HTMLParser(remove_comments=True, remove_pis=True))
    etree.strip_elements(root, "script", "style", with_tail=False)
    return "".join("".join(root.itertext()).split())


@given(PAGES)
def test_another_reader_finds_the_same_text(page: str) -> None:
    assert "".join(page_text(page).split()) == second_reader(page)


@given(st.text("<>!-/ab='\"&#;[]x \n", max_size=60) | st.text(max_size=60))
def test_any_text_is_read_or_refused(page: str) -> None:
    try:
        text = page_text(page)
    except InputError as error:
        assert re.fullmatch(r"ends inside .+ that line \d+ opens and no line closes", str(error), re.DOTALL)
    else:
        assert page_text(f"{page} Behind it.").endswith("Behind it.")  # nothing swallowed it
        assert not re.search(r"\n{3}|[ \t]$", text)


@pytest.mark.parametrize("start", UNCLOSED)
def test_a_page_that_ends_within_what_is_hidden_is_refused_with_the_line(start: str) -> None:
    with pytest.raises(InputError, match=r"ends inside .* that line 2 opens and no line closes"):
        page_text(f"<p>Before\n{start}")


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>a<template>b<template>c</template>d</template>e", "ae"),
        ("a<script><p></script ><p>b", "a\n\nb"),
        ("a<script/>b</script>c", "ac"),
        ("<svg><script/><style/><text>a</text><text>b</text></svg>c", "a\n\nb\n\nc"),
        ("a<xmp><b>&amp;</xmp><plaintext>&amp;</b><!--", "a\n\n<b>&amp;\n\n&amp;</b><!--"),
        ("<center>a</center>b<dialog>c</dialog><search>d</search>e<hgroup>f", "a\n\nb\n\nc\n\nd\n\ne\n\nf"),
        ("<title><b>&amp;</title><textarea><!-- </textarea>", "<b>&\n\n<!--"),
        ("<p a=b'>c", "c"),
        ('<p =">a', "a"),
        ("<p a='b'c=\"d>\">e", "e"),
        ("1 <2 < 3 <", "1 <2 < 3 <"),
        ("a<![CDATA[<b>]]>c", "a<b>c"),
        ("<!-->a<!--->b<!-- -- --!>c<!--->-->d", "abc-->d"),
        ("a</body></html>b", "a\n\nb"),
        ("a\nb<pre>\nx =\t<b>1</b>\n\n y\n</pre>c\nd", "a b\n\nx = 1\n\ny\n\nc d"),
        ("<textarea>a\nb</textarea>c\nd", "a\nbc d"),
    ],
)
def test_pages_are_read_as_browsers_do(page: str, text: str) -> None:
    assert page_text(page) == text


@pytest.mark.parametrize("kind", [kind for kind in MANY if kind != "&#1"])  # Python refuses such a number at once
def test_a_long_page_takes_linear_time(kind: str, growth: Callable[..., float]) -> None:
    first, _, rest = MANY[kind].partition("{")
    unit, _, last = rest.partition("}")

    def read(size: int) -> None:
        page_text(first + unit * (size // len(unit)) + last)

    assert growth(read, 5_000) < LINEAR
