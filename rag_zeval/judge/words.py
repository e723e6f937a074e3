"""The words of a text in any script, where they stand and as they are compared."""

from __future__ import annotations

import re
from unicodedata import category, normalize

# Scripts that are written without spaces, and Hangul: Thai, Lao, Burmese, Khmer, kana, Han
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
_MARKS = "".join(letter for letter in map(chr, range(0x300, 0x3100)) if category(letter).startswith("M"))
_DIRECTIONS = "\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff"  # which way a line runs, and spaces without width

WORD = re.compile(rf"[{_UNSPACED}][{_MARKS}]*|(?:[^\W{_UNSPACED}]+|[{_MARKS}]+)+|[^\w\s{_DIRECTIONS}]")


def words(text: str) -> list[str]:
    """Words and punctuation marks, composed (NFC); characters of scripts without spaces one by one.

    A letter keeps its combining marks, as in vocalised Arabic: they are no words of their own. Spaces and the
    characters that only set the direction of a line are left out.
    """
    return [composed(found) for found in WORD.findall(text)]


def composed(word: str) -> str:
    """The one way (NFC) to write what has several codings that no reader can tell apart, as ö or o with its dots."""
    return normalize("NFC", word)


def mostly_ascii(*texts: str) -> bool:
    """Whether at least half of the words of the texts, together, are ASCII: so it is in English, German, French.

    Numbers do not count: every language has them.
    """
    found = [word for text in texts for word in words(text) if word[0].isalpha()]
    return 2 * sum(map(str.isascii, found)) >= len(found)
