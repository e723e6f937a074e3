"""Reads a trajectory or a ranking from the model's text, and writes a trajectory as text.

Training uses the strict parser. Benchmarks and users get the lenient one, which reports whether it repaired the reply.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import check_fields
from rag_zeval.judge.prompt import EVIDENCE, INPUTS, Variant, find_variant
from rag_zeval.judge.schema import CLAIM, LETTERS, AtomicClaim, CandidateEvaluation, Trajectory
from rag_zeval.replies.echo import Echo
from rag_zeval.replies.loose_json import OBJECTS, Unreadable, unique_keys, values_within
from rag_zeval.replies.reading import quoted, read_values


class FormatError(ValueError):
    """The text is not a trajectory or ranking; the message says which rule it breaks."""


def parse_strict(text: str, n_candidates: int, variant: str = "paper") -> Trajectory:
    """Read a trajectory by rules (1) to (3) of the format reward. Raises FormatError.

    The text must be a JSON list with exactly the expected candidates, and all fields with their types. `"true"` is not
    `true`. A candidate needs at least one claim. Extra fields are allowed, a field that is given twice is not. The
    candidates may come in any order; the trajectory has them in order.
    """
    return _read(_load(text), n_candidates, find_variant(variant))


def as_reply(trajectory: Trajectory, variant: str = "paper") -> str:
    """Return the JSON text that a judge of this variant would write; `parse_strict` reads it back."""
    prompt = find_variant(variant)
    return json.dumps(
        [
            {
                "id": candidate.id,
                **({"answer": candidate.answer} if prompt.echo_answer else {}),
                "atomic_claims": [
                    {field: getattr(claim, field) for field in prompt.claim_fields} for claim in candidate.atomic_claims
                ],
            }
            for candidate in trajectory
        ],
        ensure_ascii=False,
    )


def parse_lenient(
    text: str, n_candidates: int, variant: str = "paper", shown: Sequence[str] = (), *, cut: bool = False
) -> tuple[Trajectory, str]:
    """Read a trajectory, and return it with how it was read: "strict" or "repaired".

    A reply is repaired if it has fences, prose or thoughts around its list, or JSON as models write it
    (rag_zeval.replies.loose_json). So it is if booleans are `"true"` or `"yes"`, or if analysis or quotes are missing.
    A candidate without claims is kept; it has no score. shown: the texts that the model was asked about. What a reply
    copies from them, or from the prompt, is not an evaluation. cut: whether the reply ended at its token limit. If so,
    its JSON must be complete, with no text before it.

    A score is never made up. Raises FormatError if a candidate or a verdict is missing, or if a claim is empty, has its
    fields in the wrong place or is copied from a shown text. It is also raised if the reply has two different
    evaluations, or if its evaluation may be a draft in its thoughts.
    """
    prompt, echo = find_variant(variant), Echo(shown)
    try:
        items = _load(text)
        trajectory = _read(items, n_candidates, prompt)
        _check_claims(trajectory, items, echo)
        if not _repeats(trajectory, echo) and not echo.joins_claims(text):
            return trajectory, "strict"
    except FormatError:
        pass
    instructions = prompt.template.split(INPUTS)[0]
    return _find(text, n_candidates, prompt, echo, (instructions, *shown), cut), "repaired"


_TEXT = {"type": "string"}
_FIELDS: dict[str, dict[str, Any]] = {
    "claim": _TEXT,
    "is_supported": {"type": "boolean"},
    EVIDENCE: {"type": "array", "items": _TEXT},
    "analysis": _TEXT,
}


def response_schema(n_candidates: int, variant: str = "paper") -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of trajectories that `parse_strict` accepts, for servers that enforce it.

    Unlike `parse_strict`, it fixes the order of the fields (such servers keep it) and allows no others. Rule (4), that
    claims have text and supported ones a quote, is not part of it. Raises InputError for an unknown variant.
    """
    prompt = find_variant(variant)
    claims = {"type": "array", "items": _object({name: _FIELDS[name] for name in prompt.claim_fields}), "minItems": 1}
    echo = {"answer": _TEXT} if prompt.echo_answer else {}
    candidates = [
        _object({"id": {"type": "string", "enum": [letter]}, **echo, "atomic_claims": claims})
        for letter in LETTERS[:n_candidates]
    ]
    length = {"minItems": n_candidates, "maxItems": n_candidates}
    return {"type": "array", "prefixItems": candidates, "items": False, **length}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def parse_ranking(text: str, n_candidates: int) -> tuple[str, ...]:
    """Read the candidates' letters, from best to worst, from a JSON list such as `["C", "A", "B"]`.

    Raises FormatError unless the list has each letter once, and nothing else.
    """
    letters = _load(text)
    if not isinstance(letters, list) or not all(isinstance(letter, str) for letter in letters):
        raise FormatError("not a list of letters")
    expected = list(LETTERS[:n_candidates])
    if sorted(letters) != expected:
        raise FormatError(f"letters are {letters}, expected each of {expected} once")
    return tuple(letters)


def says_something(claim: str) -> bool:
    """Whether a claim has a letter or a digit, so that it is neither empty nor the dots of an example."""
    return any(map(str.isalnum, claim))


def claims_hold_text(trajectory: Trajectory, variant: str = "paper") -> bool:
    """Whether rule (4) of the format reward holds: every claim has text, and every supported claim has a quote.

    Variants without evidence need no quotes.
    """
    quoting = find_variant(variant).has_evidence
    return all(
        says_something(claim.claim)
        and (not (quoting and claim.is_supported) or any(quote.strip() for quote in claim.grounding_evidence))
        for candidate in trajectory
        for claim in candidate.atomic_claims
    )


