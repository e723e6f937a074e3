"""How far two raters agree on rows drawn with known probabilities: statistics with 95% bootstrap intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_zeval.errors import needed
from rag_zeval.statistics.bootstrap import DRAWS, Mask, multiplicities
from rag_zeval.statistics.weighted_correlations import Floats
from rag_zeval.text import with_interval

Ints = NDArray[np.intp]

RESAMPLES = DRAWS // 5
SEED = 0


@dataclass(frozen=True)
class Ratings:
    """What two raters, the judge first, say of the same rows.

    first, second: (rows,) values in [0, 1]. weights: (rows,) how many rows of the population each stands for, the
    inverse of its probability of being drawn. cases: what each row belongs to; rows of a case are not independent.
    levels: into how many classes of equal distance tables sort the values, by the nearest.
    """

    first: Floats
    second: Floats
    weights: Floats
    cases: Sequence[str]
    levels: int = 2

    def only(self, keep: Mask) -> Ratings:
        """The rows that are kept."""
        cases = [case for case, kept in zip(self.cases, keep, strict=True) if kept]
        return dataclasses.replace(
            self, first=self.first[keep], second=self.second[keep], weights=self.weights[keep], cases=cases
        )

    def classes(self, threshold: float) -> Ratings:
        """The same with two classes: values of at least `threshold`, and those below."""
        first, second = (values >= threshold for values in (self.first, self.second))
        return dataclasses.replace(self, first=first.astype(float), second=second.astype(float), levels=2)

    def tables(self, times: Floats) -> Floats:
        """(draws, levels, levels): the sum of `times` (draws, rows) over the rows of each pair of classes."""
        top = self.levels - 1
        first, second = (np.floor(values * top + 0.5).astype(int) for values in (self.first, self.second))
        return _tables(first, second, (self.levels, self.levels), times)

    def confusion(self) -> list[list[int]]:
        """For each class of the first rater, the weight, rounded, of the rows that the second puts into each class."""
        [table] = self.tables(self.weights[None])
        return [[round(weight) for weight in row] for row in table]


@dataclass(frozen=True)
class Statistic:
    """A statistic of n rows; its value is None where undefined, and its 95% interval also with fewer than two cases."""

    value: float | None
    interval: tuple[float, float] | None
    n: int

    def __str__(self) -> str:
        low, high = self.interval or (None, None)
        return with_interval(self.value, low, high, none="undefined")


Measure = Callable[[Ratings, Floats], Floats]  # its value for each draw: the rows' weights are (draws, rows)


def share_first(ratings: Ratings, times: Floats) -> Floats:
    """The mean of the first rater's values."""
    return times @ ratings.first / times.sum(1)


def share_second(ratings: Ratings, times: Floats) -> Floats:
    """The mean of the second rater's values."""
    return times @ ratings.second / times.sum(1)


def raw_agreement(ratings: Ratings, times: Floats) -> Floats:
    """The share of rows that both put into the same class."""
    tables = ratings.tables(times)
    return np.trace(tables, axis1=1, axis2=2) / tables.sum((1, 2))


def kappa(ratings: Ratings, times: Floats) -> Floats:
    """Cohen's kappa: 1 - disagreement seen / disagreement by chance (Cohen 1960, Educ. Psychol. Meas. 20, 37-46)."""
    return _kappa(ratings.tables(times), power=0)


def linear_kappa(ratings: Ratings, times: Floats) -> Floats:
    """Weighted kappa: a disagreement costs as much as it is steps wide (Cohen 1968, Psychol. Bull. 70, 213-220)."""
    return _kappa(ratings.tables(times), power=1)


def quadratic_kappa(ratings: Ratings, times: Floats) -> Floats:
    """Weighted kappa: a disagreement costs the square of its steps."""
    return _kappa(ratings.tables(times), power=2)


