"""Statistics of how far two raters agree on rows drawn with known probabilities, with 95% bootstrap intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_zeval.errors import needed
from rag_zeval.statistics.bootstrap import DRAWS, Mask, clusters_of, multiplicities
from rag_zeval.statistics.weighted_correlations import Floats
from rag_zeval.text import with_interval

Ints = NDArray[np.intp]

RESAMPLES = DRAWS // 5
SEED = 0


@dataclass(frozen=True)
class Ratings:
    """The values that two raters give to the same rows. The judge is the first rater.

    first, second: (rows,) values in [0, 1]. weights: (rows,) how many rows of the population each row stands for. This
    is the inverse of its probability of being drawn. cases: the case of each row; rows of one case are not independent.
    levels: number of classes in the tables. They are equally spaced from 0 to 1, and a value goes to the nearest.
    """

    first: Floats
    second: Floats
    weights: Floats
    cases: Sequence[str]
    levels: int = 2

    def only(self, keep: Mask) -> Ratings:
        """Return the ratings of the kept rows."""
        cases = [case for case, kept in zip(self.cases, keep, strict=True) if kept]
        return dataclasses.replace(
            self, first=self.first[keep], second=self.second[keep], weights=self.weights[keep], cases=cases
        )

    def classes(self, threshold: float) -> Ratings:
        """Return the ratings in two classes: 1 for values of at least `threshold`, 0 for those below."""
        first, second = (values >= threshold for values in (self.first, self.second))
        return dataclasses.replace(self, first=first.astype(float), second=second.astype(float), levels=2)

    def tables(self, times: Floats) -> Floats:
        """Sum `times` (draws, rows) over the rows of each pair of classes: (draws, levels, levels)."""
        top = self.levels - 1
        first, second = (np.floor(values * top + 0.5).astype(int) for values in (self.first, self.second))
        return _tables(first, second, (self.levels, self.levels), times)

    def confusion(self) -> list[list[int]]:
        """Return, for each class of the first rater, the rounded weight of the rows in each class of the second."""
        [table] = self.tables(self.weights[None])
        return [[round(weight) for weight in row] for row in table]


@dataclass(frozen=True)
class Statistic:
    """A statistic of n rows with its 95% interval.

    Both are None if the value is undefined. The interval is also None if there are fewer than two cases.
    """

    value: float | None
    interval: tuple[float, float] | None
    n: int

    def __str__(self) -> str:
        low, high = self.interval or (None, None)
        return with_interval(self.value, low, high, none="undefined")


Measure = Callable[[Ratings, Floats], Floats]  # (ratings, weights (draws, rows)) -> its value (draws,)


def share_first(ratings: Ratings, times: Floats) -> Floats:
    """Return the mean of the first rater's values."""
    return times @ ratings.first / times.sum(1)


def share_second(ratings: Ratings, times: Floats) -> Floats:
    """Return the mean of the second rater's values."""
    return times @ ratings.second / times.sum(1)


def raw_agreement(ratings: Ratings, times: Floats) -> Floats:
    """Return the share of rows that both raters put into the same class."""
    tables = ratings.tables(times)
    return np.trace(tables, axis1=1, axis2=2) / tables.sum((1, 2))


def kappa(ratings: Ratings, times: Floats) -> Floats:
    """Return Cohen's kappa: 1 - observed / chance disagreement (Cohen 1960, Educ. Psychol. Meas. 20, 37-46)."""
    return _kappa(ratings.tables(times), power=0)


def linear_kappa(ratings: Ratings, times: Floats) -> Floats:
    """Return weighted kappa: a disagreement by n classes costs n (Cohen 1968, Psychol. Bull. 70, 213-220)."""
    return _kappa(ratings.tables(times), power=1)


def quadratic_kappa(ratings: Ratings, times: Floats) -> Floats:
    """Return weighted kappa: a disagreement by n classes costs n squared."""
    return _kappa(ratings.tables(times), power=2)


