"""Text that others wrote: on one line, visible or not, and fit for an encoding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import category

LINE_READ = 10_000  # characters of a foreign text that are looked at
# Ends of sentences in Chinese, Japanese, Arabic, Urdu and Hindi; no space need follow them.
OTHER_ENDS = "。！？｡؟۔।॥"
# what Unicode's categories do not tell: fillers, the blank of Braille, marks that choose how a character looks
_UNSEEN = {*map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x180F, *range(0x180B, 0x180E)))}
_UNSEEN |= {*map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))}


def one_line(text: str) -> str:
    """Foreign text as a status may quote it and a terminal may get it: on one line, at most 300 characters.

    A space stands for all that does not print: controls, marks of writing direction, halves of characters.
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text[:LINE_READ]).split())[:300]


def is_blank(value: str | Sequence[str] | None) -> bool:
    """Whether nobody sees anything in it: None, no text but spaces and invisible characters, or a list of such."""
    if isinstance(value, str):
        return all(c.isspace() or category(c) in ("Cc", "Cf", "Zl", "Zp", "Zs") or c in _UNSEEN for c in value)
    return value is None or all(map(is_blank, value))


def without_surrogates(text: str) -> str:
    """Lone surrogates (half an emoji, from a broken cut) exist in JSON but in no encoding a model can read."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)
