"""Splits a text in any script into words that can be compared."""

import re
from unicodedata import category, normalize

# Scripts that are written without spaces, and Hangul: Thai, Lao, Burmese, Khmer, kana, Han
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
_MARKS = "".join(letter for letter in map(chr, range(0x300, 0x3100)) if category(letter).startswith("M"))
_DIRECTIONS = "\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff"  # marks of writing direction, and spaces without width

WORD = re.compile(rf"[{_UNSPACED}][{_MARKS}]*|(?:[^\W{_UNSPACED}]+|[{_MARKS}]+)+|[^\w\s{_DIRECTIONS}]")


def words(text: str) -> list[str]:
    """Return words and punctuation marks in composed form (NFC). In scripts without spaces, each character is a word.

    Combining marks stay with their letter, as in vocalised Arabic. Spaces and marks of writing direction are left out.

    >>> words("It's 3 km.")
    ['It', "'", 's', '3', 'km', '.']
    """
    return [composed(found) for found in WORD.findall(text)]


def composed(word: str) -> str:
    """Return the word in Unicode's composed form (NFC), so that words that look equal are equal."""
    return normalize("NFC", word)


def mostly_ascii(*texts: str) -> bool:
    """Whether at least half of all words in the texts are ASCII, as in English, German or French.

    Numbers are not counted, because every language has them.
    """
    found = [word for text in texts for word in words(text) if word[0].isalpha()]
    return 2 * sum(map(str.isascii, found)) >= len(found)
