"""Cuts documents into chunks of whole paragraphs, or of smaller parts if a paragraph is too long."""

import logging
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from rag_zeval.documents.documents import Document, read_documents
from rag_zeval.judge.words import WORD, words
from rag_zeval.scorers.sentences import sentence_spans

WORDS = 200  # in a chunk at most; punctuation marks and single CJK characters count as words
Span = tuple[int, int]  # start and end in a text
Cut = Callable[[str], Iterator[Span]]  # yields the parts of a text
_BLANK_LINES = re.compile(r"\n\s*\n|\Z")


@dataclass(frozen=True)
class Chunk:
    """A piece of a document. id: the document's name, "#", and the number of the chunk in the document, from 1."""

    id: str
    document: str
    text: str


def read_chunks(paths: Sequence[Path]) -> list[Chunk]:
    """Return the chunks of all documents in these files and folders, with the ids that `rag-zeval questions` uses.

    For each thing that could not be read, a warning of one line is logged.

    Index exactly these chunks in your RAG system, so that its retrieval can be judged by `gold_chunk_ids`:

        for chunk in read_chunks([Path("handbook")]):
            index.add(chunk.id, chunk.text)
    """
    reading = read_documents(paths)
    for line in reading.unread():
        logging.getLogger(__name__).warning(line)
    return [chunk for document in reading.documents for chunk in split_document(document)]


def split_document(document: Document, most: int = WORDS) -> list[Chunk]:
    """Return the document's chunks of at most `most` words (`rag_zeval.judge.words.words`) each.

    Longer paragraphs are cut between sentences, and longer sentences (a table, a log, Thai text) at line ends, spaces
    or words. Every chunk is as long as possible, and between two chunks there is only white space. If you add
    paragraphs at the end of a document, all chunks but the last stay the same, with their ids. If you add text to its
    last paragraph, the chunk before the last may change, too.
    """
    text = document.text
    spans = _together(text, _units(text, most), most)
    texts = [text[start:end].strip() for start, end in spans]
    return [Chunk(f"{document.name}#{number}", document.name, text) for number, text in enumerate(texts, 1)]


def _ends(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    """Yield the start and end of the parts of a text that end with a match. The last part need not."""
    return pairwise(dict.fromkeys([0, *(found.end() for found in pattern.finditer(text)), len(text)]))


_CUTS: Sequence[Cut] = (  # the next one cuts what is still too long
    sentence_spans,
    partial(_ends, re.compile(r"\n")),
    partial(_ends, re.compile(r"\s+")),
    partial(_ends, WORD),
)


def _units(text: str, most: int) -> Iterator[Span]:
    """Yield start and end of the units that are never cut: paragraphs, and the parts of those that are too long."""
    start = 0
    for blank in _BLANK_LINES.finditer(text):
        if text[start : blank.start()].strip():
            yield from _fitting(text, start, blank.start(), most, _CUTS)
        start = blank.end()


def _fitting(text: str, start: int, end: int, most: int, cuts: Sequence[Cut]) -> Iterator[Span]:
    part = text[start:end]
    if not cuts or len(words(part)) <= most:
        yield start, end
    else:
        for first, last in cuts[0](part):
            yield from _fitting(text, start + first, start + last, most, cuts[1:])


def _together(text: str, units: Iterable[Span], most: int) -> Iterator[Span]:
    begin, end, count = None, 0, 0
    for start, stop in units:
        length = len(words(text[start:stop]))
        if begin is not None and count and count + length > most:
            yield begin, end
            begin = None
        if begin is None:
            begin, count = start, 0
        end, count = stop, count + length
    if begin is not None:
        yield begin, end


class ChunkIndex:
    """Finds the chunks that have most in common with a text.

    A chunk's score is the sum of ln(chunks / chunks with the word) over the words that it shares with the text.
    """

    def __init__(self, chunks: Sequence[Chunk]):
        self._chunks = chunks
        self._places: dict[str, list[int]] = defaultdict(list)  # indices of the chunks with a word
        for place, chunk in enumerate(chunks):
            for word in _distinct(chunk.text):
                self._places[word].append(place)

    def nearest(self, text: str, but: Chunk) -> list[Chunk]:
        """Return all chunks but `but`, nearest first. Chunks with the same score keep their order.

        So in a small collection, where each word may be in all chunks, no chunk is overlooked.
        """
        scores: dict[int, float] = defaultdict(float)
        for word in _distinct(text):
            places = self._places.get(word, [])
            for place in places:
                scores[place] += math.log(len(self._chunks) / len(places))
        ranked = sorted(range(len(self._chunks)), key=lambda place: -scores.get(place, 0.0))
        return [self._chunks[place] for place in ranked if self._chunks[place] != but]


def _distinct(text: str) -> Iterable[str]:
    return dict.fromkeys(words(text.casefold()))  # in their order, because sums of floats depend on it
