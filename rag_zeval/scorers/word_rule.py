"""The judge by words alone: a clause is supported if none of its content words is missing in the reference.

No model is asked. It writes whole trajectories, so it is what a small model can be taught before it is trained by
ranking (`make cold-start`), and the line that such a model has to be better than.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from rag_zeval.judge.evaluator import Example
from rag_zeval.judge.schema import LETTERS, AtomicClaim, CandidateEvaluation, Trajectory
from rag_zeval.judge.scoring import support_scores
from rag_zeval.judge.words import words
from rag_zeval.scorers.score import Score, Scored
from rag_zeval.scorers.sentences import sentences_of

NAMED = 6  # missing words that an analysis names
LEAST_WORDS = 3  # content words of a claim: a shorter clause belongs to the one before it
_BETWEEN_CLAUSES = re.compile(r"(?<=[,;:])\s+|\s+(?=(?:and|but|which|who|because|while)\s)")
FUNCTION_WORDS = frozenset(
    "a an the this that these those it its he she his her him they their them i we you who whom whose which what when "
    "where why how and or but not no of in on at to for by with from as into than then there also only so if one first "
    "is are was were be been being has have had do does did can could will would may might called known".split()
)


class WordRule:
    """Supported claims / claims of the rule's trajectory, in [0, 1]; no score for an answer without a sentence."""

    name = "word_rule"
    identity = "word rule 2"
    group: int | None = None

    def score(self, examples: Iterable[Example]) -> Iterator[Scored]:
        for example in examples:
            scores = support_scores(judge_by_words(example.question, example.reference, example.answers))
            yield Scored(
                example.id,
                tuple(Score(score, "ok" if score is not None else "failed: no sentence") for score in scores),
            )


def judge_by_words(
    question: str, reference: str, answers: Sequence[str], verdict: Callable[[float], bool] = lambda share: share == 1
) -> Trajectory:
    """The rule's trajectory: the clauses of an answer's sentences are its claims.

    Evidence is the sentence of the reference that shares most content words with the claim, if any does. A claim whose
    words all stand in the question says nothing and is not supported. Of any other with evidence, `verdict` decides by
    the share, in [0, 1], of the content words it adds to the question that stand in the reference: the rule wants all.
    """
    passages = [(sentence, content_words(sentence)) for sentence in sentences_of(reference)]
    known, asked = content_words(reference), content_words(question)
    return tuple(
        CandidateEvaluation(letter, tuple(_judge(claim, passages, known, asked, verdict) for claim in _claims(answer)))
        for letter, answer in zip(LETTERS, answers, strict=False)
    )


def content_words(text: str) -> dict[str, None]:
    """The different words of a text that are no function words, in lower case, in their order."""
    return {word: None for word in words(text.casefold()) if re.match(r"\w", word) and word not in FUNCTION_WORDS}


def _claims(answer: str) -> Iterator[str]:
    for sentence in sentences_of(answer):
        if re.search(r"\w", sentence):
            yield from _clauses(sentence)


def _clauses(sentence: str) -> list[str]:
    """The sentence cut before clauses, none of the pieces with fewer than LEAST_WORDS content words if it can be."""
    cuts = [cut.span() for cut in _BETWEEN_CLAUSES.finditer(sentence)]
    clauses, start = [], 0
    for end, after in [*cuts, (len(sentence), len(sentence))]:
        if all(len(content_words(part)) >= LEAST_WORDS for part in (sentence[start:end], sentence[after:] or sentence)):
            clauses.append(sentence[start:end])
            start = after
    return clauses if start == len(sentence) else [*clauses, sentence[start:]]


def _judge(
    claim: str,
    passages: Sequence[tuple[str, dict[str, None]]],
    known: dict[str, None],
    asked: dict[str, None],
    verdict: Callable[[float], bool],
) -> AtomicClaim:
    words = content_words(claim)
    added = [word for word in words if word not in asked]
    if not added:
        return AtomicClaim(claim, False, (), "The reference does not answer this.")
    missing = [word for word in added if word not in known]
    shared = [(len(words.keys() & there.keys()), -len(there), sentence) for sentence, there in passages]
    most, _, nearest = max(shared, default=(0, 0, ""))
    supported = most > 0 and verdict(1 - len(missing) / len(added))
    analysis = f"Not in the reference: {', '.join(missing[:NAMED])}." if missing else "All of it is in the reference."
    return AtomicClaim(claim, supported, (nearest,) if most else (), analysis)
