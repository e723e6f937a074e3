"""Text of users and models: on one line, checked for being blank, valid for an encoding; its ids, and intervals."""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any
from unicodedata import category
from urllib.parse import quote

# What a terminal obeys, or what turns the direction of a line: all controls but tabs and ends of lines, and marks.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
# What build servers obey in a log: GitHub `::name` at the start of a line and `##[name]`, Azure and TeamCity `##vso[`.
_COMMAND = re.compile(r"^(?:[^\S\n]|\x1b\[[0-9;]*m)*(?=::)|#(?=#\w*\[)", re.MULTILINE)
LINE_READ = 10_000  # how many characters of a text are read
# Ends of sentences in Chinese, Japanese, Arabic, Urdu and Hindi; no space need follow them.
OTHER_ENDS = "。！？｡؟۔।॥"
# what Unicode's categories do not tell: fillers, the blank of Braille, marks that choose how a character looks
_UNSEEN = {*map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x180F, *range(0x180B, 0x180E)))}
_UNSEEN |= {*map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))}


def one_line(text: str) -> str:
    """The text on one line, at most 300 characters long, so that a status can quote it and a terminal can show it.

    Each run of characters that do not print (controls, marks of writing direction, lone surrogates) is one space.
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text[:LINE_READ]).split())[:300]


def visible(text: str) -> str:
    """The text with an escape, such as `\\x1b`, for each character that a terminal would obey; lines stay lines."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def without_commands(text: str) -> str:
    """The text with a backslash in what a build server would take for a command in its log (`::error`, `##[error]`)."""
    return _COMMAND.sub(lambda found: found[0] + "\\", text)


def text_id(kind: str, text: str) -> str:
    """An id made of a text, such as "q-0123456789ab"; texts that differ only in spaces have the same."""
    return f"{kind}-" + hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:12]


def trec_id(id_: str) -> str:
    """The id as TREC's files can hold it: white space, which separates their fields, is percent-encoded.

    >>> trec_id("my notes.md#2")
    'my%20notes.md#2'
    """
    return re.sub(r"\s", lambda space: quote(space[0]), id_)


def is_blank(value: str | Sequence[str] | None) -> bool:
    """Whether there is nothing to see: None, a text of spaces and invisible characters only, or a list of such."""
    if isinstance(value, str):
        return all(c.isspace() or category(c) in ("Cc", "Cf", "Zl", "Zp", "Zs") or c in _UNSEEN for c in value)
    return value is None or all(map(is_blank, value))


def without_surrogates(text: str) -> str:
    """The text with each lone surrogate replaced. JSON can hold them (half an emoji); no encoding of a model can."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def content_hash(*parts: Any) -> str:
    """16 hex digits that stand for these texts, numbers and lists: other values have others, in all likelihood."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def with_interval(
    value: float | None, low: float | None, high: float | None, form: str = ".3f", none: str = "-"
) -> str:
    """A number with its interval, or alone where either end is None, each in the same form; `none` for no number.

    >>> with_interval(0.4123, 0.3712, 0.4555)
    '0.412 [0.371, 0.456]'
    """
    if value is None:
        return none
    return f"{value:{form}}" + (f" [{low:{form}}, {high:{form}}]" if low is not None and high is not None else "")


def in_markdown(text: str) -> str:
    """Foreign text as Markdown that shows it letter by letter.

    A space of no width, as Renovate sets it, keeps GitHub from calling people (@name) and linking issues (#1, a URL).
    """
    plain = re.sub(r"([\\`*_\[\]<>|~&#])", r"\\\1", one_line(text))
    return re.sub(r"@|#|:(?=//)", r"\g<0>&#8203;", plain)
