"""The paper's way with a reply that is no JSON: regular expressions read what they can (section 3.3.2).

No score is made so unless it is asked for: a pattern cannot tell a judge's claim from one that an answer spells out,
and of a reply that was cut off it counts the claims that were reached.
"""

from __future__ import annotations

import json
import re

from rag_zeval.judge.schema import LETTERS, AtomicClaim, CandidateEvaluation, Trajectory

_FIELD = re.compile(r'"(id|claim|is_supported)"\s*:\s*("(?:[^"\\]|\\.)*"|true\b|false\b)')


def read_patterns(text: str, n_candidates: int) -> Trajectory:
    r"""Each candidate with the claims that have a verdict behind its id; none where there is no such id.

    Of an id that stands twice the last counts.

        >>> cut = '[{"id": "A", "atomic_claims": [{"claim": "He sang.", "is_supported": true}, {"claim": "He ro'
        >>> [claim.is_supported for claim in read_patterns(cut, 2)[0].atomic_claims]
        [True]
    """
    claims: dict[str, list[AtomicClaim]] = {letter: [] for letter in LETTERS[:n_candidates]}
    letter, claim = "", None
    for name, written in _FIELD.findall(text):
        value = json.loads(written, strict=False) if _is_json(written) else written.strip('"')
        if name == "id":
            letter, claim = value, None
            if letter in claims:
                claims[letter] = []
        elif name == "claim":
            claim = value
        elif letter in claims and isinstance(claim, str) and isinstance(value, bool):
            claims[letter].append(AtomicClaim(claim, value, (), ""))
            claim = None
    return tuple(CandidateEvaluation(letter, tuple(of), None) for letter, of in claims.items())


def _is_json(written: str) -> bool:
    try:
        json.loads(written, strict=False)
    except ValueError:  # an escape that JSON does not know
        return False
    return True