def _kappa(tables: Floats, power: int) -> Floats:
    """Return the kappas (draws,) of the tables (draws, k, k).

    A cell costs its distance from the diagonal to the given power. With power 0 it costs 1, and 0 on the diagonal.
    """
    classes = np.arange(tables.shape[1])
    steps = np.abs(classes[:, None] - classes)
    cost = np.where(steps == 0, 0.0, steps.astype(float) ** power)
    by_chance = tables.sum(2)[:, :, None] * tables.sum(1)[:, None, :] / tables.sum((1, 2))[:, None, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return 1 - (cost * tables).sum((1, 2)) / (cost * by_chance).sum((1, 2))


def balanced_accuracy(ratings: Ratings, times: Floats) -> Floats:
    """Return the share of each class of the second rater that the first rater puts there too, averaged over classes."""
    tables = ratings.tables(times)
    return np.stack([_share_alike(tables, second) for second in range(tables.shape[1])]).mean(0)


def sensitivity(ratings: Ratings, times: Floats) -> Floats:
    """Return the share of the second rater's upper class (of two) that the first rater puts there too."""
    return _share_alike(ratings.tables(times), 1)


def specificity(ratings: Ratings, times: Floats) -> Floats:
    """Return the share of the second rater's lower class (of two) that the first rater puts there too."""
    return _share_alike(ratings.tables(times), 0)


def _share_alike(tables: Floats, second: int) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return tables[:, second, second] / tables[:, :, second].sum(1)


def kendall(ratings: Ratings, times: Floats) -> Floats:
    """Return Kendall's tau-b of the values, not of their classes (Kendall 1945, Biometrika 33, 239-251)."""
    tables = _tables_of_values(ratings, times)
    above = np.cumsum(tables, axis=1) - tables  # for each cell, the weight above it in its column
    left = np.cumsum(above, axis=2) - above
    right = above.sum(2, keepdims=True) - above - left
    sides = (tables.sum(2), tables.sum(1))
    apart_first, apart_second = (((np.cumsum(side, axis=1) - side) * side).sum(1) for side in sides)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (tables * (left - right)).sum((1, 2)) / np.sqrt(apart_first * apart_second)


def spearman(ratings: Ratings, times: Floats) -> Floats:
    """Return Spearman's rho of the values, not of their classes: Pearson's r of their mid-ranks.

    Source: Spearman 1904, Am. J. Psychol. 15.
    """
    tables = _tables_of_values(ratings, times)
    sides = (tables.sum(2), tables.sum(1))
    # mid-rank of each value (weight below it + half of its own weight) minus the mean mid-rank (half of all weight)
    first, second = (np.cumsum(side, axis=1) - side / 2 - side.sum(1, keepdims=True) / 2 for side in sides)
    spreads = [(side * ranks**2).sum(1) for side, ranks in zip(sides, (first, second), strict=True)]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.einsum("dij,di,dj->d", tables, first, second) / np.sqrt(spreads[0] * spreads[1])


def _tables_of_values(ratings: Ratings, times: Floats) -> Floats:
    """Sum `times` as `Ratings.tables` does, with a class for each distinct value, in ascending order."""
    (first, of_first), (second, of_second) = (
        np.unique(values, return_inverse=True) for values in (ratings.first, ratings.second)
    )
    return _tables(of_first, of_second, (len(first), len(second)), times)


def _tables(first: Ints, second: Ints, shape: tuple[int, int], times: Floats) -> Floats:
    of_cell = np.zeros((len(first), shape[0] * shape[1]))
    of_cell[np.arange(len(first)), first * shape[1] + second] = 1
    return (times @ of_cell).reshape(-1, *shape)


def estimate(measure: Measure, ratings: Ratings) -> Statistic:
    """Return the measure with its 95% interval, from RESAMPLES bootstrap draws of whole cases.

    The interval is Hesterberg's expanded percentile interval (2015, The American Statistician 69, 371-386). Its levels
    are those of Student's t with cases - 1 degrees of freedom. Each draw also gets an added row of average weight,
    spread at random over the cells of the table. This is Perks' prior (1947, J. Inst. Actuaries 73, 285-334) in Rubin's
    Bayesian bootstrap (1981, Annals of Statistics 9, 130-134). Without it, the interval would be far too short, or a
    single point, if few or no rows disagree. To check the coverage: `python -m experiments.kappa_intervals`.
    """
    value = float(measure(ratings, ratings.weights[None])[0])
    if math.isnan(value):
        return Statistic(None, None, len(ratings.first))
    bounds = _bounds(measure(*_draws(ratings)), ratings)
    # the added row moves the draws, so the observed value may lie outside of them: widen the interval to include it
    around = (min(bounds[0], value), max(bounds[1], value)) if bounds else None
    return Statistic(value, around, len(ratings.first))


def difference(measure: Measure, ratings: Ratings, other: Ratings) -> Statistic:
    """Return the measure of `ratings` minus that of `other`, with its 95% interval.

    Both must be of the same rows, which are resampled together. The draws are those of `estimate`. Unlike there, the
    interval is not widened to include the value.
    """
    apart = float((measure(ratings, ratings.weights[None]) - measure(other, other.weights[None]))[0])
    if math.isnan(apart):
        return Statistic(None, None, len(ratings.first))
    return Statistic(apart, _bounds(measure(*_draws(ratings)) - measure(*_draws(other)), ratings), len(ratings.first))


def _draws(ratings: Ratings) -> tuple[Ratings, Floats]:
    """Return the ratings, followed by a row for each cell of the table, and the weights (draws, rows) of both."""
    k, values = ratings.levels, np.linspace(0, 1, ratings.levels)
    cases, of_row = clusters_of(ratings.cases)
    # merge rows of a case with the same two values, adding their weights: thousands of grades become a few hundred rows
    kinds, of_kind = np.unique(np.stack([of_row, ratings.first, ratings.second]), axis=1, return_inverse=True)
    weights = np.bincount(of_kind.ravel(), ratings.weights)
    times = multiplicities(len(cases), RESAMPLES, SEED)[:, kinds[0].astype(int)] * weights
    spread = np.random.default_rng(SEED + 1).gamma(1 / k**2, size=(RESAMPLES, k**2)) * ratings.weights.mean()
    first = np.concatenate([kinds[1], np.repeat(values, k)])
    second = np.concatenate([kinds[2], np.tile(values, k)])
    return dataclasses.replace(ratings, first=first, second=second), np.concatenate([times, spread], axis=1)


def _bounds(draws: Floats, ratings: Ratings) -> tuple[float, float] | None:
    cases, defined = len(set(ratings.cases)), draws[~np.isnan(draws)]
    if cases < 2 or not len(defined):
        return None
    with needed("scipy", "the interval of an agreement"):
        from scipy.stats import norm, t
    tail = norm.cdf(math.sqrt(cases / (cases - 1)) * t.ppf(0.025, cases - 1))
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high)
