"""Names the encoding that a text file seems to have, among those that spreadsheet programs write."""

import codecs
import re
from itertools import chain

# The letters beyond ASCII of Spanish, French, German, Portuguese, Italian, Swedish, Danish, Dutch and Catalan
WESTERN = (
    "áéíóúüñ¿¡ªº", "àâæçéèêëîïôùûüÿœ", "äöüß", "áâãàçéêíóôõúüªº", "àèéìíîòóùú", "åäöé", "æøåéòô", "áéíóúèëïöü",
    "àçéèíïóòúü",
)  # fmt: skip
# The alphabets of languages in Latin script, by encoding. If several encodings fit, the first is the most usual.
ALPHABETS = {
    "cp1252": WESTERN,
    # Polish, Czech, Slovak, Hungarian, Romanian, Croatian
    "cp1250": ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "âăîşţ", "čćđšž"),
    "cp1254": ("âçğıîöşü\u0307",),  # Turkish; the dot is that of a small İ in Python
    "cp1257": ("ąčęėįšųūž", "āčēģīķļņšūž"),  # Lithuanian, Latvian
    "mac_roman": WESTERN,  # Excel on a Mac
    "cp850": WESTERN,  # Excel's "CSV (MS-DOS)"
}
MARKS = frozenset("\xa0“”„‘’‚«»‹›–—…•·€£§°×©®™²½±µ")  # which texts in all of these languages have
OTHERS = ["shift_jis", "gb18030", "big5", "euc_kr", "cp1251", "cp1253", "cp1256"]  # of other scripts
BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
IN_LATIN_WORD = re.compile(rb"(?<=[A-Za-z])[\x80-\xff]|[\x80-\xff](?=[A-Za-z])")
HANGUL, IDEOGRAPHS = re.compile("[가-힣]"), re.compile("[一-鿿]")
WORDS = re.compile(r"\w+|[^\w\s]")
# Shares of the letters beyond ASCII that are in an alphabet: if a text is read rightly, the least of the best encoding,
# and how much a better one has more
MOST, ENOUGH, CLEARLY = 0.9, 2 / 3, 0.05


def likely_encoding(content: bytes) -> str | None:
    """Return the encoding in which the beginning of a text that is not UTF-8 makes sense, or None.

    Raises ImportError if charset-normalizer, which tells the encodings of other scripts apart, is not installed.
    """
    if b"\0" in content:  # every text has a character of ASCII, such as the end of its first line
        return "utf-16-le"
    best, share = _best(content)
    is_latin = 2 * len(IN_LATIN_WORD.findall(content)) >= len(BEYOND_ASCII.findall(content))
    if is_latin or share >= MOST:
        return best if share > ENOUGH else None
    from charset_normalizer import from_bytes

    for found in from_bytes(content, cp_isolation=OTHERS):
        text = str(found)
        if found.encoding != "euc_kr" or len(HANGUL.findall(text)) > 4 * len(IDEOGRAPHS.findall(text)):
            return found.encoding
    return None


def better_encoding(content: bytes, given: str) -> str | None:
    """Return the encoding in which a text in Latin script makes more sense than in the given one, or None."""
    best, share = _best(content)
    is_better = share >= max(MOST, _shares(content, given)[0] + CLEARLY)
    return best if is_better and content.decode(best) != content.decode(given, "replace") else None


def _best(content: bytes) -> tuple[str, float]:
    """Return the encoding of ALPHABETS with the largest shares, and the first of these."""
    shares = {encoding: _shares(content, encoding) for encoding in ALPHABETS}
    best = max(shares, key=lambda encoding: shares[encoding])
    return best, shares[best][0]


def _shares(content: bytes, encoding: str) -> tuple[float, float]:
    """Return the share of a text's letters beyond ASCII that are in the alphabet of each line's likely language.

    Also return that share if the text is in one language. Both are 0 if this is no text in the encoding.
    """
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(content)  # whose last character may be cut off
    except UnicodeError:
        return 0, 0
    alphabets = ALPHABETS.get(encoding) or [*chain.from_iterable(ALPHABETS.values())]
    lines: list[list[int]] = []  # how many letters are in each alphabet
    there = 0
    for line in text.splitlines():
        letters = [letter for word in WORDS.findall(line) for letter in _small(word) if not letter.isascii()]
        letters = [letter for letter in letters if letter not in MARKS]
        lines.append([sum(letter in alphabet for letter in letters) for alphabet in alphabets])
        there += len(letters)
    if not there:
        return 1, 1
    return sum(map(max, lines)) / there, max(map(sum, zip(*lines, strict=True))) / there


def _small(word: str) -> str:
    """Return a word in small letters. One with a capital inside, which is no word then, is returned as it is."""
    return word.lower() if word[1:].islower() or word.isupper() else word
