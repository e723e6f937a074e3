"""Keeps API keys out of everything that this process prints and writes, however they are encoded there.

`hide` a value once; `scrub` then removes it from any text. All output goes through it: the standard streams
(`rag_zeval.streams`), files (`rag_zeval.files`) and cached replies (`rag_zeval.models.cache`).
"""

from __future__ import annotations

import html
import os
import re
import unicodedata
from array import array
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce

MASK = "[key]"
SHORTEST = 8  # characters; ordinary texts contain shorter values by chance
RUN = 15  # characters of a key, separators not counted, that are masked even without the rest
RUN_BASE64, RUN_HEX = RUN * 4 // 3, RUN * 2
ANCHOR = 6  # characters that are searched first: every run contains one that starts at a multiple of the stride
LAYERS = 4  # nested encodings, such as percent-encoding in JSON in HTML

# These may occur between the characters of a key. The syntax of JSON, HTML and tables is not here: no mask spans it.
SEPARATORS = bytes([*range(33), 127]) + rb"-._:+/=\\"
LOWER = bytes(range(256)).lower()
SEPARATED = re.compile("[" + re.escape(SEPARATORS.decode()) + "]+")
WIDE = re.compile("[^\x00-\x7f]")
# An escaped character. All backslashes before it belong to it, so that masked JSON is still JSON.
SPELT = re.compile(
    r"\\(?<!\\\\)\\*(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([nrtbfv])|)"
    r"|%(?:25){0,9}([0-9a-fA-F]{2})"
    r"|&(?:amp;){0,9}(#[xX]?[0-9a-fA-F]{1,8};?|[a-zA-Z][a-zA-Z0-9]{1,30};)"
)

BLANKS = ("n", "r", "t", "b", "f", "v")

# Well-known forms of keys. Not used for ordinary texts, which may contain such words.
KNOWN_SHAPE = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|pk|rk|xai|nvapi|pplx|fw|key)-|(?:sk|hf|gsk|r8|ghp|gho|csk|tgp)_|github_pat_|AIza|eyJ)"
    r"(?=[\w+/=~.-]*\d)[\w+/=~.-]{12,}"
)
SCHEME = re.compile(r"(?i)\b(?:bearer|basic|token)[ :=]+([^\s'\"]{8,})")
IN_URL = re.compile(
    r"(?i)://[^/\s@]*?:([^/\s@]{8,})@|[?&][\w-]*(?:key|token|secret|password|sig)[\w-]*=([^&\s#'\"]{8,})"
)
NAMED = re.compile(
    r"(?i)(?:^|[-_.])(?:api_?key|key|token|secret|passw(?:or)?d|auth(?:orization)?|header)s?(?:[-_.]env)?$"
)
FILE_NAME = re.compile(r"(?i)[^/]+\.(csv|tsv|jsonl?|parquet|xlsx|html?|sqlite|ya?ml|md|xml|gz)")
VARIABLE = re.compile(r"[A-Z]{1,15}[0-9]{0,4}(?:_[A-Z0-9]{1,15})*")


class _Pattern:
    """A key or an encoding of it, in lower case without separators. A run of `least` characters of it is a hit."""

    def __init__(self, text: bytes, least: int):
        self.text = text.translate(LOWER, SEPARATORS).decode()
        self.least = min(least, len(self.text))
        stride = self.least - ANCHOR + 1
        self.anchors = {self.text[at : at + ANCHOR]: at for at in range(0, len(self.text) - ANCHOR + 1, stride)}

    def run(self, seen: str, at: int, anchor: str) -> tuple[int, int]:
        """Return start and end of the longest match around an anchor that was found in the text."""
        here = self.anchors[anchor]
        before = after = 0
        while before < min(at, here) and seen[at - before - 1] == self.text[here - before - 1]:
            before += 1
        while after < min(len(seen) - at, len(self.text) - here) and seen[at + after] == self.text[here + after]:
            after += 1
        return at - before, at + after


_hidden: set[str] = set()
_exact: list[str] = []  # keys too short to be recognised in other forms
_patterns: list[_Pattern] = []
_anchors: list[bytes] = []


