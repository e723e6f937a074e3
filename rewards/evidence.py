"""r_e: how verbatim are the quotes?"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from rag_zeval.judge.evidence import ReferenceIndex, grounding
from rag_zeval.judge.schema import Trajectory

Tokenize = Callable[[str], Sequence[Hashable]]


def evidence_spans(trajectory: Trajectory) -> list[str]:
    """All quotes of a trajectory, in order; one quoted twice stands twice."""
    return [span for candidate in trajectory for claim in candidate.atomic_claims for span in claim.grounding_evidence]


def evidence_reward(trajectory: Trajectory, reference: ReferenceIndex, tokenize: Tokenize) -> float:
    """Mean over all quotes of longest common token span / quote length, in [0, 1]; 0 without any (section 3.3.2).

    `tokenize` must be the one that made the reference's tokens: the policy's, in training.
    """
    spans = evidence_spans(trajectory)
    return sum(grounding(tokenize(span), reference) for span in spans) / len(spans) if spans else 0.0
