"""A text's sentences, by nltk's Punkt without its trained model: that would be a download.

Untrained it knows only the abbreviations named here, and goes by full stops and what follows them. So it may split
after a rarer abbreviation, where the English model of nltk's `sent_tokenize` would not.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

ABBREVIATIONS = ("dr", "e.g", "i.e", "mr", "mrs", "ms", "prof", "st", "vs")
_LIST_MARK = re.compile(r"\d+[.)]?")


def sentences_of(text: str) -> list[str]:
    """The sentences in their order, without the marks of a numbered list ("2." before its item)."""
    found = [sentence.strip() for sentence in _tokenizer().tokenize(text.strip())]
    return [one for one in found[:-1] if not _LIST_MARK.fullmatch(one)] + found[-1:]  # a number at the end is no mark


@cache
def _tokenizer() -> Any:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    known = PunktParameters()
    known.abbrev_types.update(ABBREVIATIONS)
    return PunktSentenceTokenizer(known)
