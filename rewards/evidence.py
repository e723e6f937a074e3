"""r_e: how verbatim are the quotes?"""

from collections.abc import Callable, Sequence

from rag_zeval.judge.evidence import ReferenceIndex, grounding
from rag_zeval.judge.schema import Trajectory

Tokenize = Callable[[str], Sequence[str]]


def evidence_spans(trajectory: Trajectory) -> list[str]:
    """All quotes of a trajectory, in order; one quoted twice stands twice."""
    return [span for candidate in trajectory for claim in candidate.atomic_claims for span in claim.grounding_evidence]


def evidence_reward(trajectory: Trajectory, reference: ReferenceIndex, tokenize: Tokenize) -> float:
    """Mean over all quotes of longest common token span / quote length, in [0, 1]; 0 without any (section 3.3.2).

    A quote of fewer than ten tokens counts 0 (`rag_zeval.judge.evidence`).

    Args:
        trajectory: What the judge found, with its quotes.
        reference: The tokens of the passage.
        tokenize: What made them: the policy's tokenizer, in training.
    """
    spans = evidence_spans(trajectory)
    return sum(_verbatim(tokenize(span), reference) for span in spans) / len(spans) if spans else 0.0


def _verbatim(quote: Sequence[str], reference: ReferenceIndex) -> float:
    """The grounding of a quote, whether or not the passage has whitespace before its first word."""
    glued = [token.lstrip() for token in quote[:1]] + list(quote[1:])
    return max(grounding(quote, reference), grounding(glued, reference))
