"""A text's sentences, by nltk's Punkt without its trained model: that would be a download, and of one language.

Untrained it knows only the abbreviations named here, and goes by full stops and what follows them. So it may split
after a rarer abbreviation, where the English model of nltk's `sent_tokenize` would not. It does not know the full stops
and question marks of other scripts; they are looked for in what it gives.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from rag_zeval.errors import needed
from rag_zeval.text import OTHER_ENDS

ABBREVIATIONS = ("dr", "e.g", "i.e", "mr", "mrs", "ms", "prof", "st", "vs")
# Full stops that end nothing: of German abbreviations and dates, and of the Arabic "Dr". They are no ABBREVIATIONS,
# which are known in any case: "ca" there would join what follows "in Fresno, CA." to it.
_NO_END = re.compile(
    r"\b(?:[Bb]zw|[Cc]a|Chr|d\.h|[Ee]vtl|geb|[Gg]est|[Ii]nkl|Jh|Mio|Mrd|Nr|sog|u\.a|[Vv]gl|[Zz]\.B|د)\.(?=\s)"
    r"|\b\d{1,2}\.(?=\s+(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
    r"|Jahrhundert|Jh\.))"
)
_PART = re.compile(rf".+?(?:[{OTHER_ENDS}][{OTHER_ENDS}.!?]*(?:[”’»」』)）】》]|[\"'](?!\S))*|\Z)", re.DOTALL)
_LIST_MARK = re.compile(r"\d+[.)]?")
_CJK_END = re.compile(r"[。！？][。！？」』”’）]*")  # behind it stands no space


def sentences_of(text: str) -> list[str]:
    """The sentences in their order, without the marks of a numbered list ("2." before its item)."""
    text = text.strip()
    spans = _tokenizer().span_tokenize(_NO_END.sub(lambda kept: kept[0].replace(".", "_"), text))
    parts = (part.strip() for start, end in spans for part in _PART.findall(text[start:end]))
    found = [part for part in parts if part]
    return [one for one in found[:-1] if not _LIST_MARK.fullmatch(one)] + found[-1:]  # a number at the end is no mark


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """From where to where each sentence stands in a text; between two of them there is at most white space."""
    for start, end in _tokenizer().span_tokenize(text):
        cuts = [stop.end() for stop in _CJK_END.finditer(text, start, end) if stop.end() < end]
        yield from pairwise([start, *cuts, end])


def pieces(document: str, fits: Callable[[str], bool]) -> list[str]:
    """A document cut at sentence ends for a model with a window: never silently, and never within a sentence.

    The document whole, or where it does not fit, the fewest runs of its sentences that do, in their order. A sentence
    that alone does not fit is a piece. What fits must still fit when it is shorter.
    """
    if fits(document):
        return [document]
    sentences = sentences_of(document) or [document]
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
