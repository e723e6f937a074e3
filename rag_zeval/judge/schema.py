"""The trajectory: what the judge writes, as the paper has it (Fig. 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class AtomicClaim:
    """One fact of a candidate answer, with the judge's verdict and the reference text it quotes for it."""

    claim: str
    is_supported: bool
    grounding_evidence: tuple[str, ...] = ()
    analysis: str = ""


@dataclass(frozen=True)
class CandidateEvaluation:
    """All claims of one candidate; `id` is its letter, `answer` the echoed answer where the variant asks for it."""

    id: str
    atomic_claims: tuple[AtomicClaim, ...]
    answer: str | None = None


Trajectory = tuple[CandidateEvaluation, ...]


def as_json(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The trajectory as lists and dictionaries, all fields in it."""
    return [
        {**vars(candidate), "atomic_claims": [{**vars(claim)} for claim in candidate.atomic_claims]}
        for candidate in trajectory
    ]
