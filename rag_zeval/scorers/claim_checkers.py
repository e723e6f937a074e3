"""Scorers that use a claim checker: on single claims, on sentences, or on whole answers.

They follow MiniCheck (Tang et al. 2024, arXiv:2404.10774). A reference that does not fit the model is cut into pieces
at sentence ends, and a claim gets the largest support that a piece gives it. Known differences: the pieces fill the
model's window (there they have 400 tokens), nothing is ever cut off, and a probability of exactly 0.5 is support.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import texts_of
from rag_zeval.judge.schema import AtomicClaim, CandidateEvaluation
from rag_zeval.judge.scoring import support_score
from rag_zeval.models.nli import Checker
from rag_zeval.scorers.score import AnswerScorer, Failed, Score, Scored, Scorer
from rag_zeval.scorers.sentences import pieces, sentences_of
from rag_zeval.text import one_line

CHECKER = "a claim checker"
SUPPORTED = 0.5  # the least support of a claim that counts as supported
LONGEST_SOURCES = 8192  # most characters
SOURCES = "chunks or reference"


class Hhem(AnswerScorer):
    """Hallucination score of open-rag-eval 0.3.0: how far the retrieved contexts support the answer as a whole.

    The score is the support by all chunks, in [0, 1] (1: nothing is made up). If there are no chunks, it is the support
    by a reference that the example gives itself. Known differences: the original uses HHEM or Vectara's API, here any
    claim checker will do. The original removes citations such as [1] from the answer. It joins the sources by a space
    and cuts them at 8,192 characters. Here longer sources have no score, and neither do sources that do not fit the
    model.
    """

    name, asks = "hhem", CHECKER
    needs = ("answer", SOURCES)

    def __init__(self, checker: Checker):
        self._checker = checker
        self.identity = f"hhem {checker.identity}"

    def value(self, example: Example, answer: str) -> float:
        sources = " ".join(texts_of(example, SOURCES))
        if len(sources) > LONGEST_SOURCES:
            raise Failed(f"the sources have {len(sources)} characters, more than {LONGEST_SOURCES}")
        (value,) = self._checker.score([(sources, answer)])
        if value is None:
            raise Failed("sources and answer do not fit the checker")
        return value


class CheckedSentences(AnswerScorer):
    """A claim checker on each sentence of an answer: the score is that of the least supported sentence.

    MiniCheck is meant for one sentence at a time. The score is the smallest support of a sentence, in [0, 1]. For a
    claim, which is one sentence, it is the checker's own support. An answer has no score if it has no sentence, or if a
    sentence does not fit.
    """

    name, asks = "checked_sentences", CHECKER
    needs = ("answer", "reference")

    def __init__(self, checker: Checker):
        self._checker = checker
        self.identity = f"checked sentences {checker.identity}"

    def value(self, example: Example, answer: str) -> float:
        found = [support(self._checker, example.reference, sentence) for sentence in sentences_of(answer)]
        whole = [value for value in found if value is not None]
        if len(whole) < len(found):
            raise Failed("a sentence, with one of the reference, does not fit the checker")
        if not whole:
            raise Failed("no sentence")
        return min(whole)


class CheckedClaims(Scorer):
    """A claim checker on RAG-Zeval's own claims, in place of the judge that wrote them.

    The score is supported claims / claims, in [0, 1]. The claims are those of a judge's trajectories for the same
    examples.

    judged: the judge's rows by example. judge: its identity. `parts` of a row: "answers" has for each answer the
    support of its claims, in order (null: the claim does not fit).
    """

    name, asks = "checked_claims", f"{CHECKER}, a judge"
    needs = ("answer", "reference")

    def __init__(self, checker: Checker, judged: Mapping[str, Scored], judge: str):
        self._checker = checker
        self._judged = {id_: row.parts for id_, row in judged.items()}
        claims = json.dumps({id_: _claims(parts) for id_, parts in self._judged.items()}, sort_keys=True)
        self.identity = f"{checker.identity} claims {hashlib.sha256(claims.encode()).hexdigest()} of {judge}"

    def left_out(self, example: Example) -> tuple[str | None, ...]:
        """Also leave out each answer about which the judge's reply could not be read, as `InWindows` may give it."""
        parts, reasons = self._judged[example.id], self.lacking(example)
        if all(reasons):
            return reasons
        trajectory = parts.get("trajectory") or [None] * len(reasons)
        if len(trajectory) != len(reasons):
            raise InputError(f"row {example.id!r}: its trajectory has {len(trajectory)} answers, not {len(reasons)}")
        unread = f"failed: no claims to check: {parts['status'].removeprefix('failed: ')}"
        return tuple(why or (None if one else unread) for why, one in zip(reasons, trajectory, strict=True))

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        for example in examples:
            claims = _claims(self._judged[example.id]) or []
            found = [self._check(example.reference, one) for one in claims]
            yield Scored(
                example.id, tuple(score for score, _ in found), {"answers": [{"support": s} for _, s in found]}
            )

    def _check(self, reference: str, claims: list[str]) -> tuple[Score, list[float | None]]:
        if not claims:
            return Score(None, "failed: no claims"), []
        try:
            found = [support(self._checker, reference, claim) for claim in claims]
        except Exception as error:  # out of memory, or what a checker's own code raises
            return Score(None, f"failed: {one_line(f'{type(error).__name__}: {error}')}"), []
        whole = [value for value in found if value is not None]
        if len(whole) < len(found):
            return Score(None, "failed: a claim, with a sentence of the reference, does not fit the checker"), found
        checked = (AtomicClaim(claim, value >= SUPPORTED) for claim, value in zip(claims, whole, strict=True))
        return Score(support_score(CandidateEvaluation("A", tuple(checked)))), found


def _claims(parts: Mapping[str, Any]) -> list[list[str]] | None:
    """Return the claims of each answer about which the judge's reply was read; None without a trajectory."""
    trajectory = parts.get("trajectory")
    return trajectory and [[claim["claim"] for claim in one["atomic_claims"]] for one in trajectory if one]


def support(checker: Checker, document: str, claim: str) -> float | None:
    """Return how far the document supports the claim, in [0, 1]: the largest support by one of its pieces.

    None if a piece, which may be a single sentence, does not fit together with the claim.
    """
    cut = pieces(document, lambda piece: checker.fits((piece, claim)))
    values = checker.score([(piece, claim) for piece in cut])
    whole = [value for value in values if value is not None]
    return max(whole) if len(whole) == len(values) else None
