"""The format reward r_f: is the text a trajectory?"""

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
    """The text is a trajectory, but an answer that it had to repeat differs from the candidate's answer."""


def good_trajectory(
    text: str, n_candidates: int, variant: str = "paper", answers: Sequence[str] | None = None
) -> Trajectory:
    """Return the trajectory of a text without a format penalty, that is with r_f = 0 (paper, section 3.3.2).

    The text must keep five rules:

    1. `json.loads` gives a list.
    2. Its items are exactly the set of candidates.
    3. Every field of the variant is present and has the right type.
    4. Each claim has text. Each supported claim quotes evidence, if the variant has evidence.
    5. If the variant repeats the `answers`, each one is repeated.

    The paper does not require that claims have text, nor rule 5. Without them, empty claims and empty answers would
    keep all other rules.

    Raises:
        FormatError: If r_f = -0.5 (PENALTY). It is EchoDiffers if only rule 5 is broken.
        InputError: If the variant repeats the answers and `answers` is None.
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
    """Whether an echo equals the answer that the prompt shows, apart from spacing and Unicode composition.

    Both texts are composed (NFC). NFKC would make `x²` and `x2` equal, which have different meanings.
    """
    return same_words(composed(echo), composed(without_surrogates(answer)))
