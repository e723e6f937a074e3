"""Reads the text of an HTML page tag by tag, as browsers do. No tree is built, so depth and size have no limit."""

import re
from collections.abc import Callable
from html import unescape
from typing import NoReturn

from rag_zeval.errors import InputError

PARAGRAPH = "\n\n"  # between two paragraphs of a text
BLOCKS = frozenset(
    "address article aside blockquote body caption center dd desc details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main nav ol optgroup "
    "option p plaintext pre search section summary table text title tr ul xmp".split()
)
WITHIN = {"br": "\n", "td": " ", "th": " "}  # text in place of the start tag of an element inside a paragraph
# In these elements only their own end tag is markup. A browser shows nothing of UNSEEN. RAW: how to read their text.
UNSEEN = ("script", "style", "iframe", "noembed", "noframes", "noscript")
RAW: dict[str, Callable[[str], str]] = {
    "title": unescape,
    "textarea": unescape,
    "xmp": str,
    **dict.fromkeys(UNSEEN, lambda hidden: ""),
}
LINES = frozenset(["pre", "listing", "textarea", "xmp"])  # in these, a line end is one
FOREIGN = frozenset(["svg", "math"])  # inside these, "/>" ends any element, as in XML

_SPACE = " \t\n\f\r"
_MARKUP = re.compile(
    rf"<(?:(?P<comment>!--(?:-?>)?)|(?P<cdata>!\[CDATA\[)|(?P<bogus>[!?]|/(?![a-zA-Z]))"
    rf"|(?P<end>/?)(?P<name>[a-zA-Z][^{_SPACE}/>]*))"
)
_COMMENT_END = re.compile("--!?>")
_CDATA_END = re.compile("]]>")
_TAG_END_OR_ATTRIBUTE = re.compile(
    rf"[{_SPACE}/]*(?:(?P<end>>)|[^{_SPACE}/>][^{_SPACE}/>=]*"
    rf"(?:[{_SPACE}]*=[{_SPACE}]*(?:\"[^\"]*(?:\"|\Z)|'[^']*(?:'|\Z)|(?=>)|[^{_SPACE}>\"'][^{_SPACE}>]*))?)"
)


def page_text(page: str) -> str:
    """Return the text that a reader can see on a page, with blank lines between paragraphs.

    Comments, templates, attributes and the elements UNSEEN are left out.

    Raises InputError if the page ends inside a tag, one of these, a title or a text area. A browser would hide all that
    follows its start. Such a page may be cut off, or lack a quote or an end tag somewhere before.
    """
    return tidy("".join(_pieces(page)))


def tidy(text: str) -> str:
    """Return the text without white space at both ends of its lines, and with at most one blank line in a row."""
    return re.sub(r"\n{3,}", PARAGRAPH, "\n".join(line.strip() for line in text.split("\n"))).strip()


def _pieces(page: str) -> list[str]:
    """Return the page's text, with separators in place of its tags, as pieces in order."""
    pieces: list[str] = []
    templates: list[tuple[int, int]] = []  # where each open one starts, in the page and in the pieces
    at = foreign = 0
    spaced = _one_space
    while (markup := _MARKUP.search(page, at)) is not None:
        start, end = markup.span()
        pieces.append(spaced(unescape(page[at:start])))
        if markup["comment"] is not None:
            at = end if page[end - 1] == ">" else _end_of(_COMMENT_END, page, end, "a comment", start).end()
        elif markup["bogus"] is not None:
            at = page.find(">", end) + 1 or _unclosed(page, f"'{markup[0]}'", start)
        elif markup["cdata"] is not None:  # text of XML; HTML hides it up to ">", we keep all
            closing = _end_of(_CDATA_END, page, end, "a CDATA section", start)
            pieces.append(spaced(page[end : closing.start()]))
            at = closing.end()
        else:
            name, closes = markup["name"].lower(), bool(markup["end"])
            at, closed = _end_of_tag(page, end, start)
            pieces.append(PARAGRAPH if name in BLOCKS else WITHIN.get(name, "") * (not closes))
            if name in LINES:
                spaced = _one_space if closes else _one_space_in_lines
            if name in FOREIGN:
                foreign = max(0, foreign + (-1 if closes else not closed))
            elif name == "template" and not closes:
                templates.append((start, len(pieces)))
            elif name == "template" and templates:
                del pieces[templates.pop()[1] :]
            elif name == "plaintext" and not closes:
                return [*pieces, page[at:]] if not templates else _unclosed(page, "<template>", templates[0][0])
            elif name in RAW and not closes and not (closed and foreign):
                ends = re.compile(rf"</{name}(?=[{_SPACE}/>])", re.IGNORECASE | re.ASCII)
                raw = page[at : _end_of(ends, page, at, f"<{name}>", start).start()]
                pieces.append(spaced(RAW[name](raw)))
                at += len(raw)
    if templates:
        _unclosed(page, "<template>", templates[0][0])
    return [*pieces, spaced(unescape(page[at:]))]


def _end_of_tag(page: str, at: int, start: int) -> tuple[int, bool]:
    """Return where a tag ends, and whether it ends with "/>". Raises InputError if it does not end."""
    while (part := _TAG_END_OR_ATTRIBUTE.match(page, at)) is not None:
        at = part.end()
        if part["end"]:
            return at, part[0].endswith("/>")
    _unclosed(page, "a tag", start)


def _end_of(pattern: re.Pattern[str], page: str, at: int, what: str, start: int) -> re.Match[str]:
    """Return the first match from `at` on: the end of what opens at `start`. Raises InputError if there is none."""
    return pattern.search(page, at) or _unclosed(page, what, start)


def _unclosed(page: str, what: str, start: int) -> NoReturn:
    line = page.count("\n", 0, start) + 1
    raise InputError(f"ends inside {what} that line {line} opens and no line closes")


def _one_space(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _one_space_in_lines(text: str) -> str:
    return re.sub(r"[^\S\n]+", " ", text)
