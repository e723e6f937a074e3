"""A document that does not fit a model, cut at sentence ends: never silently, and never within a sentence."""

from __future__ import annotations

from collections.abc import Callable

from rag_zeval.scorers.sentences import sentences_of


def pieces(document: str, fits: Callable[[str], bool]) -> list[str]:
    """The document whole, or where it does not fit, the fewest runs of its sentences that do, in their order.

    A sentence that alone does not fit is a piece. What fits must still fit when it is shorter.
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
