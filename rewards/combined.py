"""The reward of one rollout, its parts, and metrics that reveal reward hacking."""

from collections.abc import Sequence

from rag_zeval.judge.evidence import ReferenceIndex
from rag_zeval.judge.parser import FormatError
from rag_zeval.judge.prompt import find_variant
from rag_zeval.judge.schema import Trajectory
from rag_zeval.judge.scoring import ranked_pairs, strictly_ranked, support_scores
from rewards.accuracy import accuracy_reward
from rewards.evidence import Tokenize, evidence_reward, evidence_spans
from rewards.format import PENALTY, EchoDiffers, good_trajectory

RIGHT = 1.0  # reward of a right ranking before the evidence reward is added; wrong rankings get less

# Metrics of a trajectory. They mean something only if `format` is 1, so average them over those rollouts.
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
OF_PAIRS = ("accuracy", "pair_accuracy", "tie_rate")  # meaningless for a prompt with a single candidate
KEYS = ("score", "format", "accuracy", "echo_differs", *WATCHED)


def combined_reward(
    text: str,
    alphas: Sequence[float],
    reference: ReferenceIndex,
    tokenize: Tokenize,
    *,
    variant: str = "paper",
    answers: Sequence[str] | None = None,
    accuracy_rule: str = "all-pairs",
) -> dict[str, float]:
    """Return the reward of one generated text and its parts. The keys are always KEYS, the values finite numbers.

    - `score`: 1 + 0.5 r_e if the format and the ranking are right, 0 if only the format is, else -0.5 (paper, Eq. 6).
    - `format`, `accuracy`: 1 or 0.
    - `echo_differs`: 1 if a repeated answer differs from the candidate's and nothing else breaks the format, else 0.
    - `evidence`: r_e in [0, 1].
    - `pair_accuracy`: share of the pairs with different alphas whose supports are in the right order.
    - `tie_rate`: share of these pairs whose supports are equal.
    - `supported_rate`: share of all claims that the judge calls supported.
    - `claims`: claims per candidate.
    - `claims_best`, `claims_worst`: claims of the candidate with the largest and with the smallest alpha.
    - `quotes`: quotes per claim.
    - `quote_tokens`: mean length of a quote, in tokens.

    Args:
        text: What the policy wrote.
        alphas: Alpha of each candidate, in the order of the prompt.
        reference: The passage, tokenized by `tokenize`.
        tokenize: Function that gives the policy's tokens of a text, see `rewards.tokens.PolicyTokens`.
        variant: The prompt variant, which determines the fields of a trajectory.
        answers: The candidates' answers. The answers that the text repeats are compared with them.
        accuracy_rule: See `accuracy_reward`.

    Raises:
        InputError: If the variant repeats the answers and `answers` is None.
    """
    try:
        trajectory = good_trajectory(text, len(alphas), variant, answers)
    except FormatError as error:
        return {**failed(), "echo_differs": float(isinstance(error, EchoDiffers))}
    scores = support_scores(trajectory)
    accuracy = accuracy_reward(scores, alphas, accuracy_rule)
    has_evidence = find_variant(variant).has_evidence
    evidence = evidence_reward(trajectory, reference, tokenize) if has_evidence else 0.0
    return {
        "score": RIGHT + 0.5 * evidence if accuracy else 0.0,
        "format": 1.0,
        "accuracy": accuracy,
        "echo_differs": 0.0,
        "evidence": evidence,
        **_watched(trajectory, scores, alphas, tokenize),
    }


def failed() -> dict[str, float]:
    """Return the reward of a text that is not a trajectory, or that could not be scored: the format penalty."""
    return {**dict.fromkeys(KEYS, 0.0), "score": PENALTY}


def _watched(
    trajectory: Trajectory, scores: Sequence[float | None], alphas: Sequence[float], tokenize: Tokenize
) -> dict[str, float]:
    pairs = ranked_pairs(alphas)
    claims = [len(candidate.atomic_claims) for candidate in trajectory]
    supported = sum(claim.is_supported for candidate in trajectory for claim in candidate.atomic_claims)
    quotes = [len(tokenize(span)) for span in evidence_spans(trajectory)]
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


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
