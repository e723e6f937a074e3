"""The reward of one rollout (paper, section 3.2), with its parts and what to watch for reward hacking.

r_f: is the text a trajectory? r_a: does the ranking by support follow the ranking by alpha? r_e: how verbatim are the
quotes?
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal, get_args

from rag_zeval.errors import InputError
from rag_zeval.judge.evidence import ReferenceIndex, grounding
from rag_zeval.judge.parser import FormatError, claims_hold_text, parse_strict
from rag_zeval.judge.prompt import find_variant
from rag_zeval.judge.schema import Trajectory
from rag_zeval.judge.scoring import ranked_pairs, strictly_ranked, support_scores

Tokenize = Callable[[str], Sequence[Hashable]]

PENALTY = -0.5
AccuracyRule = Literal["all-pairs", "best-only"]
# These describe a trajectory, so they mean something only where `format` is 1: average them over those rollouts.
WATCHED = (
    "evidence",
    "pair_accuracy",
    "tie_rate",
    "supported_rate",
    "claims",
    "claims_best",
    "claims_worst",
    "quotes",
    "quote_tokens",
)
KEYS = ("score", "format", "accuracy", *WATCHED)


def format_reward(text: str, n_candidates: int, variant: str = "paper") -> tuple[float, Trajectory | None]:
    """`(0.0, trajectory)` for a good trajectory, `(-0.5, None)` for anything else (r_f).

    Good means: (1) `json.loads` gives a list; (2) its items are exactly the candidates; (3) every field of the variant
    is there with its type; (4) each claim says something and each supported one quotes evidence, where the variant has
    evidence at all. That a claim must say something is ours: empty ones would keep every other rule.
    """
    try:
        trajectory = parse_strict(text, n_candidates, variant)
    except FormatError:
        return PENALTY, None
    return (0.0, trajectory) if claims_hold_text(trajectory, variant) else (PENALTY, None)


def accuracy_reward(scores: Sequence[float | None], alphas: Sequence[float], rule: str = "all-pairs") -> float:
    """1.0 if the support scores are ranked as the alphas are, strictly, else 0.0 (r_a; paper, Eq. 6).

    "all-pairs": every pair with alpha_i > alpha_j has S_i > S_j. "best-only" (paper, Table 3): only the candidate of
    the largest alpha must lie above all others. Raises InputError for another rule.
    """
    if rule not in (rules := get_args(AccuracyRule)):
        raise InputError(f"accuracy rule '{rule}' does not exist; there is: {', '.join(rules)}")
    if rule == "best-only":
        return float(strictly_ranked(scores, [float(alpha == max(alphas)) for alpha in alphas]))
    return float(strictly_ranked(scores, alphas))


def evidence_reward(trajectory: Trajectory, reference: ReferenceIndex, tokenize: Tokenize) -> float:
    """Mean over all quotes of longest common token span / quote length, in [0, 1] (r_e; paper, Eq. 5); 0 without any.

    `tokenize` must be the one that made the reference's tokens: the policy's, in training.
    """
    return _mean([grounding(tokenize(quote), reference) for quote in _quotes(trajectory)])


def combined_reward(
    text: str,
    alphas: Sequence[float],
    reference: ReferenceIndex,
    tokenize: Tokenize,
    *,
    variant: str = "paper",
    accuracy_rule: str = "all-pairs",
) -> dict[str, float]:
    """The reward and its parts for one generated text; always the same keys (KEYS), all finite numbers.

    score: 1 + 0.5 r_e if the format holds and the ranking is right, 0 if only the format holds, else -0.5 (paper,
    Eq. 7). format, accuracy: 1 or 0. evidence: r_e in [0, 1]. pair_accuracy, tie_rate: share of the pairs with
    different alphas whose supports are in order, or equal. supported_rate: share of all claims. claims: per candidate;
    claims_best and claims_worst: of the candidates with the largest and smallest alpha. quotes: per claim.
    quote_tokens: mean length of a quote.
    """
    _, trajectory = format_reward(text, len(alphas), variant)
    if trajectory is None:
        return failed()
    scores = support_scores(trajectory)
    accuracy = accuracy_reward(scores, alphas, accuracy_rule)
    has_evidence = find_variant(variant).has_evidence
    evidence = evidence_reward(trajectory, reference, tokenize) if has_evidence else 0.0
    return {
        "score": 1.0 + 0.5 * evidence if accuracy else 0.0,
        "format": 1.0,
        "accuracy": accuracy,
        "evidence": evidence,
        **_watched(trajectory, scores, alphas, tokenize),
    }


def failed() -> dict[str, float]:
    """The format penalty: what a text gets that is no trajectory, or a rollout that could not be scored at all."""
    return {**dict.fromkeys(KEYS, 0.0), "score": PENALTY}


def _watched(
    trajectory: Trajectory, scores: Sequence[float | None], alphas: Sequence[float], tokenize: Tokenize
) -> dict[str, float]:
    pairs = ranked_pairs(alphas)
    claims = [len(candidate.atomic_claims) for candidate in trajectory]
    supported = sum(claim.is_supported for candidate in trajectory for claim in candidate.atomic_claims)
    quotes = [len(tokenize(quote)) for quote in _quotes(trajectory)]
    return {
        "pair_accuracy": _mean([strictly_ranked([scores[i], scores[j]], [1, 0]) for i, j in pairs]),
        "tie_rate": _mean([scores[i] == scores[j] for i, j in pairs]),
        "supported_rate": supported / sum(claims),
        "claims": _mean(claims),
        "claims_best": float(claims[alphas.index(max(alphas))]),
        "claims_worst": float(claims[alphas.index(min(alphas))]),
        "quotes": len(quotes) / sum(claims),
        "quote_tokens": _mean(quotes),
    }


def _quotes(trajectory: Trajectory) -> list[str]:
    """All quotes of a trajectory, in order; one quoted twice stands twice."""
    return [
        quote for candidate in trajectory for claim in candidate.atomic_claims for quote in claim.grounding_evidence
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
