"""From the model's text to a trajectory, or to a ranking.

Strict for training; for trajectories also lenient, and saying so, for benchmarks and users.
"""

from __future__ import annotations

import json
import re
from typing import Any

from rag_zeval.prompt import EVIDENCE, Variant, find_variant
from rag_zeval.schema import LETTERS, AtomicClaim, CandidateEvaluation, Trajectory


class FormatError(ValueError):
    """The text is not a trajectory, or no ranking; the message says which rule it breaks."""


def parse_strict(text: str, n_candidates: int, variant: str = "paper") -> Trajectory:
    """Rules (1) to (3) of the format reward: JSON list, exactly the candidates in order, all fields with their types.

    No coercion: `"true"` is not `true`. A candidate needs at least one claim. Extra fields are allowed.
    Raises FormatError.
    """
    return _read(_load(text), n_candidates, find_variant(variant))


def parse_lenient(text: str, n_candidates: int, variant: str = "paper") -> tuple[Trajectory, str]:
    """The trajectory and which parser gave it: "strict", "repaired" or "regex".

    Repair: JSON cut out of fences and prose, trailing commas dropped, `"true"` and `"yes"` read as booleans, a
    missing analysis or quote left empty, a candidate without claims kept (it has no score). Regex: pairs of claim
    and verdict found one by one under the candidate ids, for text that is no JSON at all. Raises FormatError when a
    candidate is missing or no verdict can be read: a score is never made up.
    """
    try:
        return parse_strict(text, n_candidates, variant), "strict"
    except FormatError:
        pass
    found = find_variant(variant)
    try:
        return _read(_load(_cut_out_list(text)), n_candidates, found, lenient=True), "repaired"
    except FormatError:
        return _search(text, n_candidates), "regex"


_TEXT = {"type": "string"}
_FIELDS: dict[str, dict[str, Any]] = {
    "claim": _TEXT,
    "is_supported": {"type": "boolean"},
    EVIDENCE: {"type": "array", "items": _TEXT},
    "analysis": _TEXT,
}


