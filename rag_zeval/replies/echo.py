"""Detects what a reply copies from the texts that the judge was shown, if they contain what a judge would write.

An answer or a passage can contain JSON. If a judge repeats it, the copy is not a verdict of its own. If the judge
repeats it inside its reply without escaping the quotes, the reply gets claims, items or fields that are not the
judge's, and may still be valid JSON. Models change what they copy: they straighten quotes, resolve escapes and
entities, and drop spaces. So texts are compared in a plain form without these differences.
"""

import html
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from urllib.parse import unquote

from rag_zeval.replies.loose_json import unescaped

COMPARED = 200  # letters and digits of a claim or a value that are compared
SEAM = 4  # characters compared after a seam; before it, only one, because a shown text may begin there
UNSEEN = ("Cf", "Mn", "Cc")  # Unicode categories: format characters (zero width), combining marks, controls
RESOLVED = 4  # levels of nested escapes that are resolved

_QUOTES = "'`´‘’‚‛“”„‟‹›«»′″‴「」『』〝〞〟＂＇"
_PLAIN = str.maketrans({**dict.fromkeys(_QUOTES, '"'), "\\": None, "：": ":"})
_UPPER_ESCAPE = re.compile(r"\\(?:[NTRBFX]|U(?!00(?:0[\da-fA-F]|10)[\da-fA-F]{4}))")  # of a text in upper case
_QUOTES_ON_END = re.compile(r'""+')  # two apostrophes, or a double prime
_NO_LETTERS = re.compile(r"[\W_]+")
_VALUE = re.compile(r'(?=[\[{]|"[^"]{1,60}":)(?<![\[{])')  # the beginning of a value, or of one of its fields
_CLAIM = re.compile(r'"claim"')  # what follows is a claim
# From the end of one claim to the text of the next; in a reply, and in a plain form.
_JOINT = re.compile(r"""[^\s{}]{0,8}\s{0,80}\}\s{0,80},?\s{0,80}\{\s{0,80}["']claim["']\s{0,80}:""")
_PLAIN_JOINT = re.compile(r'[^{}]{0,8}\},?\{"claim":')
# A seam: the end of one string, the structure after it, and the beginning of the next string. JSON has one kind of
# quote. Python's repr uses the other kind for some strings, but what is between two of those may be text.
_STRUCTURE = r"(?:[\s,:\[\]{}]|true|false|null|True|False|None|[-\d.])*"
_SEAM = re.compile(
    rf"""[^"'\\](?:(?P<quote>["'])(?=\s*[,:\[\]{{}}]){_STRUCTURE}["'])(?=(?P<next>[^"'\\]{{1,{SEAM}}}))"""
)


def plain_form(text: str) -> str:
    """Return the text in lower case, without white space and backslashes, with escapes resolved and all quotes alike.

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
    return "".join(text.upper().casefold().split())  # upper() turns a dotless i into I


def letters_of(plain: str) -> str:
    """Return the letters and digits of a plain form."""
    return _NO_LETTERS.sub("", plain)


class Echo:
    """The JSON values in `shown` texts, and the claims in them: what follows `"claim"`."""

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
        """Whether a shown text contains a value of the reply. written: the value's text in the reply, in any form."""
        return _begins_one(written, self._values)

    def has_seam_of(self, written: str) -> bool:
        """Whether two strings follow each other as in a shown text. The judge may then have written them as one string.

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
        """Whether a claim in a shown text begins like this one, ignoring spaces, punctuation and case."""
        return _begins_one(claim, self._claims)

    def __bool__(self) -> bool:
        """Whether a shown text contains anything like a claim."""
        return bool(self._claims)

    def joins_claims(self, reply: str) -> bool:
        """Whether one claim of the reply follows another exactly as in a shown text."""
        joints = {plain_form(joint) for joint in _JOINT.findall(reply)} if self else ()
        return any(shown.endswith(joint) for joint in joints for shown in self._joints)


def _spelled(texts: Sequence[str], start: re.Pattern[str]) -> set[str]:
    """Return the letters and digits that follow each match of `start`, at most COMPARED."""
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