def _refuse_constant(name: str) -> Any:
    raise FormatError(f"{name} is not JSON")


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not valid JSON: {error}") from error


def _read(items: Any, n_candidates: int, variant: Variant) -> Trajectory:
    _check_ids(items, n_candidates)
    return _in_order(_read_candidate(item, variant) for item in items)


def _in_order(candidates: Iterable[CandidateEvaluation]) -> Trajectory:
    return tuple(sorted(candidates, key=lambda candidate: candidate.id))


def _check_ids(items: Any, n_candidates: int) -> None:
    """Raise FormatError unless the list has each candidate once, in any order (paper, section 3.3.2)."""
    if not isinstance(items, list):
        raise FormatError("not a list of candidates")
    ids = [item.get("id") if isinstance(item, dict) else None for item in items]
    expected = list(LETTERS[:n_candidates])
    if sorted(map(str, ids)) != expected:
        raise FormatError(f"candidates are {ids}, expected each of {expected} once")


def _read_candidate(item: Any, variant: Variant, lenient: bool = False) -> CandidateEvaluation:
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        raise FormatError("a candidate has no id")
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
        given = {field: value for field, value in claim.items() if value is not None}
        claim = {EVIDENCE: [], "analysis": "", **given}
        if "is_supported" in given:
            claim["is_supported"] = _verdict(given["is_supported"])
        quotes = claim[EVIDENCE] if isinstance(claim[EVIDENCE], list) else [claim[EVIDENCE]]
        claim[EVIDENCE] = [
            quote if isinstance(quote, str) else json.dumps(quote) for quote in quotes if quote is not None
        ]
    try:
        check_fields(claim, {field: CLAIM[field] for field in variant.claim_fields})
    except InputError as error:
        raise FormatError(f"a claim: {error}") from error
    read = {field: claim[field] for field in variant.claim_fields}
    return AtomicClaim(**{**read, EVIDENCE: tuple(read.get(EVIDENCE, ()))})


def _verdict(value: Any) -> bool:
    words = {"true": True, "yes": True, "supported": True, "false": False, "no": False, "unsupported": False}
    verdict = words.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(verdict, bool):
        raise FormatError(f"a claim: 'is_supported' is {quoted(str(value))}, neither true nor false")
    return verdict


CLAIM_FIELDS = ("atomic_claims", "claim", "is_supported")
_FIELD = re.compile(rf"""["'](?:{"|".join(CLAIM_FIELDS)})["']\s*:""")


def _find(text: str, n_candidates: int, variant: Variant, echo: Echo, shown: Sequence[str], cut: bool) -> Trajectory:
    """Return the only evaluation in a reply. Raises FormatError if there is none or another, or if it is unreadable."""
    hidden = [piece for piece in shown if _FIELD.search(piece)]
    try:
        found, outside = read_values(text, OBJECTS, cut=cut, hidden=hidden, closed=cut)
    except Unreadable as error:
        raise FormatError(str(error)) from error
    if any(_count_fields(value.value) and not value.alone for value in found):
        raise FormatError("JSON within a sentence")
    values = [value.value for value in found]
    if _FIELD.search(outside):
        raise FormatError("fields of claims are outside of any list")
    own: Trajectory | None = None
    for items in _lists(values):
        trajectory = tuple(_read_candidate(item, variant, lenient=True) for item in items)
        _check_claims(trajectory, items, echo)
        if not _repeats(trajectory, echo):
            _check_ids(items, n_candidates)
            if own not in (None, _in_order(trajectory)):
                raise FormatError("two different evaluations in one reply")
            own = _in_order(trajectory)
    if own is None:
        raise FormatError("no evaluation in the reply")
    if echo.joins_claims(text):
        raise FormatError("claims follow each other as in a text to be judged")
    return own


def _lists(values: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the lists of candidates: bare, as the only field of an object, or written as one object after the other."""
    row: list[Any] = []
    for value in values:
        if isinstance(value, dict) and "atomic_claims" in value:
            row.append(value)
        elif _count_fields(value):
            items = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
            if not isinstance(items, list):
                raise FormatError("fields of claims are outside of any list")
            yield items
    if row:
        yield row


def _claims(trajectory: Trajectory) -> list[str]:
    return [claim.claim for candidate in trajectory for claim in candidate.atomic_claims]


def _repeats(trajectory: Trajectory, echo: Echo) -> bool:
    """Whether all claims are copied from what the model was shown, so that the evaluation is not its own."""
    claims = _claims(trajectory)
    return bool(claims) and all(map(echo.begins, claims))


def _check_claims(trajectory: Trajectory, items: Any, echo: Echo) -> None:
    """Raise FormatError if a claim is empty, if fields are misplaced, or if some but not all claims are copied."""
    claims = _claims(trajectory)
    if not all(map(says_something, claims)):
        raise FormatError("a claim is empty")
    if _count_fields(items) != len(trajectory) + 2 * len(claims):
        raise FormatError("fields of claims are in the wrong place")
    if echo and any(next(iter(claim)) != "claim" for item in items for claim in item["atomic_claims"]):
        raise FormatError("a claim does not begin with its text, where the texts to be judged spell out claims")
    if any(map(echo.begins, claims)) and not _repeats(trajectory, echo):
        raise FormatError("a claim repeats one that the texts to be judged spell out")


def _count_fields(value: Any) -> int:
    """Count the fields of claims and candidates in a JSON value, at any depth."""
    objects = (inner for inner in values_within(value) if isinstance(inner, dict))
    return sum(field in each for each in objects for field in CLAIM_FIELDS)
