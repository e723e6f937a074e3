"""What a judge or another scorer gets: a question, candidate answers, and the texts to judge them by."""

from collections.abc import Iterable, Mapping, Set
from contextlib import nullcontext
from dataclasses import dataclass

from rag_zeval.errors import InputError
from rag_zeval.files import locate


@dataclass(frozen=True)
class Example:
    """Candidate answers to a question, and the reference to judge them by.

    reference: the retrieved contexts (the score is then faithfulness) or the ground truth (correctness).
    reference_kind: which of them it is, "contexts" or "truth", or "reference" for another text.
    truth, chunks: the ground truth, and the retrieved contexts, best first; only comparison scorers use them.
    unanswered: for each answer, why it is missing, such as "no answer: HTTP 429", or ""; empty if none is missing.

    Raises InputError for a text that is not a string, and for answers or chunks that are no list of strings.

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

    def __post_init__(self) -> None:
        with locate(f"example '{self.id}'") if self.id else nullcontext():
            check_list("answers", self.answers)
            check_list("chunks", self.chunks)
            texts = [("question", self.question), ("reference", self.reference)]
            for name, text in (*texts, *(("answers", answer) for answer in self.answers)):
                if not isinstance(text, str):
                    raise InputError(f"{name}: expected a string, found {type(text).__name__}")


def check_list(name: str, texts: Iterable[str]) -> None:
    """Raise InputError for texts whose letters or keys would be taken for texts, and for a set, which has no order."""
    if isinstance(texts, (str, Mapping, Set)):
        found = "one string" if isinstance(texts, str) else f"a {type(texts).__name__}"
        raise InputError(f"{name}: must be a list of strings, got {found}")
