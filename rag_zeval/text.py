"""Makes text of users and models safe to print and encode, derives ids and hashes from it, and formats intervals."""

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from typing import Any
from unicodedata import category
from urllib.parse import quote

# What a terminal obeys (all controls except tab and line feed), and invisible marks such as those of text direction.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
# What build servers obey in a log: `::name` at the start of a line and `##[name]` (GitHub), `##vso[` (Azure, TeamCity).
_COMMAND = re.compile(r"^(?:[^\S\n]|\x1b\[[0-9;]*m)*(?=::)|#(?=#\w*\[)", re.MULTILINE)
LINE_READ = 10_000  # characters of a text that `one_line` reads
# Ends of sentences in Chinese, Japanese, Arabic, Urdu and Hindi. They need no space after them.
OTHER_ENDS = "。！？｡؟۔।॥"
QUESTION_MARKS = ("?", "？", "؟", "՞")  # as in Latin, Chinese, Arabic and Armenian texts
# Invisible, though Unicode's categories do not say so: fillers, the Braille blank, and variation selectors.
_UNSEEN = {*map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x180F, *range(0x180B, 0x180E)))}
_UNSEEN |= {*map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))}
_PLAIN_WORD = re.compile(r"[\w@%+=:./-]+")


def one_line(text: str) -> str:
    """Return the text as one line of at most 300 characters, which a status can quote and a terminal can show.

    Each run of characters that do not print (controls, marks of writing direction, lone surrogates) becomes one space.
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text[:LINE_READ]).split())[:300]


def visible(text: str) -> str:
    """Return the text with each character that a terminal would obey escaped, such as `\\x1b`. Lines stay lines."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def without_commands(text: str) -> str:
    """Return the text with a backslash in what a build server would take for a command (`::error`, `##[error]`)."""
    return _COMMAND.sub(lambda found: found[0] + "\\", text)


def text_id(kind: str, text: str) -> str:
    """Return an id made of a text, such as "q-0123456789ab". Texts that differ only in white space have the same id."""
    return f"{kind}-" + hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:12]


def trec_id(id_: str) -> str:
    """Return the id as TREC's files can hold it. White space, which separates their fields, is percent-encoded.

    >>> trec_id("my notes.md#2")
    'my%20notes.md#2'
    """
    return re.sub(r"\s", lambda space: quote(space[0]), id_)


def is_blank(value: str | Sequence[str] | None) -> bool:
    """Whether there is nothing to see: None, a text of only spaces and invisible characters, or a list of such."""
    if isinstance(value, str):
        return all(c.isspace() or category(c) in ("Cc", "Cf", "Zl", "Zp", "Zs") or c in _UNSEEN for c in value)
    return value is None or all(map(is_blank, value))


def without_surrogates(text: str) -> str:
    """Return the text with U+FFFD for each lone surrogate (half an emoji). JSON can hold these, but no model can."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def counted(n: int, noun: str) -> str:
    """Return a number of things in words, such as "1 row" and "1,200 rows"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def content_hash(*parts: Any) -> str:
    """Return a hash of these texts, numbers and lists: 16 hex digits, which almost surely differ for other values."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def decimals_beside(value: float, bound: float, least: int = 3) -> int:
    """Return the fewest decimals, at least `least`, that show on which side of a bound a value lies.

    Differences up to 1e-9 are rounding errors: such a value is equal to the bound.

    >>> f"{0.0204:.{decimals_beside(0.0204, 0.02)}f}"
    '0.0204'
    """

    def side(of: float) -> int:
        return (of > bound + 1e-9) - (of < bound - 1e-9)

    return next((decimals for decimals in range(least, 10) if side(round(value, decimals)) == side(value)), 10)


def percent(share: float, decimals: int = 1) -> str:
    """Return a share in percent, with more decimals than these if it would else seem to be 0% or 100%.

    >>> percent(0.25), percent(1999 / 2000)
    ('25.0%', '99.95%')
    """
    decimals = max(decimals_beside(100 * share, bound, decimals) for bound in (0, 100))
    return f"{share:.{decimals}%}"


def with_interval(
    value: float | None, low: float | None, high: float | None, form: str = ".3f", none: str = "-"
) -> str:
    """Return a number with its interval as text. The number is alone if either end is None.

    form: the format of all three numbers. none: the text if there is no number.

    >>> with_interval(0.4123, 0.3712, 0.4555)
    '0.412 [0.371, 0.456]'
    """
    if value is None:
        return none
    return f"{value:{form}}" + (f" [{low:{form}}, {high:{form}}]" if low is not None and high is not None else "")


def in_markdown(text: str) -> str:
    """Return foreign text as Markdown that shows every character literally.

    A zero-width space, as Renovate uses it, keeps GitHub from notifying people (@name) and linking issues (#1, a URL).
    """
    plain = re.sub(r"([\\`*_\[\]<>|~&#])", r"\\\1", one_line(text))
    return re.sub(r"@|#|:(?=//)", r"\g<0>&#8203;", plain)


def shell_word(text: str) -> str:
    """Return the text as one word of a command line, in quotation marks if a shell would split or expand it.

    They are double ones if possible, because Windows' cmd.exe knows no others.
    """
    if _PLAIN_WORD.fullmatch(text):
        return text
    return shlex.quote(text) if re.search(r'[$`"\\!]', text) else f'"{text}"'
