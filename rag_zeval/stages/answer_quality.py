"""Finds answers that a judge should not be shown: no honest judge can rank them, or they hold nothing to judge.

`synthesize` reports these answers and `train` leaves them out, both by this definition. The module also checks whether
an answer contains a gold answer, as is usual in open-domain question answering.
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
from rag_zeval.scorers.overlap import common_subsequence

GRAM = 4
# Why an answer, or a pair of answers, is flagged. If there are several reasons, the first in this order counts.
Reason = Literal["empty", "identical", "near_identical", "repetition", "passage", "unfinished"]
REASONS: tuple[Reason, ...] = get_args(Reason)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))
Flags = dict[tuple[float, ...], Reason]  # keys: (alpha,) of an answer, or (larger alpha, smaller alpha) of a pair


@dataclass(frozen=True)
class AnswerFilter:
    """What is flagged besides empty answers. A number, in (0, 1], is the lowest value that is flagged; None is off."""

    identical: bool = True
    near_identical: float | None = None
    repetition: float | None = None
    passage: float | None = None
    unfinished: bool = False


def similarity(first: str, second: str) -> float:
    """Return how similar two answers are, in [0, 1]; 1 exactly if they have the same words in the same order.

    This is ROUGE-L's F1 (Lin 2004) on unchanged words: 2 x longest common subsequence / words of both.
    """
    words, others = first.split(), second.split()
    total = len(words) + len(others)
    return 2 * common_subsequence(words, others) / total if total else 1.0


def repetition(text: str) -> float | None:
    """Return the share of the text's runs of four words that repeat an earlier run, in [0, 1); None under four words.

    This is seq-rep-4 of Welleck et al. 2020, on words.
    """
    words = text.split()
    grams = [tuple(words[at : at + GRAM]) for at in range(len(words) - GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else None


def copied_share(answer: str, passage: str) -> float:
    """Return the share of the passage's words that the answer copies in one run, in [0, 1]; 1 if it copies all."""
    words = passage.split()
    return ReferenceIndex(answer.split()).longest_common_span(words) / len(words) if words else 0.0


def find_flags(
    answers: Mapping[float, str], passage: str, unfinished: Collection[float], limits: AnswerFilter
) -> Flags:
    """Return the flagged answers and pairs of answers of a question.

    answers: by alpha. unfinished: the alphas whose answers were cut off.
    """
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
    """Whether none of the answers with these alphas is flagged, alone or as a pair."""
    return not any(set(flagged) <= set(alphas) for flagged in flags)


def blocking_reason(flags: Flags, alphas: Collection[float], k: int) -> Reason | None:
    """Return why no k answers may be shown together; None if some k may.

    It is the first of REASONS that, together with those before it, excludes every choice of k. alphas: all that the
    question has.
    """
    for last, reason in enumerate(REASONS):
        so_far = {flagged: why for flagged, why in flags.items() if REASONS.index(why) <= last}
        if not any(may_be_shown(chosen, so_far) for chosen in combinations(alphas, k)):
            return reason
    return None


def count_flags(questions: Iterable[Flags]) -> dict[str, dict[str, int]]:
    """Count flagged answers and pairs by alpha and reason: `{"0": {"empty": 2}, "0 / -0.5": {"identical": 31}}`."""
    counts: dict[tuple[float, ...], Counter[str]] = {}
    for flags in questions:
        for flagged, reason in flags.items():
            counts.setdefault(flagged, Counter())[reason] += 1
    ordered = sorted(counts, key=lambda flagged: (len(flagged), [-alpha for alpha in flagged]))
    return {" / ".join(f"{alpha:g}" for alpha in at): dict(sorted(counts[at].items())) for at in ordered}


def answer_words(text: str) -> list[str]:
    """Return the words in lower case, without articles and punctuation, like SQuAD's evaluation script.

    One difference: a punctuation mark becomes a space here, and the script deletes it. So "well-known" is two words.
    """
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def contains_answer(text: str, gold_answers: Sequence[str]) -> bool:
    """Whether a text contains one of the gold answers word for word. A gold answer without words is never found."""
    words = f" {' '.join(answer_words(text))} "
    return any(f" {' '.join(gold)} " in words for gold in map(answer_words, gold_answers) if gold)
