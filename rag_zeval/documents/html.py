"""The text of a page, read tag after tag as browsers do. No tree is built: neither depth nor size has a limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NoReturn

from rag_zeval.documents.encoding import Unreadable

PARAGRAPH = "\n\n"  # between two of a text's paragraphs
BLOCKS = frozenset(
    "address article aside blockquote body caption dd desc details div dl dt fieldset figcaption figure footer form h1 "
    "h2 h3 h4 h5 h6 header hr html legend li main nav ol option p pre section summary table text title tr ul".split()
)
WITHIN = {"br": "\n", "td": " ", "th": " "}  # what stands for the start of an element inside a paragraph
UNSEEN = frozenset("script style iframe noembed noframes noscript".split())  # a browser shows nothing of these
VERBATIM = frozenset(["xmp"])  # in these, as in UNSEEN, there is no markup but their own end
ENTITIES = frozenset(["title", "textarea"])  # in these there are entities, but no other markup
FOREIGN = frozenset(["svg", "math"])  # in these "/>" ends every element, as in XML

_SPACE = " \t\n\f\r"
_MARKUP = re.compile(
    rf"<(?:(?P<comment>!--(?:-?>)?)|(?P<cdata>!\[CDATA\[)|(?P<bogus>[!?]|/(?![a-zA-Z]))"
    rf"|(?P<end>/?)(?P<name>[a-zA-Z][^{_SPACE}/>]*))"
)
_COMMENT_END = re.compile("--!?>")
_TAG_END_OR_ATTRIBUTE = re.compile(
    rf"[{_SPACE}/]*(?:(?P<end>>)|[^{_SPACE}/>][^{_SPACE}/>=]*"
    rf"(?:[{_SPACE}]*=[{_SPACE}]*(?:\"[^\"]*(?:\"|\Z)|'[^']*(?:'|\Z)|(?=>)|[^{_SPACE}>\"'][^{_SPACE}>]*))?)"
)


def page_text(page: str) -> str:
    """What a reader can see of a page, its paragraphs between blank lines.

    Comments, templates and the elements UNSEEN are left out, and what stands in attributes. Raises Unreadable if the
    page ends inside one of these, or a title or text area: of what follows its start a browser shows nothing, or only
    there. Such a page may be cut off, or a quote or an end may be missing in its midst.
    """
    lines = "".join(_pieces(page)).split("\n")
    return re.sub(r"\n{3,}", PARAGRAPH, "\n".join(line.strip() for line in lines)).strip()


def _pieces(page: str) -> Iterator[str]:
    """The page's text and what stands for the edges of its elements, in their order."""
    at, foreign = 0, 0
    templates: list[int] = []  # where the open ones start
    while (markup := _MARKUP.search(page, at)) is not None:
        start, inside = markup.start(), bool(templates)
        if not inside:
            yield _one_space(unescape(page[at:start]))
        at = markup.end()
        if markup["comment"] is not None:
            if not markup["comment"].endswith(">"):
                at = _end_of(_COMMENT_END, page, start, "a comment", at).end()
        elif markup["bogus"] is not None:
            at = page.find(">", at) + 1 or _unclosed(page, start, f"'{markup[0]}'")
        elif markup["cdata"] is not None:  # text in XML, and hidden in HTML up to its first ">": kept
            end = _end_of(re.compile(re.escape("]]>")), page, start, "a CDATA section", at)
            if not inside:
                yield _one_space(page[at : end.start()])
            at = end.end()
        else:
            name, closes = markup["name"].lower(), bool(markup["end"])
            at, closed = _end_of_tag(page, at, start)
            if not inside:
                yield PARAGRAPH if name in BLOCKS else WITHIN.get(name, "") * (not closes)
            if name == "template":
                if not closes:
                    templates.append(start)
                elif templates:
                    templates.pop()
            elif name in FOREIGN:
                foreign = max(0, foreign + (-1 if closes else not closed))
            elif name == "plaintext" and not closes:
                yield page[at:] * (not inside)
                at = len(page)
            elif name in UNSEEN | VERBATIM | ENTITIES and not closes and not (closed and foreign):
                end = _end_of(re.compile(rf"</{name}(?=[{_SPACE}/>])", re.I | re.A), page, start, f"<{name}>", at)
                raw = page[at : end.start()]
                if name not in UNSEEN and not inside:
                    yield _one_space(unescape(raw) if name in ENTITIES else raw)
                at = end.start()
    if templates:
        _unclosed(page, templates[0], "<template>")
    yield _one_space(unescape(page[at:]))


def _end_of_tag(page: str, at: int, start: int) -> tuple[int, bool]:
    """Where a tag ends, and whether it ends with "/>"."""
    while (part := _TAG_END_OR_ATTRIBUTE.match(page, at)) is not None:
        at = part.end()
        if part["end"]:
            return at, part[0].endswith("/>")
    _unclosed(page, start, "a tag")


def _end_of(pattern: re.Pattern[str], page: str, start: int, what: str, at: int) -> re.Match[str]:
    return pattern.search(page, at) or _unclosed(page, start, what)


def _unclosed(page: str, start: int, what: str) -> NoReturn:
    line = page.count("\n", 0, start) + 1
    raise Unreadable(f"ends inside {what} that line {line} opens and nothing closes")


def _one_space(text: str) -> str:
    return re.sub(r"\s+", " ", text)
