"""Which characters of an answer a judge calls unsupported, found from its claims.

A judge writes its claims in its own words. A claim belongs to the sentence of the answer with which it shares most
content words; one that shares none belongs to no sentence. A word of a sentence is unsupported if it is in one of the
sentence's unsupported claims and in none of its supported ones. If there is no such word, all words in its unsupported
claims are unsupported. Function words and marks between two unsupported words belong to them.
"""

from collections.abc import Iterable, Sequence

from rag_zeval.judge.words import WORD
from rag_zeval.scorers.sentences import sentence_spans
from rag_zeval.scorers.word_rule import content_words

Spans = tuple[tuple[int, int], ...]  # (start, end) in characters of a text; the end is exclusive
Claim = tuple[str, bool]  # its text, and whether it is supported


def unsupported_spans(answer: str, claims: Sequence[Claim]) -> Spans:
    """Return the characters of an answer that its claims call unsupported.

    The spans are in order, and none touches another.
    """
    sentences = [(start, end, content_words(answer[start:end])) for start, end in sentence_spans(answer)]
    of_sentence: dict[int, tuple[set[str], set[str]]] = {}  # words of its supported claims, and of the others
    for text, supported in claims:
        words = content_words(text)
        shared, place = max(((len(words.keys() & own), -at) for at, (*_, own) in enumerate(sentences)), default=(0, 0))
        if shared:
            of_sentence.setdefault(-place, (set(), set()))[not supported].update(words)
    spans: list[tuple[int, int]] = []
    for at, (held, doubted) in sorted(of_sentence.items()):
        start, end, own = sentences[at]
        if marked := (own.keys() & doubted - held) or (own.keys() & doubted):
            spans += ((start + first, start + last) for first, last in _runs(answer[start:end], marked))
    return tuple(spans)


def _runs(sentence: str, marked: Iterable[str]) -> list[tuple[int, int]]:
    """Return the spans of marked words in a row, with the function words and marks between them."""
    marked, runs, ended = set(marked), [], True
    for word in WORD.finditer(sentence):
        key = next(iter(content_words(word[0])), None)
        if key in marked:
            if ended:
                runs.append(word.span())
            else:
                runs[-1] = (runs[-1][0], word.end())
            ended = False
        elif key is not None:
            ended = True
    return runs


def overlap(found: Spans, there: Spans) -> tuple[int, int, int]:
    """Return how many characters are in both, in `found`, and in `there`. Each counts once."""
    first, second = ({at for start, end in spans for at in range(start, end)} for spans in (found, there))
    return len(first & second), len(first), len(second)
