"""How well scores tell supported texts from unsupported ones. Intervals resample whole documents.

A score of at least a threshold says "supported". The texts about one document depend on each other. So they are one
cluster, which a bootstrap draw takes with all its texts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rag_zeval.errors import needed
from rag_zeval.statistics.bootstrap import BLOCK, Clusters, Mask, Statistic, columns_of
from rag_zeval.statistics.weighted_correlations import Floats

Formula = Callable[[Floats], Floats]  # sums (draws, k) -> values (draws,), NaN where undefined


@dataclass(frozen=True, eq=False)
class OfSums(Statistic):
    """A formula of sums over instances, such as F1 of counts.

    parts: (instances, k), what each instance adds to each of the k sums. clusters: (instances,), its cluster.
    """

    parts: Floats
    formula: Formula
    clusters: Clusters

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        column, n = columns_of(self, keep), weights.shape[1]
        of_clusters = np.stack([np.bincount(column, part, n) for part in self.parts[keep].T], axis=1)
        return self.formula(weights @ of_clusters)


@dataclass(frozen=True, eq=False)
class Auroc(Statistic):
    """Share of pairs of a supported and an unsupported text in which the supported one scores higher, in [0, 1].

    A tie counts 1/2 (Mann and Whitney 1947). values: the scores (instances,). supported: the labels (instances,).
    clusters: as in OfSums.
    """

    values: Floats
    supported: Mask
    clusters: Clusters

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        with needed("scipy", "the area under a curve"):
            from scipy.sparse import csr_array

        levels, level = np.unique(self.values[keep], return_inverse=True)
        column, supported = columns_of(self, keep), self.supported[keep]
        shape = (weights.shape[1], len(levels))
        positive, negative = (
            csr_array((np.ones(int(chosen.sum())), (column[chosen], level[chosen])), shape)
            for chosen in (supported, ~supported)
        )
        rows, found = max(1, BLOCK // max(1, len(levels))), []
        for start in range(0, len(weights), rows):
            some = weights[start : start + rows]
            right, wrong = np.asarray(some @ positive), np.asarray(some @ negative)  # texts by score, ascending
            below = np.cumsum(wrong, axis=1) - wrong / 2
            found.append(_quotient((right * below).sum(1), right.sum(1) * wrong.sum(1)))
        return np.concatenate(found)


def _quotient(top: Floats, bottom: Floats) -> Floats:
    """Return top / bottom; NaN where it is undefined."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return top / bottom


def confusion(says_supported: Mask, supported: Mask) -> Floats:
    """Return 0 or 1 (texts, 4) for: supported and found, supported and missed, unsupported and found, and missed."""
    says, is_so = says_supported, supported
    return np.stack([is_so & says, is_so & ~says, ~is_so & ~says, ~is_so & says], axis=1).astype(float)


def balanced_accuracy(sums: Floats) -> Floats:
    """Return the mean of the shares of supported and of unsupported texts that are classified correctly.

    sums: of the columns of `confusion`. In [0, 1]; NaN if one of the two classes is empty.
    """
    return (_quotient(sums[:, 0], sums[:, 0] + sums[:, 1]) + _quotient(sums[:, 2], sums[:, 2] + sums[:, 3])) / 2


def f1_unsupported(sums: Floats) -> Floats:
    """Return F1 of finding the unsupported texts, from sums of `confusion`; NaN if there are none and none is found."""
    return f1(np.stack([sums[:, 2], sums[:, 2] + sums[:, 1], sums[:, 2] + sums[:, 3]], axis=1))


def f1(sums: Floats) -> Floats:
    """Return F1 = 2 · both / (found + true). sums (draws, 3): both found and true, found, true."""
    return _quotient(2 * sums[:, 0], sums[:, 1] + sums[:, 2])


def precision(sums: Floats) -> Floats:
    """Return both / found, from the same sums as `f1`."""
    return _quotient(sums[:, 0], sums[:, 1])


def recall(sums: Floats) -> Floats:
    """Return both / true, from the same sums as `f1`."""
    return _quotient(sums[:, 0], sums[:, 2])


def best_threshold(values: Floats, supported: Mask) -> float | None:
    """Return the threshold with the highest balanced accuracy, half-way between two scores; of several the lowest.

    It is -inf if none is better than calling every text supported. None unless there are texts of both kinds.

    >>> best_threshold(np.array([0.1, 0.4, 0.6]), np.array([False, False, True]))
    0.5
    """
    if supported.all() or not supported.any():
        return None
    levels, level = np.unique(values, return_inverse=True)
    of_supported, of_unsupported = (
        np.bincount(level[chosen], minlength=len(levels)) for chosen in (supported, ~supported)
    )
    missed, found = (np.concatenate([[0], np.cumsum(counts)]) for counts in (of_supported, of_unsupported))
    accuracy = 1 - missed / missed[-1] + found / found[-1]  # thresholds below level 0, 1, ... and above the last one
    best = int(np.argmax(accuracy.round(12)))
    if best == 0:
        return -math.inf
    return math.inf if best == len(levels) else float((levels[best - 1] + levels[best]) / 2)
