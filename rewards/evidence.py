"""The evidence reward r_e: how verbatim are the quotes?"""

from collections.abc import Callable, Sequence

from rag_zeval.judge.evidence import ReferenceIndex, grounding
from rag_zeval.judge.schema import Trajectory

Tokenize = Callable[[str], Sequence[str]]


def evidence_spans(trajectory: Trajectory) -> list[str]:
    """Return all quotes of a trajectory in order, duplicates included."""
    return [span for candidate in trajectory for claim in candidate.atomic_claims for span in claim.grounding_evidence]


def evidence_reward(trajectory: Trajectory, reference: ReferenceIndex, tokenize: Tokenize) -> float:
    """Return the mean grounding of all quotes, in [0, 1], or 0 if there are no quotes (paper, section 3.3.2).

    The grounding of a quote is its longest common token span with the passage / its length. It is 0 for a quote of
    fewer than ten tokens (`rag_zeval.judge.evidence`).

    Args:
        trajectory: The judge's trajectory with its quotes.
        reference: The tokens of the passage.
        tokenize: The function that made these tokens. In training it is the policy's tokenizer.
    """
    spans = evidence_spans(trajectory)
    return sum(_verbatim(tokenize(span), reference) for span in spans) / len(spans) if spans else 0.0


def _verbatim(quote: Sequence[str], reference: ReferenceIndex) -> float:
    """Return the grounding of a quote.

    The passage may lack whitespace before the quote's first word, so both forms are tried and the larger value counts.
    """
    glued = [token.lstrip() for token in quote[:1]] + list(quote[1:])
    return max(grounding(quote, reference), grounding(glued, reference))
