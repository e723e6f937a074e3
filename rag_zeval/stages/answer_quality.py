"""Answers that a judge should not be shown: those no honest judge can rank, and those with nothing to judge.

One definition, for what `synthesize` reports and for what `train` leaves out. And whether an answer has a gold answer
in it, as the evaluation of open-domain question answering has it.
"""

import re
import string
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

from rag_zeval.judge.evidence import ReferenceIndex
from rag_zeval.judge.scoring import same_words

GRAM = 4
# Why an answer is flagged, or two answers together. Of several reasons the first in this order counts.
Reason = Literal["empty", "identical", "near_identical", "repetition", "passage", "unfinished"]
REASONS: tuple[Reason, ...] = get_args(Reason)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))
Flags = dict[tuple[float, ...], Reason]  # (alpha,) of an answer, or (larger, smaller alpha) of two


@dataclass(frozen=True)
class AnswerFilter:
    """What is flagged, beside empty answers. A number is the value from which on a measure flags, in (0, 1]."""

    identical: bool = True
    near_identical: float | None = None
    repetition: float | None = None
    passage: float | None = None
    unfinished: bool = False


def similarity(first: str, second: str) -> float:
    """How much of two answers is the same words in the same order, in [0, 1]; 1 exactly if all of it is.

    ROUGE-L's F1 (Lin 2004) on the words as they stand: 2 x longest common subsequence / words of both.
    """
    words, others = first.split(), second.split()
    total = len(words) + len(others)
    return 2 * common_subsequence(words, others) / total if total else 1.0


def common_subsequence(words: Sequence[str], others: Sequence[str]) -> int:
    """Length of the longest common subsequence, a row of the table in one number (Hyyrö 2004).

    rouge-score fills the table cell by cell, some 90 times slower on 180 words; difflib is cubic on text that loops,
    which is what the lowest alphas give.
    """
    places: dict[str, int] = {}
    for at, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << at
    everywhere = row = (1 << len(words)) - 1  # a bit is cleared where the subsequence grows by one
    for word in others:
        hits = row & places.get(word, 0)
        row = ((row + hits) | (row - hits)) & everywhere
    return len(words) - row.bit_count()


def repetition(text: str) -> float | None:
    """Share of the text's runs of four words that stood in it before, in [0, 1); None under four words.

    seq-rep-4 of Welleck et al. 2020, on words.
    """
    words = text.split()
    grams = [tuple(words[at : at + GRAM]) for at in range(len(words) - GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else None


def copied_share(answer: str, passage: str) -> float:
    """Share of the passage's words that stand in the answer in one run, in [0, 1]; 1: the answer holds all of it."""
    words = passage.split()
    return ReferenceIndex(answer.split()).longest_common_span(words) / len(words) if words else 0.0


def find_flags(
    answers: Mapping[float, str], passage: str, unfinished: Collection[float], limits: AnswerFilter
) -> Flags:
    """The flagged answers of a question, and its flagged pairs of answers; `unfinished` holds the alphas cut off."""
    ordered = sorted(answers.items(), reverse=True)
    flags: Flags = {}
    for alpha, text in ordered:
        if reason := _flag_answer(text, passage, alpha in unfinished, limits):
            flags[(alpha,)] = reason
    for (larger, first), (smaller, second) in combinations(ordered, 2):
        if reason := _flag_pair(first, second, limits):
            flags[larger, smaller] = reason
    return flags


def _flag_answer(text: str, passage: str, unfinished: bool, limits: AnswerFilter) -> Reason | None:
    if not text.strip():
        return "empty"
    if limits.repetition is not None and (repetition(text) or 0) >= limits.repetition:
        return "repetition"
    if limits.passage is not None and copied_share(text, passage) >= limits.passage:
        return "passage"
    return "unfinished" if limits.unfinished and unfinished else None


def _flag_pair(first: str, second: str, limits: AnswerFilter) -> Reason | None:
    if limits.identical and same_words(first, second):
        return "identical"
    if limits.near_identical is not None and similarity(first, second) >= limits.near_identical:
        return "near_identical"
    return None


def may_be_shown(alphas: Collection[float], flags: Flags) -> bool:
    """Whether none of these answers is flagged, nor any two of them together."""
    return not any(set(flagged) <= set(alphas) for flagged in flags)


def blocking_reason(flags: Flags, alphas: Collection[float], k: int) -> Reason | None:
    """Why no k answers may be shown together: the first of REASONS that, with those before it, leaves none.

    None if some k may be shown. `alphas` are all the question has.
    """
    for last, reason in enumerate(REASONS):
        so_far = {flagged: why for flagged, why in flags.items() if REASONS.index(why) <= last}
        if not any(may_be_shown(chosen, so_far) for chosen in combinations(alphas, k)):
            return reason
    return None


def count_flags(questions: Iterable[Flags]) -> dict[str, dict[str, int]]:
    """`{"0": {"empty": 2}, "0 / -0.5": {"identical": 31}}`: flagged answers by alpha, and pairs of them, by reason."""
    counts: dict[tuple[float, ...], Counter[str]] = {}
    for flags in questions:
        for flagged, reason in flags.items():
            counts.setdefault(flagged, Counter())[reason] += 1
    ordered = sorted(counts, key=lambda flagged: (len(flagged), [-alpha for alpha in flagged]))
    return {" / ".join(f"{alpha:g}" for alpha in at): dict(sorted(counts[at].items())) for at in ordered}


def answer_words(text: str) -> list[str]:
    """Words in lower case, without articles and punctuation (the normalisation of SQuAD's evaluation script).

    A mark becomes a space here, where the script takes it away: "well-known" is two words.
    """
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def contains_answer(text: str, gold_answers: Sequence[str]) -> bool:
    """Whether a text contains one of the gold answers, word for word; a gold answer without words is never found."""
    words = f" {' '.join(answer_words(text))} "
    return any(f" {' '.join(gold)} " in words for gold in map(answer_words, gold_answers) if gold)
