"""The trajectory: what the judge writes, as in Fig. 5 of the paper."""

from dataclasses import dataclass
from typing import Any

from rag_zeval.files import NONE, FieldTypes, Kind

# Fields that are read back from a trajectory in a file. An answer that was not judged has null.
CLAIM: FieldTypes = {"claim": str, "is_supported": bool, "grounding_evidence": [str], "analysis": str}
TRAJECTORY: Kind = ([({"atomic_claims": [CLAIM]}, NONE)], NONE)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class AtomicClaim:
    """One fact of a candidate answer, with the judge's verdict and the quotes from the reference."""

    claim: str
    is_supported: bool
    grounding_evidence: tuple[str, ...] = ()
    analysis: str = ""


@dataclass(frozen=True)
class CandidateEvaluation:
    """All claims of one candidate. id: its letter. answer: as the judge repeated it, if the variant asks for that."""

    id: str
    atomic_claims: tuple[AtomicClaim, ...]
    answer: str | None = None


Trajectory = tuple[CandidateEvaluation, ...]


def as_json(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Return the trajectory as lists and dictionaries, with all fields."""
    return [
        {**vars(candidate), "atomic_claims": [{**vars(claim)} for claim in candidate.atomic_claims]}
        for candidate in trajectory
    ]
