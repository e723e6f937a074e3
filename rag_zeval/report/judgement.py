"""What a judge wrote about one example, for templates/judgement.html."""

from collections.abc import Mapping
from typing import Any

from rag_zeval.judge.example import Example
from rag_zeval.judge.quotes import Quoted, find_quotes


def judged(example: Example, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a template shows of an example and a row with its "trajectory" and "scores".

    answers: text, score and claims of each; a claim has its quotes, with how verbatim they are. reference: an iterator
    over its pieces `(text, is_quoted)`, which can be used once.
    """
    candidates = row["trajectory"] or [None] * len(example.answers)
    claims = [candidate["atomic_claims"] if candidate else [] for candidate in candidates]
    quoted = find_quotes(
        example.reference,
        (quote for of_answer in claims for claim in of_answer for quote in claim["grounding_evidence"]),
    )
    answers = [
        {"text": text, "score": score, "claims": [_claim(claim, quoted) for claim in of_answer]}
        for text, score, of_answer in zip(example.answers, row["scores"], claims, strict=True)
    ]
    return {"row": row, "example": example, "answers": answers, "reference": quoted.pieces()}


def _claim(claim: dict[str, Any], quoted: Quoted) -> dict[str, Any]:
    evidence = [{"text": quote, "verbatim": quoted.verbatim[quote]} for quote in claim["grounding_evidence"]]
    return {**claim, "evidence": evidence}
