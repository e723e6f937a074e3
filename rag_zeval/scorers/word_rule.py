"""Rules that judge by words alone, without a model.

They write whole trajectories. So they can teach a small model before reinforcement learning (`make cold-start`), and
they are the baseline that such a model has to beat.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import ClassVar

from rag_zeval.judge.example import Example
from rag_zeval.judge.schema import LETTERS, AtomicClaim, CandidateEvaluation, Trajectory
from rag_zeval.judge.scoring import support_scores
from rag_zeval.judge.words import words
from rag_zeval.scorers.score import AnswerScorer, Failed
from rag_zeval.scorers.sentences import sentences_of

NAMED = 8  # most words that an analysis names
STRICTNESS = (0.5, 0.75, 0.25)  # least shares of a claim's new words that support it; the first is the usual one
CLAIM_WORDS = 3  # least content words of a claim; shorter clauses are not cut off
_LOOP = re.compile(r"(.{3,100}?)\1{2,}", re.DOTALL)  # three times or more in a row, as small models write
_BETWEEN_CLAUSES = re.compile(r"(?<=[,;:])\s+|\s+(?=(?:and|but|which|who|because|while)\s)")
FUNCTION_WORDS = frozenset(
    "a an the this that these those it its he she his her him they their them i we you who whom whose which what when "
    "where why how and or but not no of in on at to for by with from as into than then there also only so if one first "
    "is are was were be been being has have had do does did can could will would may might called known".split()
)


class WordRule(AnswerScorer):
    """A judge by words alone: a clause is supported if the reference has all, or half, of the words that it adds.

    The words are the content words that a claim adds to the question. The score is supported claims / claims of the
    rule's trajectory, in [0, 1]. An answer without a sentence has no score.
    """

    name = "word_rule"
    needs = ("answer", "reference")
    identity = "word rule 4"
    least: ClassVar[float] = 1  # share of the added words that must be in the reference

    def value(self, example: Example, answer: str) -> float:
        trajectory = judge_by_words(example.question, example.reference, [answer], self.least)
        (score,) = support_scores(trajectory)
        if score is None:
            raise Failed("no sentence")
        return score


class WordMajority(WordRule):
    # half of the words are enough: nearly what the cold start teaches (`train.sft.rows`)
    name = "word_majority"
    identity = "word majority 4"
    least = STRICTNESS[0]


def judge_by_words(question: str, reference: str, answers: Sequence[str], least: float) -> Trajectory:
    """Return the rule's trajectory. The claims are the distinct clauses of an answer's sentences.

    Only the content words that a claim adds to the question count. A claim is supported if the reference has at least
    the share `least`, in (0, 1], of them. Its evidence is the sentence of the reference that has most of them, if any
    has one. A claim that adds no word is not supported.
    """
    sentences = [(sentence, content_words(sentence)) for sentence in _sentences(reference)]
    known, asked = content_words(reference), content_words(question)
    return tuple(
        CandidateEvaluation(
            letter,
            tuple(_judge(claim, sentences, known, asked, least) for claim in dict.fromkeys(_clauses_of(answer))),
        )
        for letter, answer in zip(LETTERS, answers, strict=False)
    )


def is_contested(question: str, reference: str, answers: Sequence[str]) -> bool:
    """Whether the rule ranks these answers differently at different values of STRICTNESS."""
    return len({_order(judge_by_words(question, reference, answers, least)) for least in STRICTNESS}) > 1


def _order(trajectory: Trajectory) -> tuple[int | None, ...]:
    """Return for each pair of answers 1, 0 or -1 if the first has more, equal or less support; None without a score."""
    return tuple(
        None if first is None or second is None else (first > second) - (first < second)
        for first, second in combinations(support_scores(trajectory), 2)
    )


def content_words(text: str) -> dict[str, str]:
    """Map each distinct content word of a text, in lower case, to its first spelling. Function words are left out."""
    found: dict[str, str] = {}
    for word in words(text):
        if re.match(r"\w", word) and word.casefold() not in FUNCTION_WORDS:
            found.setdefault(word.casefold(), word)
    return found


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in sentences_of(text) if re.search(r"\w", sentence)]


def _clauses_of(text: str) -> Iterator[str]:
    for part in _without_loops(text):
        for sentence in _sentences(part):
            yield from _clauses(sentence)


def _without_loops(text: str) -> Iterator[str]:
    """Yield the text in parts, with each passage only once that it repeats three times or more in a row."""
    start, unit = 0, ""
    for loop in _LOOP.finditer(text):
        unit = loop[1]
        yield text[start : loop.end(1)]
        start = loop.end()
    if not unit.startswith(text[start:]):  # else the text was cut off in the loop
        yield text[start:]


def _clauses(sentence: str) -> list[str]:
    """Cut a sentence before its clauses, so that each piece has at least CLAIM_WORDS content words if possible."""
    cuts = [cut.span() for cut in _BETWEEN_CLAUSES.finditer(sentence)]
    clauses, start = [], 0
    for end, after in [*cuts, (len(sentence), len(sentence))]:
        if all(len(content_words(part)) >= CLAIM_WORDS for part in (sentence[start:end], sentence[after:] or sentence)):
            clauses.append(sentence[start:end])
            start = after
    return clauses if start == len(sentence) else [*clauses, sentence[start:]]


def _judge(
    claim: str, sentences: list[tuple[str, dict[str, str]]], known: dict[str, str], asked: dict[str, str], least: float
) -> AtomicClaim:
    words = content_words(claim)
    added = [word for word in words if word not in asked]
    if not added:
        return AtomicClaim(claim, False, (), "The reference does not answer this.")
    told = ", ".join(f"{words[word]} {'yes' if word in known else 'no'}" for word in added[:NAMED])
    share = sum(word in known for word in added) / len(added)
    shared = [
        (len(there.keys() & added), len(there.keys() & words.keys()), -len(there), text) for text, there in sentences
    ]
    *_, nearest = max(shared, default=("",))
    return AtomicClaim(claim, share >= least, (nearest,) if share else (), f"In the reference: {told}.")
