"""Finds a judge's quotes in a reference, all in one pass."""

from __future__ import annotations

import itertools
import sys
from array import array
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from rag_zeval.judge.evidence import ReferenceIndex
from rag_zeval.judge.words import WORD, composed, words

NOWHERE = sys.maxsize
SEARCHED = 200_000  # most characters of quotes that are searched; a reply of 16,384 tokens has fewer


@dataclass(frozen=True)
class Quoted:
    """A reference, and where its quotes are.

    verbatim: for each quote, the longest run of its words that is in the reference / words of the quote, in [0, 1].
    This is the measure of the evidence reward, but on words and without a minimum length. None for quotes that were not
    searched.
    first: for each quote that occurs word for word, the first place, as (start, end) in characters.
    starts, ends: all such places of all quotes, in order; places that overlap or touch are merged.
    """

    reference: str
    verbatim: dict[str, float | None]
    first: dict[str, tuple[int, int]]
    starts: array[int]
    ends: array[int]

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """Yield the reference in pieces `(text, is_quoted)`, none of them empty."""
        at = 0
        for start, end in zip(self.starts, self.ends, strict=True):
            if at < start:
                yield self.reference[at:start], False
            yield self.reference[start:end], True
            at = end
        if at < len(self.reference):
            yield self.reference[at:], False


def find_quotes(reference: str, quotes: Iterable[str]) -> Quoted:
    """Find quotes in a reference, word by word. Takes linear time.

    Spaces do not matter, nor do different Unicode codings of the same characters. Every visible difference does: case,
    punctuation, full-width forms, Arabic vowel signs and elongation. At most SEARCHED characters of quotes are searched
    in all, because a server may send any length.
    """
    found = Quoted(reference, dict.fromkeys(quotes), {}, array("q"), array("q"))
    wanted: dict[str, tuple[str, ...]] = {}
    room = SEARCHED
    for text in found.verbatim:
        if len(text) <= room:
            room -= len(text)
            wanted[text] = tuple(words(text))
    found.verbatim.update(dict.fromkeys(wanted, 0.0))
    distinct = dict.fromkeys(filter(None, wanted.values()))
    if not distinct:
        return found
    # The automaton is built from the quotes, because the reference may be long. A number follows each quote. No word
    # equals it, so no run crosses from one quote into the next.
    joined: Iterable[Hashable] = (token for at, quote in enumerate(distinct) for token in (*quote, at))
    index = ReferenceIndex(joined)
    link, length = index.link, index.length
    paths = {quote: [state for state, _ in index.follow(quote)] for quote in distinct}
    short_first = sorted(range(len(link)), key=length.__getitem__)[1:]

    own = [0] * len(link)  # words of the quote that ends in a state
    for quote, path in paths.items():
        own[path[-1]] = len(quote)
    inherited = [0] * len(link)  # words of the longest quote that is a proper suffix of a state's runs
    for state in short_first:
        inherited[state] = own[link[state]] or inherited[link[state]]

    reached = [0] * len(link)  # words of the longest run of the reference that reached a state
    first = [NOWHERE] * len(link)  # the reference's word that first reached a state (of a quote: with the whole quote)
    begins, finishes = array("q"), array("q")  # characters where the reference's words begin and end
    starts, ends = found.starts, found.ends
    places, texts = itertools.tee(WORD.finditer(reference))
    found_runs = index.follow(composed(text.group()) for text in texts)
    for at, (place, (state, run)) in enumerate(zip(places, found_runs, strict=True)):
        begins.append(place.start())
        finishes.append(place.end())
        if run > reached[state]:
            reached[state] = run
        complete = state if own[state] <= run else link[state]
        if first[complete] == NOWHERE:
            first[complete] = at
        if whole := own[state] if 0 < own[state] <= run else inherited[state]:
            start = begins[-whole]
            while ends and ends[-1] >= start:
                ends.pop()
                start = min(start, starts.pop())
            starts.append(start)
            ends.append(place.end())

    for state in reversed(short_first):  # a run that ends in a state also ends in the state's link
        if reached[state]:
            reached[link[state]] = length[link[state]]
        first[link[state]] = min(first[link[state]], first[state])
    for state in short_first:
        reached[state] = reached[state] or reached[link[state]]
    runs = {quote: max(min(at, reached[state]) for at, state in enumerate(path, 1)) for quote, path in paths.items()}
    for text, quote in wanted.items():
        if quote:
            found.verbatim[text] = runs[quote] / len(quote)
            if (last := first[paths[quote][-1]]) != NOWHERE:
                found.first[text] = begins[last - len(quote) + 1], finishes[last]
    return found
