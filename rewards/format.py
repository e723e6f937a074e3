"""r_f: is the text a trajectory?"""

from __future__ import annotations

from rag_zeval.parser import FormatError, parse_strict, supported_claims_have_evidence
from rag_zeval.schema import Trajectory

PENALTY = -0.5


def format_reward(text: str, n_candidates: int, variant: str = "paper") -> tuple[float, Trajectory | None]:
    """`(0.0, trajectory)` for a good trajectory, `(-0.5, None)` for anything else (paper, section 3.2).

    Good means: (1) `json.loads` gives a list; (2) its items are exactly the candidates; (3) every field of the variant
    is there with its type; (4) each supported claim quotes evidence, where the variant has evidence at all.
    """
    try:
        trajectory = parse_strict(text, n_candidates, variant)
    except FormatError:
        return PENALTY, None
    if not supported_claims_have_evidence(trajectory, variant):
        return PENALTY, None
    return 0.0, trajectory
