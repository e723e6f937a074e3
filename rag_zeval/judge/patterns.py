"""The paper's fallback for a reply that is not JSON: regular expressions read what they can (section 3.3.2).

It is off by default. A pattern cannot tell a judge's claim from one in an answer that the judge quotes, and in a reply
that was cut off it counts only the claims before the cut.
"""

import json
import re

from rag_zeval.judge.schema import LETTERS, AtomicClaim, CandidateEvaluation, Trajectory

_FIELD = re.compile(r'"(id|claim|is_supported)"\s*:\s*("(?:[^"\\]|\\.)*"|true\b|false\b)')


def read_patterns(text: str, n_candidates: int) -> Trajectory:
    r"""Read for each candidate the claims and verdicts after its id.

    A candidate whose id is missing has no claims. If an id occurs twice, the last one counts.

        >>> cut = '[{"id": "A", "atomic_claims": [{"claim": "He sang.", "is_supported": true}, {"claim": "He ro'
        >>> [claim.is_supported for claim in read_patterns(cut, 2)[0].atomic_claims]
        [True]
    """
    claims: dict[str, list[AtomicClaim]] = {letter: [] for letter in LETTERS[:n_candidates]}
    letter, claim = "", None
    for name, written in _FIELD.findall(text):
        try:
            value = json.loads(written, strict=False)
        except ValueError:  # an escape that JSON does not have
            value = written.strip('"')
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
