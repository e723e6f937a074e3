"""Splits a text into sentences with nltk's Punkt, without its trained model.

The model would be a download, and for one language only. Without it, Punkt knows only the abbreviations named here, and
decides by full stops and what follows them. So it may split after a rarer abbreviation, where the English model of
nltk's `sent_tokenize` would not. Punkt does not know the full stops and question marks of other scripts. We search for
them in its sentences.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from rag_zeval.errors import needed
from rag_zeval.text import OTHER_ENDS

ABBREVIATIONS = ("dr", "e.g", "i.e", "mr", "mrs", "ms", "prof", "st", "vs")
# Full stops that end no sentence: in German abbreviations and dates, and in the Arabic "Dr". They are not in
# ABBREVIATIONS, whose case does not matter: with "ca" there, "in Fresno, CA." would not end a sentence.
_NO_END = re.compile(
    r"\b(?:[Bb]zw|[Cc]a|Chr|d\.h|[Ee]vtl|geb|[Gg]est|[Ii]nkl|Jh|Mio|Mrd|Nr|sog|u\.a|[Vv]gl|[Zz]\.B|د)\.(?=\s)"
    r"|\b\d{1,2}\.(?=\s+(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
    r"|Jahrhundert|Jh\.))"
)
_PART = re.compile(rf".+?(?:[{OTHER_ENDS}][{OTHER_ENDS}.!?]*(?:[”’»」』)）】》]|[\"'](?!\S))*|\Z)", re.DOTALL)
_LIST_MARK = re.compile(r"\d+[.)]?")


def sentences_of(text: str) -> list[str]:
    """Return the sentences in order, without the marks of a numbered list ("2." before its item)."""
    found = _with_marks(text)
    return [one for one in found[:-1] if not _LIST_MARK.fullmatch(one)] + found[-1:]  # a number at the end is kept


def _with_marks(text: str) -> list[str]:
    """Return the sentences in order. A number such as "2." may be one: the mark of a list, or an answer."""
    text = text.strip()
    spans = _tokenizer().span_tokenize(_NO_END.sub(lambda kept: kept[0].replace(".", "_"), text))
    parts = (part.strip() for start, end in spans for part in _PART.findall(text[start:end]))
    return [part for part in parts if part]


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each sentence in a text. Between two sentences there is at most white space."""
    for start, end in _tokenizer().span_tokenize(text):
        yield from (part.span() for part in _PART.finditer(text, start, end))


def pieces(document: str, fits: Callable[[str], bool]) -> list[str]:
    """Cut a document at sentence ends, so that each piece fits a model's window. Nothing is left out.

    Returns the whole document if it fits, and otherwise the fewest runs of its sentences that fit, in order. A sentence
    that does not fit even alone is a piece of its own. fits: if it accepts a text, it must accept every shorter one.
    """
    if fits(document):
        return [document]
    sentences = _with_marks(document) or [document]
    found, start = [], 0
    while start < len(sentences):
        end, last = start + 1, len(sentences)
        while end < last:
            middle = (end + last + 1) // 2
            if fits(" ".join(sentences[start:middle])):
                end = middle
            else:
                last = middle - 1
        found.append(" ".join(sentences[start:end]))
        start = end
    return found


@cache
def _tokenizer() -> Any:
    with needed("nltk", "splitting into sentences"):
        from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    known = PunktParameters()
    known.abbrev_types.update(ABBREVIATIONS)
    return PunktSentenceTokenizer(known)
