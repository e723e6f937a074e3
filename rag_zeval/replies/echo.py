"""What a reply may repeat of the texts that its judge was shown, where those spell out what a judge would write.

An answer or a passage can hold JSON. A judge that repeats it says nothing of its own. And if it repeats it inside its
reply without escaping the quotes, the reply has claims, items or fields that are not the judge's, and may be valid
JSON all the same. Models change what they repeat: they straighten quotes, resolve escapes and entities, and drop
spaces. So texts are compared in a plain form, in which all of that is the same.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from urllib.parse import unquote

from rag_zeval.replies.loose_json import unescaped

COMPARED = 200  # letters and digits of a claim or a value
SEAM = 4  # characters of the string behind a seam; of the one before, the last: a shown text may begin with it
UNSEEN = ("Cf", "Mn", "Cc")  # categories of characters: formats such as zero width, marks on letters, controls
RESOLVED = 4  # times that escapes within escapes are resolved

_QUOTES = "'`´‘’‚‛“”„‟‹›«»′″‴「」『』〝〞〟＂＇"
_PLAIN = str.maketrans({**dict.fromkeys(_QUOTES, '"'), "\\": None, "：": ":"})
_UPPER_ESCAPE = re.compile(r"\\(?:[NTRBFX]|U(?!00(?:0[\da-fA-F]|10)[\da-fA-F]{4}))")  # of a text in upper case
_QUOTES_ON_END = re.compile(r'""+')  # two apostrophes, or a double prime
_NO_LETTERS = re.compile(r"[\W_]+")
_VALUE = re.compile(r'(?=[\[{]|"[^"]{1,60}":)(?<![\[{])')  # before a value that is spelled out, or one of its fields
_CLAIM = re.compile(r'"claim"')  # what follows is spelled out as one
# From the end of one claim to the text of the next, with what stands before; in a reply, and in a plain form.
_JOINT = re.compile(r"""[^\s{}]{0,8}\s{0,80}\}\s{0,80},?\s{0,80}\{\s{0,80}["']claim["']\s{0,80}:""")
_PLAIN_JOINT = re.compile(r'[^{}]{0,8}\},?\{"claim":')
# From the end of one string of a value to the beginning of the next, with some of what they say. JSON has one quote;
# Python's repr takes the other one for some strings, but what stands between two of those may be text.
_STRUCTURE = r"(?:[\s,:\[\]{}]|true|false|null|True|False|None|[-\d.])*"
_SEAM = re.compile(
    rf"""[^"'\\](?:(?P<quote>["'])(?=\s*[,:\[\]{{}}]){_STRUCTURE}["'])(?=(?P<next>[^"'\\]{{1,{SEAM}}}))"""
)


def plain_form(text: str) -> str:
    """The text in lower case, its escapes and entities resolved, all quotes alike, without white space and backslashes.

    >>> plain_form('{“Claim”: &quot;It\\\\nis.&quot;}')
    '{"claim":"itis."}'
    """
    for _ in range(RESOLVED):
        before = text
        if not text.isascii():
            text = unicodedata.normalize("NFKC", text)
            text = "".join(character for character in text if unicodedata.category(character) not in UNSEEN)
        if "&" in text:
            text = html.unescape(text)
        if "%" in text:
            text = unquote(text, errors="replace")
        text = unescaped(_UPPER_ESCAPE.sub(lambda escape: escape[0].lower(), text))
        if text == before:
            break
    text = _QUOTES_ON_END.sub('"', text.translate(_PLAIN))
    return "".join(text.upper().casefold().split())  # upper: a dotless i is an i there


def letters_of(plain: str) -> str:
    """The letters and digits of a plain form."""
    return _NO_LETTERS.sub("", plain)


class Echo:
    """What `shown` texts spell out: values as JSON has them, and claims: what follows `"claim"`."""

    def __init__(self, shown: Iterable[str]):
        self._shown = tuple(shown)

    @cached_property
    def plain(self) -> list[str]:
        """The plain form of each shown text."""
        return [plain_form(text) for text in self._shown]

    @cached_property
    def _values(self) -> list[str]:
        return sorted(_spelled(self.plain, _VALUE))

    @cached_property
    def _claims(self) -> list[str]:
        return sorted(_spelled(self.plain, _CLAIM))

    @cached_property
    def _joints(self) -> list[str]:
        return [joint for text in self.plain for joint in _PLAIN_JOINT.findall(text)]

    def spells(self, written: str) -> bool:
        """Whether a value of a reply, as it is written there, is spelled out in a shown text, whatever its form."""
        return _begins_one(written, self._values)

    def has_seam_of(self, written: str) -> bool:
        """Whether two strings of a value follow each other as in a shown text, which may have parted them.

        >>> Echo(['He wrote Hamlet", "Lear']).has_seam_of('{"plays": ["He wrote Hamlet", "Lear"]}')
        True
        """
        texts = [text for text in self.plain if '"' in text]
        if not texts:
            return False
        first = next((character for character in written if character in "\"'"), "")
        seams = {
            plain_form(seam[0] + seam["next"])
            for seam in _SEAM.finditer(written)
            if first in (seam["quote"], seam[0][-1]) and (first == "'" or seam["quote"] == seam[0][-1])
        }
        return any(seam in text for seam in seams for text in texts)

    def begins(self, claim: str) -> bool:
        """Whether a claim that is spelled out begins like this one, whatever its spaces, punctuation and case."""
        return _begins_one(claim, self._claims)

    def __bool__(self) -> bool:
        """Whether a text spells out anything like a claim."""
        return bool(self._claims)

    def joins_claims(self, reply: str) -> bool:
        """Whether one claim of the reply follows another as in a shown text."""
        joints = {plain_form(joint) for joint in _JOINT.findall(reply)} if self else ()
        return any(shown.endswith(joint) for joint in joints for shown in self._joints)


def _spelled(texts: Sequence[str], start: re.Pattern[str]) -> set[str]:
    """The letters and digits, at most COMPARED, that follow each place where something is spelled out."""
    found = set()
    for text in texts:
        bounds = [0, *(place.end() for place in start.finditer(text)), len(text)]
        pieces = [letters_of(text[begin:end]) for begin, end in pairwise(bounds)]
        letters, at = "".join(pieces), 0
        for piece in pieces[:-1]:
            at += len(piece)
            found.add(letters[at : at + COMPARED])
    return found


def _begins_one(text: str, spelled: Sequence[str]) -> bool:
    letters = letters_of(plain_form(text))[:COMPARED] if spelled else ""
    at = bisect_left(spelled, letters)
    return bool(letters) and at < len(spelled) and spelled[at].startswith(letters)
