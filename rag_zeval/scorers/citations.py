"""Support by citations, after open-rag-eval 0.3.0 (its metrics/citation_metric.py and rag_results_loader.py).

An answer cites its chunks as [n], counted from 1. A part is the text up to a block of citations, with the numbers in
that block. The text after the last block is a part that cites nothing. Each citation of a part is judged by itself. All
values are in [0, 1].

Known differences:

- The prompt is in our words.
- A citation of a chunk that does not exist supports nothing. The original leaves it out, and also a part that cites
  nothing else. So an invented source costs nothing there.
- "[1] [2]" and "[1]; [2]" are one block. The original loses the second citation because of the space, and takes the
  semicolon for a statement.
- Punctuation after the last block is no part. In the original, two characters are enough for a part.
- A number of more than three digits is a year, not a citation. A number counts once in a part.
- An answer without citations has no precision. The original's is 0.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import harmonic_mean
from typing import Any

from rag_zeval.judge.example import Example
from rag_zeval.replies.values import one_of
from rag_zeval.scorers.asking import Found, Judge, Measure, ScorerPrompt, together
from rag_zeval.scorers.score import Failed

CITATION = ScorerPrompt("citation_support")
SUPPORT = {"full_support": 1.0, "partial_support": 0.5, "no_support": 0.0}
_MARK = r"\[[0-9]{1,3}(?:\s*,\s*[0-9]{1,3})*\]"  # [1] or [1, 2]
_BLOCK = re.compile(rf"({_MARK}(?:[\s,;]*{_MARK})*)")
SupportByNumber = Sequence[tuple[int, float]]  # for one part: each cited number, and the support by that chunk


@dataclass(frozen=True)
class CitingText:
    """A part of an answer, and the distinct numbers of chunks that it cites."""

    text: str
    cited: tuple[int, ...]


def parts_of(answer: str) -> list[CitingText]:
    """Return an answer's parts in order. Text without a letter or digit, such as a full stop, is no part."""
    pieces = _BLOCK.split(answer)  # text, block, text, ..., text
    return [
        CitingText(text.strip(), tuple(dict.fromkeys(map(int, re.findall("[0-9]+", block)))))
        for text, block in zip(pieces[::2], [*pieces[1::2], ""], strict=True)
        if re.search(r"\w", text)
    ]


async def _support(judge: Judge, statement: str, number: int, chunks: Sequence[str]) -> float:
    """Return how far chunk `number` supports the statement, in [0, 1] (1 call; 0 and no call if it does not exist)."""
    if not 1 <= number <= len(chunks):
        return 0.0

    def read(value: Any) -> float:
        return SUPPORT[one_of(value["support"], (*SUPPORT,))]

    return await judge.ask(CITATION, read, statement=statement, passage=chunks[number - 1])


def precision(parts: Sequence[SupportByNumber]) -> float:
    """Return the mean over the cited numbers of the mean support by each. Raises Failed if nothing is cited."""
    by_number: dict[int, list[float]] = {}
    for number, support in (pair for part in parts for pair in part):
        by_number.setdefault(number, []).append(support)
    if not by_number:
        raise Failed("no citations in the answer")
    return sum(sum(each) / len(each) for each in by_number.values()) / len(by_number)


def recall(parts: Sequence[SupportByNumber]) -> float:
    """Return the mean over the parts of each part's mean support, which is 0 for a part that cites nothing."""
    return sum(sum(support for _, support in part) / len(part) for part in parts if part) / len(parts)


def f1(parts: Sequence[SupportByNumber]) -> float:
    """Return the harmonic mean of precision and recall; 0 if one is 0. Raises Failed if nothing is cited."""
    return harmonic_mean((precision(parts), recall(parts)))


def _measure(value: Callable[[Sequence[SupportByNumber]], float]) -> Measure:
    async def steps(judge: Judge, example: Example, answer: str) -> Found:
        parts = parts_of(answer)
        if not parts:
            raise Failed("no text in the answer")
        judged = await together(
            *(together(*(_support(judge, part.text, n, example.chunks) for n in part.cited)) for part in parts)
        )
        supports = [list(zip(part.cited, found, strict=True)) for part, found in zip(parts, judged, strict=True)]
        shown = [{"text": part.text, "support": pairs} for part, pairs in zip(parts, supports, strict=True)]
        return Found(value(supports), {"parts": shown})

    only = ("answers that cite chunks", _cites)
    return Measure(f"citation_{value.__name__}", steps, (CITATION,), ("answer", "chunks"), only=only)


def _cites(example: Example) -> bool:
    return any(part.cited for answer in example.answers for part in parts_of(answer))


MEASURES = (_measure(precision), _measure(recall), _measure(f1))
