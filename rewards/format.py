"""r_f: is the text a trajectory?"""

from collections.abc import Sequence

from rag_zeval.errors import InputError
from rag_zeval.judge.parser import FormatError, claims_hold_text, parse_strict
from rag_zeval.judge.prompt import find_variant
from rag_zeval.judge.schema import Trajectory
from rag_zeval.judge.scoring import same_words
from rag_zeval.judge.words import composed
from rag_zeval.text import without_surrogates

PENALTY = -0.5


class EchoDiffers(FormatError):
    """The text is a trajectory, but it does not repeat an answer that it was asked to repeat."""


def good_trajectory(
    text: str, n_candidates: int, variant: str = "paper", answers: Sequence[str] | None = None
) -> Trajectory:
    """The trajectory of a text that gets no format penalty, so that r_f = 0 (paper, section 3.3.2).

    Good means: (1) `json.loads` gives a list; (2) its items are exactly the set of candidates; (3) every field of the
    variant is there with its type; (4) each claim says something and each supported one quotes evidence, where the
    variant has evidence at all; (5) where the variant repeats the `answers`, each one is repeated. That a claim must
    say something, and (5), are ours: without them empty claims and empty answers would keep every other rule.

    Raises:
        FormatError: Where r_f = -0.5 (PENALTY); it is EchoDiffers if (5) alone is broken.
        InputError: If the variant repeats the answers and they are not given.
    """
    repeats = find_variant(variant).echo_answer
    if repeats and answers is None:
        raise InputError(
            f"variant '{variant}' repeats the answers, and the row lacks the field 'answers' to compare them with: "
            "rows of an older version must be written again"
        )
    trajectory = parse_strict(text, n_candidates, variant)
    if not claims_hold_text(trajectory, variant):
        raise FormatError("a claim says nothing, or a supported one quotes nothing")
    if repeats and answers is not None:
        for candidate, answer in zip(trajectory, answers, strict=True):
            if not repeats_answer(candidate.answer or "", answer):
                raise EchoDiffers(f"candidate {candidate.id}: 'answer' is not the candidate's answer")
    return trajectory


def repeats_answer(echo: str, answer: str) -> bool:
    """Whether an echo is the answer as the prompt shows it, but for spacing and how Unicode codes the same letter.

    Both are composed (NFC). The compatibility forms (NFKC) would make one of `x²` and `x2`, which say different things.
    """
    return same_words(composed(echo), composed(without_surrogates(answer)))
