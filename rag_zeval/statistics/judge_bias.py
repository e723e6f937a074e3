"""Whether a judge's score depends on what it should not: an answer's length, position, or overlap with the passage.

A longer answer may well be the better one. So if the true support is known, it is held fixed. The correlation that is
left is bias. If every pair is judged in both orders, that experiment says more about position bias than a correlation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rag_zeval.judge.words import words
from rag_zeval.statistics.bootstrap import (
    DRAWS,
    IN_CACHE,
    BootstrapEstimate,
    Clusters,
    Mask,
    Statistic,
    clusters_of,
    columns_of,
    interval,
)
from rag_zeval.statistics.weighted_correlations import Floats, weighted_spearman

NO_SPREAD = 1e-12  # 1 - r² up to which two rankings count as equal: rounding alone may cause it


@dataclass(frozen=True)
class JudgedAnswer:
    """An answer with the judge's score (None if missing) and its true support (None if unknown).

    prompt: equal for answers that were judged together. position: 1 for the candidate shown first.
    """

    prompt: str
    position: int
    answer: str
    passage: str
    score: float | None
    support: float | None = None


def overlap(answer: str, passage: str) -> float:
    """Return the share of an answer's words that the passage has, in [0, 1], ignoring case; 0 without any word."""
    known = set(_spoken(passage))
    said = _spoken(answer)
    return sum(word in known for word in said) / len(said) if said else 0.0


FEATURES: dict[str, Callable[[JudgedAnswer], float]] = {
    "length": lambda judged: len(_spoken(judged.answer)),
    "position": lambda judged: judged.position,
    "overlap": lambda judged: overlap(judged.answer, judged.passage),
}


@dataclass(frozen=True)
class Bias:
    """Spearman's correlation of the score with a feature, and the same with the true support held fixed.

    None means undefined: for example, all scores are equal, or no support is known. n: answers with a score. n_known:
    those of them whose support is known.
    """

    correlation: BootstrapEstimate | None
    partial: BootstrapEstimate | None
    n: int
    n_known: int


def judge_bias(answers: Sequence[JudgedAnswer]) -> dict[str, Bias]:
    """Return the bias by each of FEATURES, with 95% percentile bootstrap intervals that resample whole prompts.

    Answers without a score are left out.
    """
    scored = [judged for judged in answers if judged.score is not None]
    known = [judged for judged in scored if judged.support is not None]
    return {
        name: Bias(_estimate(scored, feature, False), _estimate(known, feature, True), len(scored), len(known))
        for name, feature in FEATURES.items()
    }


@dataclass(frozen=True, eq=False)
class RankCorrelation(Statistic):
    """Spearman's rho of x and y, each (answers,), with z held fixed if it is given.

    The partial correlation is (r_xy - r_xz r_yz) / sqrt((1 - r_xz²)(1 - r_yz²)) of Spearman's r, as in R's ppcor (Kim
    2015, Communications for Statistical Applications and Methods 22(6), 665-674). It is NaN if x, y or z is constant,
    or if x or y ranks the answers as z does. clusters (answers,): answers with the same number are drawn together.
    """

    x: Floats
    y: Floats
    z: Floats | None
    clusters: Clusters

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        columns = columns_of(self, keep)
        rows = max(1, IN_CACHE // len(columns))
        blocks = (weights[start : start + rows][:, columns] for start in range(0, len(weights), rows))
        return np.concatenate([self._correlate(keep, block) for block in blocks])

    def _correlate(self, keep: Mask, weights: Floats) -> Floats:
        """Return the correlation for each row of `weights` (draws, answers)."""
        x, y = self.x[keep], self.y[keep]
        xy = weighted_spearman(x, y[:, None], weights)
        if self.z is None:
            return xy
        z = self.z[keep][:, None]
        xz, yz = weighted_spearman(x, z, weights), weighted_spearman(y, z, weights)
        left_x, left_y = 1 - xz**2, 1 - yz**2
        with np.errstate(invalid="ignore", divide="ignore"):
            partial = (xy - xz * yz) / np.sqrt(left_x * left_y)
        return np.where((left_x > NO_SPREAD) & (left_y > NO_SPREAD), partial, np.nan)


def _estimate(
    answers: Sequence[JudgedAnswer], feature: Callable[[JudgedAnswer], float], partial: bool
) -> BootstrapEstimate | None:
    if not answers:
        return None
    scores, supports = (np.array([getattr(of, name) for of in answers], dtype=float) for name in ("score", "support"))
    _, prompts = clusters_of([judged.prompt for judged in answers])
    values = np.array([feature(judged) for judged in answers], dtype=float)
    statistic = RankCorrelation(values, scores, supports if partial else None, prompts)
    everything = np.ones(len(answers), dtype=bool)
    value = statistic.point(everything)
    if np.isnan(value):
        return None
    bounds = interval(statistic, everything, DRAWS // 10, seed=0)
    return BootstrapEstimate(value, *(bounds or (None, None)))


def _spoken(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation marks."""
    return [word.lower() for word in words(text) if any(map(str.isalnum, word))]
