"""Support by citations, after open-rag-eval 0.3.0 (its metrics/citation_metric.py and rag_results_loader.py).

An answer cites its chunks as [n], counted from 1. It is cut into parts: the text up to a block of citations, with the
numbers in it, and the text after the last block, with none. Each citation of a part is judged by itself. All values are
in [0, 1].

Known differences: the prompt is in our words; a citation of a chunk that is not there supports nothing (the
original leaves it out, and a part that cites nothing else with it: an invented source costs nothing); "[1] [2]" and
"[1]; [2]" are one block (the original loses the second for the space, and takes the semicolon for a statement);
punctuation after the last block is no part (two characters are one there); a number of more than three digits is no
citation, but a year; a number counts once in a part; an answer without citations has no precision (the original's
is 0).
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
SupportByNumber = Sequence[tuple[int, float]]  # of a part: the numbers it cites, and the support by each


@dataclass(frozen=True)
class CitingText:
    """A part of an answer, and the distinct numbers of chunks that it cites."""

    text: str
    cited: tuple[int, ...]


def parts_of(answer: str) -> list[CitingText]:
    """An answer's parts in order; what has no letter or digit (a full stop after a citation) is none."""
    pieces = _BLOCK.split(answer)  # text, block, text, ..., text
    return [
        CitingText(text.strip(), tuple(dict.fromkeys(map(int, re.findall("[0-9]+", block)))))
        for text, block in zip(pieces[::2], [*pieces[1::2], ""], strict=True)
        if re.search(r"\w", text)
    ]


async def _support(judge: Judge, statement: str, number: int, chunks: Sequence[str]) -> float:
    """How far chunk `number` supports the statement, in [0, 1] (a call if there is such a chunk)."""
    if not 1 <= number <= len(chunks):
        return 0.0

    def read(value: Any) -> float:
        return SUPPORT[one_of(value["support"], (*SUPPORT,))]

    return await judge.ask(CITATION, read, statement=statement, passage=chunks[number - 1])


def precision(parts: Sequence[SupportByNumber]) -> float:
    """Mean over the cited numbers of the mean support by each. Raises Failed if nothing is cited."""
    by_number: dict[int, list[float]] = {}
    for number, support in (pair for part in parts for pair in part):
        by_number.setdefault(number, []).append(support)
    if not by_number:
        raise Failed("no citations in the answer")
    return sum(sum(each) / len(each) for each in by_number.values()) / len(by_number)


def recall(parts: Sequence[SupportByNumber]) -> float:
    """Mean over the parts of the mean support of each; 0 for one that cites nothing."""
    return sum(sum(support for _, support in part) / len(part) for part in parts if part) / len(parts)


def f1(parts: Sequence[SupportByNumber]) -> float:
    """Harmonic mean of the two; 0 if one is 0. Raises Failed if nothing is cited."""
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