def response_schema(n_candidates: int, variant: str = "paper") -> dict[str, Any]:
    """JSON schema (draft 2020-12) of the trajectories that `parse_strict` accepts, for servers that decode by one.

    Fields stand in the variant's order, which such servers keep, and no others are allowed: `parse_strict` minds
    neither. Rule (4), that claims hold text and supported ones quote some, is no part of it. Raises InputError.
    """
    found = find_variant(variant)
    claims = {"type": "array", "items": _object({name: _FIELDS[name] for name in found.claim_fields}), "minItems": 1}
    echo = {"answer": _TEXT} if found.echo_answer else {}
    candidates = [
        _object({"id": {"type": "string", "enum": [letter]}, **echo, "atomic_claims": claims})
        for letter in LETTERS[:n_candidates]
    ]
    return {
        "type": "array",
        "prefixItems": candidates,
        "items": False,
        "minItems": n_candidates,
        "maxItems": n_candidates,
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def parse_ranking(text: str, n_candidates: int) -> tuple[str, ...]:
    """The candidates' letters from best to worst, as `["C", "A", "B"]` says it: each of them once, and nothing else.

    Raises FormatError.
    """
    letters = _load(text)
    if not isinstance(letters, list) or not all(isinstance(letter, str) for letter in letters):
        raise FormatError("not a list of letters")
    expected = list(LETTERS[:n_candidates])
    if sorted(letters) != expected:
        raise FormatError(f"letters are {letters}, expected each of {expected} once")
    return tuple(letters)


def claims_hold_text(trajectory: Trajectory, variant: str = "paper") -> bool:
    """Rule (4) of the format reward: every claim says something, and every supported one quotes something.

    Quotes are asked of variants with evidence alone.
    """
    quoting = find_variant(variant).has_evidence
    return all(
        bool(claim.claim.strip())
        and (not (quoting and claim.is_supported) or any(quote.strip() for quote in claim.grounding_evidence))
        for candidate in trajectory
        for claim in candidate.atomic_claims
    )


def _refuse_constant(name: str) -> Any:
    raise FormatError(f"{name} is not JSON")


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not valid JSON: {error}") from error


def _read(items: Any, n_candidates: int, variant: Variant, lenient: bool = False) -> Trajectory:
    if not isinstance(items, list):
        raise FormatError("not a list of candidates")
    ids = [item.get("id") if isinstance(item, dict) else None for item in items]
    expected = list(LETTERS[:n_candidates])
    if ids != expected:
        raise FormatError(f"candidates are {ids}, expected {expected}")
    return tuple(_read_candidate(item, variant, lenient) for item in items)


def _read_candidate(item: dict[str, Any], variant: Variant, lenient: bool) -> CandidateEvaluation:
    claims = item.get("atomic_claims")
    if not isinstance(claims, list) or not (claims or lenient):
        raise FormatError(f"candidate {item['id']}: 'atomic_claims' is not a list of claims")
    answer = item.get("answer")
    if variant.echo_answer and not lenient and not isinstance(answer, str):
        raise FormatError(f"candidate {item['id']}: 'answer' is not a string")
    read = tuple(_read_claim(claim, variant, lenient) for claim in claims)
    return CandidateEvaluation(item["id"], read, answer if isinstance(answer, str) else None)


def _read_claim(claim: Any, variant: Variant, lenient: bool) -> AtomicClaim:
    if not isinstance(claim, dict):
        raise FormatError("a claim is not an object")
    if lenient:
        claim = {"grounding_evidence": [], "analysis": "", **claim}
        claim["is_supported"] = _verdict(claim.get("is_supported"))
        if isinstance(claim["grounding_evidence"], str):
            claim["grounding_evidence"] = [claim["grounding_evidence"]]
    for field in variant.claim_fields:
        if field not in claim:
            raise FormatError(f"a claim lacks '{field}'")
    text, verdict, analysis = claim["claim"], claim["is_supported"], claim["analysis"]
    evidence = claim["grounding_evidence"] if variant.has_evidence else []
    if not isinstance(text, str) or not isinstance(verdict, bool) or not isinstance(analysis, str):
        raise FormatError("a claim has a field of the wrong type")
    if not isinstance(evidence, list) or not all(isinstance(quote, str) for quote in evidence):
        raise FormatError("'grounding_evidence' is not a list of strings")
    return AtomicClaim(text, verdict, tuple(evidence), analysis)


def _verdict(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "supported": True, "false": False, "no": False, "unsupported": False}
    return words.get(value.strip().lower()) if isinstance(value, str) else None


def _cut_out_list(text: str) -> str:
    """From the first `[{` to the last `]`, without trailing commas: drops fences and prose around the JSON."""
    start, end = re.search(r"\[\s*\{", text), text.rfind("]")
    if not start or end < start.start():
        raise FormatError("no list of objects in the text")
    return re.sub(r",(\s*[\]}])", r"\1", text[start.start() : end + 1])


_ID = re.compile(r"""(["'])id\1\s*:\s*["']([A-Z])["']""")
_CLAIM = {
    quote: re.compile(rf"""{quote}claim{quote}\s*:\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""") for quote in "\"'"
}
_SUPPORTED = {
    quote: re.compile(rf"""{quote}is_supported{quote}\s*:\s*["']?(true|false)\b""", re.IGNORECASE) for quote in "\"'"
}


def _search(text: str, n_candidates: int) -> Trajectory:
    marks = list(_ID.finditer(text))
    ids, expected = [mark.group(2) for mark in marks], list(LETTERS[:n_candidates])
    if ids != expected:
        raise FormatError(f"found candidates {ids}, expected {expected}")
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    bodies = [text[mark.end() : end] for mark, end in zip(marks, ends, strict=True)]
    quotes = [mark.group(1) for mark in marks]
    return tuple(
        CandidateEvaluation(id_, _search_claims(id_, body, quote))
        for id_, body, quote in zip(ids, bodies, quotes, strict=True)
    )


def _search_claims(candidate: str, body: str, quote: str) -> tuple[AtomicClaim, ...]:
    """`quote`: around the names of fields. The other one is text, such as an echoed answer that spells claims."""
    claims = list(_CLAIM[quote].finditer(body))
    read = []
    for at, claim in enumerate(claims):
        stop = claims[at + 1].start() if at + 1 < len(claims) else len(body)
        verdict = _SUPPORTED[quote].search(body, claim.end(), stop)
        if verdict is None:
            raise FormatError(f"candidate {candidate}: a claim has no readable verdict")
        read.append(AtomicClaim(claim.group(1) or claim.group(2) or "", verdict.group(1).lower() == "true"))
    if not read:
        raise FormatError(f"candidate {candidate}: no claim found")
    return tuple(read)
