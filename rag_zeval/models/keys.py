"""API keys: read from the environment, and taken out of every text that a server sent before it is kept or printed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from urllib.parse import quote

from rag_zeval.errors import InputError

SHORTEST = 8  # characters; a shorter key stands in honest texts as well
PIECE, STEP = 12, 4  # the length of the pieces that are looked for, and from one's start to the next's
MASK = "[key]"


def read_key(variable: str) -> str | None:
    """The key in an environment variable, without white space around it (a CRLF `.env` leaves some); None if not set.

    Raises InputError, which names the variable and never the value, for what no HTTP header can carry.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"environment variable {variable} is no API key: no HTTP header can carry what it holds")
    return key or None


def key_remover(key: str) -> Callable[[str], str]:
    """A function that puts "[key]" for the key in a text, also where JSON or a URL spells its characters as escapes.

    Of pieces of it at most 11 characters stay. A key under 8 characters is not looked for: it would be found in honest
    texts.
    """
    if len(key) < SHORTEST:
        return lambda text: text
    cut = [key[at : at + PIECE] for at in range(0, len(key) - PIECE + 1, STEP)]
    pieces = list(dict.fromkeys([key, *cut, *(quote(piece, safe="") for piece in cut)]))
    spelt = re.compile("".join(map(_spellings, key)))

    def remove(text: str) -> str:
        if "\\" in text or "%" in text:
            text = spelt.sub(MASK, text)
        for piece in pieces:
            text = text.replace(piece, MASK)
        return text

    return remove


def _spellings(character: str) -> str:
    r"""A character as it is, as \u0041 or \/ (in JSON within JSON, more backslashes), or as %41."""
    code = f"{ord(character):02x}"
    slashes = r"\\{0,8}" if character in '"\\/' else ""
    return rf"(?:{slashes}{re.escape(character)}|\\{{1,8}}(?i:u00{code})|%(?:25){{0,3}}(?i:{code}))"
