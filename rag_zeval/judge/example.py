"""What is judged: candidate answers to a question, and what they are judged by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """Candidate answers to a question, and the reference to judge them by.

    The reference is the retrieved passage (the score is then faithfulness) or the true answer (correctness). Only
    comparison scorers look at the rest: `truth`, the ground-truth answer, and `chunks`, what was retrieved, best first.
    reference_kind: which the reference is, "contexts" or "truth", or "reference" for another text. unanswered: of each
    answer why there is none, such as "no answer: HTTP 429", or ""; empty where there are all.
    """

    id: str
    question: str
    reference: str
    answers: tuple[str, ...]
    truth: str | None = None
    chunks: tuple[str, ...] = ()
    reference_kind: str = "reference"
    unanswered: tuple[str, ...] = ()
