"""r_f: is the text a trajectory?"""

from __future__ import annotations

from rag_zeval.judge.parser import FormatError, claims_hold_text, parse_strict
from rag_zeval.judge.schema import Trajectory

PENALTY = -0.5


def format_reward(text: str, n_candidates: int, variant: str = "paper") -> tuple[float, Trajectory | None]:
    """`(0.0, trajectory)` for a good trajectory, `(-0.5, None)` for anything else (paper, section 3.3.2).

    Good means: (1) `json.loads` gives a list; (2) its items are exactly the set of candidates; (3) every field of the
    variant is there with its type; (4) each claim says something and each supported one quotes evidence, where the
    variant has evidence at all. That a claim must say something is ours: empty ones would keep every other rule.
    """
    try:
        trajectory = parse_strict(text, n_candidates, variant)
    except FormatError:
        return PENALTY, None
    return (0.0, trajectory) if claims_hold_text(trajectory, variant) else (PENALTY, None)
