"""Recognises what models write in place of list items: dots, "and so on", "3 more". Such a list is incomplete."""

import re
from typing import Any

_WORDS = (
    r"(?:and |plus |or )?(?:so (?:on|forth)|(?:\d+ )?(?:more|others?)|etc|etcetera|the (?:rest|others)|rest|remaining|"
    r"remainder|similar(?:ly)?|ditto|likewise|same|omitted|skipped|truncated|continued?|above|usw|und so weiter|等)"
)
_ITEM = re.compile(rf"(?i)\W*(?:{_WORDS}\W*){{0,4}}")
_DOTS = re.compile(r"\W*(?:\.{2,}|…)\W*")
# A comment that may stand for items.
COMMENT = re.compile(rf"(?i)\.\.|…|\d|等|\b{_WORDS}\b")
# The end of a string, at a quote that was not escaped, followed by something in place of items.
WITHIN_STRING = re.compile(
    rf"""(?i)["'](?:[\s,]{{0,20}}(?:\.{{2}}|…|<!--|/\*)|\W{{0,20}}(?=\w){_WORDS}\W{{0,20}}["'])"""
)


def stands_for_others(item: Any) -> bool:
    """Whether a list item stands for omitted ones: dots, such words, or an object with such texts.

    >>> [stands_for_others(item) for item in ("...", "and 3 more", {"claim": "...", "n": 1}, "It goes on and on.", "")]
    [True, True, True, False, False]
    """
    if isinstance(item, dict):
        texts = [text for text in item.values() if isinstance(text, str)]
        return any(map(_DOTS.fullmatch, texts)) or (bool(texts) and not any(map(str.isalnum, "".join(texts))))
    return isinstance(item, str) and item != "" and _ITEM.fullmatch(item) is not None