def _kappa(tables: Floats, power: int) -> Floats:
    """The kappas (draws,) of the tables (draws, k, k); a cell costs steps ** power, for 0: 1 off the diagonal."""
    classes = np.arange(tables.shape[1])
    steps = np.abs(classes[:, None] - classes)
    cost = np.where(steps == 0, 0.0, steps.astype(float) ** power)
    by_chance = tables.sum(2)[:, :, None] * tables.sum(1)[:, None, :] / tables.sum((1, 2))[:, None, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return 1 - (cost * tables).sum((1, 2)) / (cost * by_chance).sum((1, 2))


def balanced_accuracy(ratings: Ratings, times: Floats) -> Floats:
    """The mean, over the second rater's classes, of the share that the first puts into the same class."""
    tables = ratings.tables(times)
    return np.stack([_share_alike(tables, second) for second in range(tables.shape[1])]).mean(0)


def sensitivity(ratings: Ratings, times: Floats) -> Floats:
    """Of the rows that the second rater puts into the upper of two classes, the share that the first does too."""
    return _share_alike(ratings.tables(times), 1)


def specificity(ratings: Ratings, times: Floats) -> Floats:
    """The same of the lower class."""
    return _share_alike(ratings.tables(times), 0)


def _share_alike(tables: Floats, second: int) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return tables[:, second, second] / tables[:, :, second].sum(1)


def kendall(ratings: Ratings, times: Floats) -> Floats:
    """Kendall's tau-b of the values as they are (Kendall 1945, Biometrika 33, 239-251)."""
    tables = _tables_of_values(ratings, times)
    above = np.cumsum(tables, axis=1) - tables  # in each column, the rows of the table above a cell
    left = np.cumsum(above, axis=2) - above
    right = above.sum(2, keepdims=True) - above - left
    sides = (tables.sum(2), tables.sum(1))
    apart_first, apart_second = (((np.cumsum(side, axis=1) - side) * side).sum(1) for side in sides)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (tables * (left - right)).sum((1, 2)) / np.sqrt(apart_first * apart_second)


def spearman(ratings: Ratings, times: Floats) -> Floats:
    """Spearman's rho of the values as they are: Pearson's r of their mid-ranks (Spearman 1904, Am. J. Psychol. 15)."""
    tables = _tables_of_values(ratings, times)
    sides = (tables.sum(2), tables.sum(1))
    # the mid-rank of each value, minus the mean of all: what lies below it and half of its own, minus half of all
    first, second = (np.cumsum(side, axis=1) - side / 2 - side.sum(1, keepdims=True) / 2 for side in sides)
    spreads = [(side * ranks**2).sum(1) for side, ranks in zip(sides, (first, second), strict=True)]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.einsum("dij,di,dj->d", tables, first, second) / np.sqrt(spreads[0] * spreads[1])


def _tables_of_values(ratings: Ratings, times: Floats) -> Floats:
    """As `Ratings.tables`, with a class for each value that there is, in rising order."""
    (first, of_first), (second, of_second) = (
        np.unique(values, return_inverse=True) for values in (ratings.first, ratings.second)
    )
    return _tables(of_first, of_second, (len(first), len(second)), times)


def _tables(first: Ints, second: Ints, shape: tuple[int, int], times: Floats) -> Floats:
    of_cell = np.zeros((len(first), shape[0] * shape[1]))
    of_cell[np.arange(len(first)), first * shape[1] + second] = 1
    return (times @ of_cell).reshape(-1, *shape)


def estimate(measure: Measure, ratings: Ratings) -> Statistic:
    """The measure with its 95% interval, from RESAMPLES bootstrap draws of whole cases.

    The interval is Hesterberg's expanded percentile one (2015, The American Statistician 69, 371-386),
    whose levels are those of Student's t with cases - 1 degrees of freedom. Each draw also gets a row of average
    weight, spread at random over the cells of the table (Perks' prior, 1947, J. Inst. Actuaries 73, 285-334, in Rubin's
    Bayesian bootstrap, 1981, Annals of Statistics 9, 130-134): where few rows disagree, or none, draws of the rows
    alone would give an interval far too short, or a point. Coverage: `python -m experiments.kappa_intervals`.
    """
    value = float(measure(ratings, ratings.weights[None])[0])
    if math.isnan(value):
        return Statistic(None, None, len(ratings.first))
    bounds = _bounds(measure(*_draws(ratings)), ratings)
    # that row moves the draws: what was seen belongs to the interval even where nobody disagrees
    around = (min(bounds[0], value), max(bounds[1], value)) if bounds else None
    return Statistic(value, around, len(ratings.first))


def difference(measure: Measure, ratings: Ratings, other: Ratings) -> Statistic:
    """The measure of `ratings` minus that of `other`, both of the same rows and drawn together; as `estimate`."""
    apart = float((measure(ratings, ratings.weights[None]) - measure(other, other.weights[None]))[0])
    if math.isnan(apart):
        return Statistic(None, None, len(ratings.first))
    return Statistic(apart, _bounds(measure(*_draws(ratings)) - measure(*_draws(other)), ratings), len(ratings.first))


def _draws(ratings: Ratings) -> tuple[Ratings, Floats]:
    """The ratings with a row for each cell of the table at the end, and their weights (draws, rows) in each draw."""
    k, values = ratings.levels, np.linspace(0, 1, ratings.levels)
    cases, of_row = np.unique(np.array(ratings.cases), return_inverse=True)
    # rows of a case with the same two values are one of their weight: thousands of grades become a few hundred rows
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
