"""What a judge or another scorer gets: a question, candidate answers, and the texts to judge them by."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """Candidate answers to a question, and the reference to judge them by.

    reference: the retrieved contexts (the score is then faithfulness) or the ground truth (correctness).
    reference_kind: which of them it is, "contexts" or "truth", or "reference" for another text.
    truth, chunks: the ground truth, and the retrieved contexts, best first; only comparison scorers use them.
    unanswered: for each answer, why it is missing, such as "no answer: HTTP 429", or ""; empty if none is missing.

        Example("1", "Who wrote it?", "Mary Shelley wrote it.", ("Shelley did.", "Byron did."))
    """

    id: str
    question: str
    reference: str
    answers: tuple[str, ...]
    truth: str | None = None
    chunks: tuple[str, ...] = ()
    reference_kind: str = "reference"
    unanswered: tuple[str, ...] = ()