def hide(value: str) -> None:
    """Remove this value from every text that is scrubbed from now on. Values under 8 characters are ignored."""
    if value in _hidden or len(value) < SHORTEST:
        return
    _hidden.add(value)
    for form in {value, *_layers(value)}:
        text = form.encode("ascii", "ignore")
        letters = text.translate(None, SEPARATORS)
        if len(letters) >= RUN:  # letters alone must match as a whole: texts contain such words
            _patterns.append(_Pattern(text, len(letters) if letters.isalpha() else RUN))
        elif len(text) >= SHORTEST:
            _exact.append(text.decode())
    raw = value.encode()
    _patterns.append(_Pattern(raw.hex().encode(), RUN_HEX))
    for offset in range(3):  # only the characters that do not depend on the text around the key
        coded = b64encode(bytes(offset) + raw)
        _patterns.append(_Pattern(coded[(8 * offset + 5) // 6 : 8 * (offset + len(raw)) // 6], RUN_BASE64))
    _anchors[:] = dict.fromkeys(anchor.encode() for pattern in _patterns for anchor in pattern.anchors)


def hide_header(value: str) -> None:
    """Hide the value of a header, the part after its scheme, and the password if the scheme is Basic."""
    hide(value)
    scheme, _, credentials = value.partition(" ")
    hide(credentials.strip())
    if scheme.lower() == "basic":
        with suppress(ValueError):
            hide(b64decode(credentials.strip()).decode().partition(":")[2])


def hide_secret_header(name: str, value: str) -> None:
    """Hide the value of a header that its name or its form calls a secret. Others, such as a team's name, stay."""
    if NAMED.search(name) or _is_random(value):
        hide_header(value)


def hide_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Hide the values of variables named ..._KEY, ..._TOKEN, ..._SECRET or ..._PASSWORD that look random."""
    for name, value in environment.items():
        if NAMED.search(name) and _is_random(value.strip()):
            hide(value.strip())


def hide_words(words: Sequence[str]) -> None:
    """Hide what looks like a key in the words of a command, because usage errors and settings files repeat them.

    Names of files are not hidden: systems and rows may be named after them.
    """
    for before, word in zip(["", *words], words, strict=False):
        name, _, value = word.partition("=") if "=" in word else (before, "", word)
        if os.path.exists(word) or os.path.exists(value):
            continue
        for found in looks_like_keys(word):
            if not FILE_NAME.fullmatch(found):
                hide(found)
        if NAMED.search(name) and _is_random(value) and not is_variable(value):
            hide(value)


def looks_like_keys(text: str) -> Iterator[str]:
    """Yield the parts of a text that look like a known kind of key, follow `Bearer`, or are secrets in a URL."""
    yield from KNOWN_SHAPE.findall(text)
    yield from SCHEME.findall(text)
    yield from filter(None, (part for parts in IN_URL.findall(text) for part in parts))


def without_keys(text: str) -> str:
    """Return a foreign package's error message with keys masked. Keys that only it knows are found by their form."""
    hide_environment()
    for value in looks_like_keys(text):
        text = text.replace(value, MASK)
    return scrub(text)


def environment_for_others() -> dict[str, str]:
    """Return the environment for a foreign program that needs no key: without the variables that hold one."""
    hide_environment()
    return {name: value for name, value in os.environ.items() if scrub(value) == value}


def is_variable(name: str) -> bool:
    """Whether this can only be the NAME of an environment variable: capitals, in words of at most 15 letters."""
    return VARIABLE.fullmatch(name) is not None


def _is_random(value: str) -> bool:
    return len(value) >= 16 and " " not in value and bool(re.search(r"[0-9]", value) and re.search("[A-Za-z]", value))


def scrub(text: str) -> str:
    """Return the text with "[key]" in place of every hidden value, and of every piece of one from 15 characters on.

    Values are found in any case, with separators or zero-width characters inside, in full-width forms, in base64 (also
    within a longer text), in hex, and in escapes of JSON, Python, HTML and URLs. A value with fewer than 15 letters and
    digits is found unchanged, in base64, hex and escapes only. Takes linear time.

    >>> hide("sesame-4711-open")
    >>> scrub("Bearer sesame-4711-open")
    'Bearer [key]'
    """
    if not _hidden or len(text) < SHORTEST or not _stands_in(text):
        return text
    kept, end = [], 0
    for start, until in _places(text):
        if start >= end:
            kept += [text[end:start], MASK]
        end = max(end, until)
    return "".join([*kept, text[end:]])


def _stands_in(text: str) -> bool:
    """Whether a text may contain a hidden value. The test is quick, and never wrongly False."""
    for layer in _layers(text):
        plain = (layer if layer.isascii() else unicodedata.normalize("NFKD", layer)).encode("ascii", "ignore")
        if any(value.encode() in plain for value in _exact):
            return True
        loose = plain.translate(LOWER, SEPARATORS)
        if any(anchor in loose for anchor in _anchors):
            return True
    return False


def _layers(text: str) -> Iterator[str]:
    """Yield the text with its escapes resolved, once for each level of nested escapes."""
    first, *others = text.split("\\")
    if not ("%" in text or "&" in text or any(part[:1] in ("u", "x", "U") for part in others)):
        # most texts: the same result without a regular expression, which is faster
        yield "".join([first, *(f" {part[1:]}" if part[:1] in BLANKS else part for part in others)])
        return
    for layer in range(LAYERS):
        text, count = SPELT.subn(_character, text)
        if count or not layer:
            yield text
        if not count:
            return


def _character(match: re.Match[str]) -> str:
    braced, four, eight, two, blank, percent, entity = match.groups()
    if entity:
        return html.unescape(f"&{entity}")
    if blank:
        return " "
    code = int(braced or four or eight or two or percent or "0", 16)
    return chr(code) if 0 < code < 0x110000 else ""


def _ascii(match: re.Match[str]) -> str:
    return unicodedata.normalize("NFKD", match[0]).encode("ascii", "ignore").decode()


def _places(text: str) -> list[tuple[int, int]]:
    """Return start and end of each hidden value in a text, in order."""
    found = []
    read: list[_Rewritten] = []
    for _ in range(LAYERS):
        before = text
        read.append(_Rewritten(text, SPELT, _character))
        text = read[-1].text
        plain = _Rewritten(text, WIDE, _ascii)
        loose = _Rewritten(plain.text, SEPARATED, lambda match: "")
        hits = [(place, [plain, *reversed(read)]) for place in _exact_places(plain.text)]
        hits += [(place, [loose, plain, *reversed(read)]) for place in _loose_places(loose.text.lower())]
        found += [reduce(lambda place, step: step.origin(*place), steps, place) for place, steps in hits]
        if text == before:
            break
    return sorted(found)


def _exact_places(plain: str) -> Iterator[tuple[int, int]]:
    for value in _exact:
        at = plain.find(value)
        while at >= 0:
            yield at, at + len(value)
            at = plain.find(value, at + len(value))


def _loose_places(loose: str) -> Iterator[tuple[int, int]]:
    by_anchor: dict[str, list[_Pattern]] = {}
    for pattern in _patterns:
        for anchor in pattern.anchors:
            by_anchor.setdefault(anchor, []).append(pattern)
    search = re.compile("|".join(map(re.escape, by_anchor))).search
    match = search(loose)
    while match is not None:
        runs = [(pattern.run(loose, match.start(), match[0]), pattern.least) for pattern in by_anchor[match[0]]]
        hits = [(start, end) for (start, end), least in runs if end - start >= least]
        yield from hits
        match = search(loose, max([match.start() + 1, *(end for _, end in hits)]))


class _Rewritten:
    """The result of `pattern.sub` on a text. It knows where in the text each of its parts was."""

    def __init__(self, text: str, pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str]):
        self._at, self._start, self._end = array("q"), array("q"), array("q")  # of parts, unchanged or replaced
        self._length = end = 0
        parts = []
        for match in pattern.finditer(text):
            start = match.start()
            if start > end:
                parts.append(text[end:start])
                self._note(start - end, end, start)
            if new := replace(match):
                parts.append(new)
                self._note(len(new), start, match.end())
            end = match.end()
        self._note(len(text) - end, end, len(text))
        self.text = "".join([*parts, text[end:]])

    def _note(self, length: int, start: int, end: int) -> None:
        self._at.append(self._length)
        self._start.append(start)
        self._end.append(end)
        self._length += length

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return start and end, in the original text, of a part of the result. An escape is never divided."""
        return self._source(start)[0], self._source(end - 1)[1]

    def _source(self, place: int) -> tuple[int, int]:
        number = bisect_right(self._at, place) - 1
        at, start, end = self._at[number], self._start[number], self._end[number]
        after = self._at[number + 1] if number + 1 < len(self._at) else self._length
        if after - at == end - start:  # unchanged
            return start + place - at, start + place - at + 1
        return start, end
