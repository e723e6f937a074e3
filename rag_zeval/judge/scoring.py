"""Scores of a trajectory or a ranking, for the reward, the benchmarks and the evaluator."""

from collections.abc import Sequence

from rag_zeval.judge.schema import CandidateEvaluation, Trajectory


def support_score(candidate: CandidateEvaluation) -> float | None:
    """Return S(y) = supported claims / claims, in [0, 1] (paper, section 3.1); None for a candidate without claims.

    It is faithfulness if the reference is the retrieved contexts, and correctness if it is the ground truth.
    """
    claims = candidate.atomic_claims
    return sum(claim.is_supported for claim in claims) / len(claims) if claims else None


def support_scores(trajectory: Trajectory) -> list[float | None]:
    """Return the `support_score` of each candidate, in the trajectory's order."""
    return [support_score(candidate) for candidate in trajectory]


def rank_scores(ranking: Sequence[str]) -> list[float]:
    """Return scores from a ranking (letters, best first), in the letters' order: (K - rank) / (K - 1), from 1 to 0.

    Raises ValueError for fewer than two candidates: the rank of a single one says nothing.

    >>> rank_scores(["B", "A", "C"])
    [0.5, 1.0, 0.0]
    """
    if len(ranking) < 2:
        raise ValueError("a ranking needs two candidates or more")
    last = len(ranking) - 1
    return [(last - ranking.index(letter)) / last for letter in sorted(ranking)]


def ranked_pairs(truth: Sequence[float]) -> list[tuple[int, int]]:
    """Return the index pairs `(i, j)` with `truth[i] > truth[j]`."""
    return [(i, j) for i, above in enumerate(truth) for j, below in enumerate(truth) if above > below]


def strictly_ranked(scores: Sequence[float | None], truth: Sequence[float]) -> bool:
    """Whether every pair with truth[i] > truth[j] has scores[i] > scores[j]. Pairs with a missing score fail."""
    return all(_above(scores[i], scores[j]) for i, j in ranked_pairs(truth))


def same_words(first: str, second: str) -> bool:
    """Whether two answers have the same words, so that no honest judge can rank them."""
    return first.split() == second.split()


def _above(first: float | None, second: float | None) -> bool:
    return first is not None and second is not None and first > second
