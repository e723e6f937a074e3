"""The accuracy reward r_a: does the ranking by support follow the ranking by alpha?"""

from collections.abc import Sequence
from typing import Literal, get_args

from rag_zeval.errors import InputError
from rag_zeval.judge.scoring import strictly_ranked

AccuracyRule = Literal["all-pairs", "best-only"]


def accuracy_reward(scores: Sequence[float | None], alphas: Sequence[float], rule: str = "all-pairs") -> float:
    """Return 1.0 if the support scores have strictly the same order as the alphas, else 0.0 (paper, Eq. 5).

    A single candidate has no ranking and gets 0.0. Only its format can be rewarded.

    Args:
        scores: Support of each candidate, in [0, 1]. None means that it has no score. A pair with such a candidate is
            never in the right order.
        alphas: Alpha of each candidate, in the same order.
        rule: "all-pairs": every pair with alpha_i > alpha_j has S_i > S_j. "best-only" (Eq. 7, Table 3): only the
            candidate of the largest alpha must be above all others.

    Raises:
        InputError: If the rule is unknown.

    >>> accuracy_reward([1.0, 0.5, 0.0], [0, -0.5, -1]), accuracy_reward([1.0, 0.5, 0.5], [0, -0.5, -1])
    (1.0, 0.0)
    """
    if rule not in (rules := get_args(AccuracyRule)):
        raise InputError(f"accuracy rule '{rule}' does not exist; choose from: {', '.join(rules)}")
    if len(scores) < 2:
        return 0.0
    if rule == "best-only":
        return float(strictly_ranked(scores, [float(alpha == max(alphas)) for alpha in alphas]))
    return float(strictly_ranked(scores, alphas))
