"""What a reply may repeat of the texts that its judge was shown, where those spell out claims as a trajectory does.

An answer or a passage can hold JSON. A judge that repeats it without escaping its quotes writes claims that are not its
own, and the reply may be valid JSON all the same.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise

from rag_zeval.replies.loose_json import unescaped

COMPARED = 200  # letters and digits of a claim
_KEY = re.compile(r"""["']claim\\*["']""")
_NO_LETTERS = re.compile(r"[\W_]+")
# From the end of one claim to the text of the next, with what stands before.
_JOINT = re.compile(r"""[^\s{}]{0,8}\s{0,80}\}\s{0,80},?\s{0,80}\{\s{0,80}["']claim["']\s{0,80}:""")


class Echo:
    """The claims that `shown` texts spell out: what follows `"claim"` or `'claim'` in them."""

    def __init__(self, shown: Iterable[str]):
        forms = {form for text in shown for form in (text, unescaped(text)) if _KEY.search(form)}
        self._claims = sorted(claim for text in forms for claim in _spelled(text))
        self._joints = {joint for text in forms for joint in _JOINT.findall(text)}

    def begins(self, claim: str) -> bool:
        """Whether a claim that is spelled out begins like this one, whatever its spaces, punctuation and case."""
        letters = _letters(claim)[:COMPARED]
        at = bisect_left(self._claims, letters)
        return at < len(self._claims) and self._claims[at].startswith(letters)

    def __bool__(self) -> bool:
        """Whether a text spells out anything like a claim."""
        return bool(self._claims)

    def joins_claims(self, reply: str) -> bool:
        """Whether one claim of the reply follows another as in a text, character by character."""
        return bool(self) and not self._joints.isdisjoint(_JOINT.findall(reply))


def _spelled(text: str) -> Iterator[str]:
    keys = list(_KEY.finditer(text))
    bounds = [0, *(key.end() for key in keys), len(text)]
    pieces = [_letters(text[start:end]) for start, end in pairwise(bounds)]
    letters, at = "".join(pieces), 0
    for piece in pieces[:-1]:
        at += len(piece)
        yield letters[at : at + COMPARED]


def _letters(text: str) -> str:
    return _NO_LETTERS.sub("", text).casefold()
