"""Estimates the mean that people would give to all rows, from the judge's scores and people's labels of a few.

If a tenth of a judge's verdicts are wrong, its mean is off by up to ten points. The labels of a sample show by how
much. The judge's scores of all rows make the estimate more precise than the labels alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_zeval.audit.agreement import Statistic
from rag_zeval.audit.sheet import Item, Label
from rag_zeval.errors import needed
from rag_zeval.statistics.bootstrap import BootstrapEstimate, clusters_of
from rag_zeval.statistics.weighted_correlations import Floats

# Rows added to the labelled ones: one for each pair of a score and a label of 0 or 1, each of average weight. A few
# labels show few of the judge's errors, so intervals without these rows would be too narrow. Grades lie closer together
# than 0 and 1, but the added rows are the same for them: rows as close together would hide a rare grade.
ADDED_SCORES, ADDED_LABELS = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0, 1.0])
ROUNDING = 1e-9


@dataclass(frozen=True)
class LabelledSample:
    """The judge's scores of all rows, and people's labels of a random sample of them.

    Attributes:
        scores: (rows,) the judge's scores, from 0 to 1.
        shares: (rows,) weight of each row in the mean. For a claim it is 1 / the number of claims in its answer.
        cases: (rows,) the case of each row; rows of one case are not independent.
        drawn: (labels,) the indices in `scores` of the rows that have a label.
        labels: (labels,) people's labels, from 0 to 1.
        weights: (labels,) how many rows each labelled row stands for.
    """

    scores: Floats
    shares: Floats
    cases: Sequence[str]
    drawn: NDArray[np.intp]
    labels: Floats
    weights: Floats

    @property
    def judge_mean(self) -> float:
        """The mean of the judge's scores over all rows, weighted by their shares."""
        return float(self.scores @ self.shares / self.shares.sum())


def labelled_sample(items: Sequence[Item], labels: Mapping[str, Label]) -> LabelledSample | None:
    """Combine items that a sheet was drawn from with the labels of some, by item id; None if no item has a label.

    `items` may be all items or a part of them, such as one system's.
    """
    drawn = [at for at, item in enumerate(items) if item.id in labels]
    if not drawn:
        return None
    return LabelledSample(
        scores=np.array([item.score for item in items]),
        shares=np.array([item.share for item in items]),
        cases=[item.case for item in items],
        drawn=np.array(drawn),
        labels=np.array([labels[items[at].id].value for at in drawn]),
        weights=np.array([labels[items[at].id].stands_for for at in drawn]),
    )


def corrected_mean(sample: LabelledSample) -> Statistic:
    """Estimate the mean of the labels that all rows would have, with its 95% interval.

    Prediction-powered inference: power x the judge's mean of all rows + the mean of (label - power x score) of the
    labelled rows (Angelopoulos et al. 2023, Science 382, 669-674). The power is the one with the least variance (PPI++,
    arXiv 2311.01453). The interval is valid for any judge, and narrower for a better one. To check its coverage:
    `python -m experiments.corrected_coverage`.
    """
    return mean_of_labels(sample, best_power(sample))


def labels_alone(sample: LabelledSample) -> Statistic:
    """Estimate the same mean without the judge: the weighted mean of the labels, with its 95% interval."""
    return mean_of_labels(sample, 0.0)


@dataclass(frozen=True)
class ErrorRates:
    """A judge's sensitivity and specificity, from 0 to 1.

    sensitivity: the share of the claims called true by people that the judge accepts. specificity: the share of the
    claims called false that it rejects. mean: the share of true claims that these two imply, with its 95% interval.
    """

    sensitivity: float
    specificity: float
    mean: Statistic


def by_error_rates(sample: LabelledSample) -> ErrorRates | None:
    """Correct the mean by the judge's error rates. Scores and labels must be 0 or 1.

    The mean is (judge's mean + specificity - 1) / (sensitivity + specificity - 1): Rogan and Gladen 1978, Am. J.
    Epidemiology 107, 71-76. Its interval: Lang and Reiczigel 2014, Preventive Veterinary Medicine 113, 13-22. None if
    people call all labelled rows true, or all of them false, or if the judge is no better than a coin.
    """
    with needed("scipy", "the interval of a corrected mean"):
        from scipy.stats import norm
    scores, labels, weights = _labelled(sample)
    n_true, n_false = float(labels.sum()), float((1 - labels).sum())
    if not n_true or not n_false:
        return None
    sensitivity = float(weights * labels @ scores / (weights @ labels))
    specificity = float(weights * (1 - labels) @ (1 - scores) / (weights @ (1 - labels)))
    if sensitivity + specificity < 1 + ROUNDING:
        return None
    value = (sample.judge_mean + specificity - 1) / (sensitivity + specificity - 1)

    z, n = float(norm.ppf(0.975)), len(sample.scores)
    n_shown, judge = n + z**2, (n * sample.judge_mean + z**2 / 2) / (n + z**2)
    found, kept = (n_true * sensitivity + 1) / (n_true + 2), (n_false * specificity + 1) / (n_false + 2)
    if found + kept <= 1:
        return None
    middle = (judge + kept - 1) / (found + kept - 1)
    of_found, of_kept = found * (1 - found) / (n_true + 2), kept * (1 - kept) / (n_false + 2)
    shift = 2 * z**2 * (middle * of_found - (1 - middle) * of_kept)
    variance = judge * (1 - judge) / n_shown + middle**2 * of_found + (1 - middle) ** 2 * of_kept
    reach = z * float(np.sqrt(variance)) / (found + kept - 1)
    low, high = (float(np.clip(middle + shift + side * reach, 0, 1)) for side in (-1, 1))
    mean = Statistic(float(np.clip(value, 0, 1)), (low, high), len(labels))
    return ErrorRates(sensitivity, specificity, mean)


def best_power(sample: LabelledSample) -> float:
    """Return the weight of the judge's scores in the corrected mean, from 0 to 1.

    It is the slope of labels on scores, with the added rows, clipped to this range.
    """
    scores, labels, weights = _with_added_rows(sample)
    apart = scores - weights @ scores
    return float(np.clip(weights * apart @ labels / (weights @ apart**2), 0.0, 1.0))


def mean_of_labels(sample: LabelledSample, power: float, added: bool = True) -> Statistic:
    """Estimate the corrected mean with the given power, from 0 to 1. `added`: whether to add the rows for few labels.

    The variance is that of a sum over cases, where a case contributes its scored and its labelled rows. This is the
    linearized estimator of survey sampling (Särndal, Swensson and Wretman 1992, Model Assisted Survey Sampling, section
    5.5). The interval uses the t distribution with (labelled cases - 1) degrees of freedom. The labelled cases count as
    their effective number for unequal weights (Kish 1965), and each added row as a case of its own. There is no
    interval if this number is below two.
    """
    found = _contributions(sample, power, added)
    value, n = float(np.clip(found.value, 0, 1)), len(sample.labels)
    if found.variance is None:
        return Statistic(value, None, n)
    reach = _t(found.freedom) * found.variance**0.5
    low, high = (float(np.clip(bound, 0, 1)) for bound in (found.value - reach, found.value + reach))
    return Statistic(value, (low, high), n)


def corrected_difference(first: LabelledSample, second: LabelledSample) -> tuple[BootstrapEstimate, float] | None:
    """Estimate the corrected mean of `second` minus that of `first`, and p of the two-sided t test that it is 0.

    The variance is computed from differences within each case, so two systems that answered the same questions are
    compared in pairs. The degrees of freedom are Welch's (1947, Biometrika 34, 28-35). None if a sample has no interval
    of its own.
    """
    ours, theirs = (_contributions(sample, best_power(sample)) for sample in (first, second))
    if ours.variance is None or theirs.variance is None:
        return None
    apart = {case: -part for case, part in ours.of_case.items()}
    for case, part in theirs.of_case.items():
        apart[case] = apart.get(case, 0.0) + part
    variance = sum(part**2 for part in apart.values()) + ours.of_added + theirs.of_added
    welch = (ours.variance + theirs.variance) ** 2
    freedom = welch / (ours.variance**2 / ours.freedom + theirs.variance**2 / theirs.freedom)
    value, spread = theirs.value - ours.value, variance**0.5
    reach = _t(freedom) * spread
    from scipy.stats import t

    estimate = BootstrapEstimate(value, value - reach, value + reach)
    return estimate, float(2 * t.sf(abs(value) / spread, freedom))


@dataclass(frozen=True)
class _Contributions:
    """A corrected mean, and the contributions of each case and of the added rows to its variance.

    of_case: contribution by case. The sum of their squares is the cases' part of the variance. of_added: the added
    rows' part. variance: None if there is no interval. freedom: degrees of freedom.
    """

    value: float
    of_case: dict[str, float]
    of_added: float
    variance: float | None
    freedom: float


def _contributions(sample: LabelledSample, power: float, added: bool = True) -> _Contributions:
    scores, labels, weights = _with_added_rows(sample) if added else _labelled(sample)
    shares = sample.shares / sample.shares.sum()
    left = labels - power * scores
    mean_left = float(weights @ left)

    names, of_row = clusters_of(sample.cases)
    n = len(sample.labels)
    parts = np.bincount(of_row, power * shares * (sample.scores - sample.judge_mean), minlength=len(names))
    parts += np.bincount(of_row[sample.drawn], (weights * (left - mean_left))[:n], minlength=len(names))
    of_added = float(np.sum((weights * (left - mean_left))[n:] ** 2))
    case_weights = np.bincount(of_row[sample.drawn], weights[:n])
    cases = 1 / float(case_weights @ case_weights + np.sum(weights[n:] ** 2))
    value = power * sample.judge_mean + mean_left
    if cases < 2 - ROUNDING:
        return _Contributions(value, {}, 0.0, None, cases - 1)
    scale = cases / (cases - 1)
    of_case = dict(zip(names, (parts * scale**0.5).tolist(), strict=True))
    return _Contributions(value, of_case, of_added * scale, float(parts @ parts + of_added) * scale, cases - 1)


def _t(freedom: float) -> float:
    """Return how many standard errors a 95% interval reaches to each side."""
    with needed("scipy", "the interval of a corrected mean"):
        from scipy.stats import t
    return float(t.ppf(0.975, freedom))


def _labelled(sample: LabelledSample) -> tuple[Floats, Floats, Floats]:
    """Return scores, labels and weights of the labelled rows, each (labels,). The weights sum to 1."""
    weights = sample.weights * sample.shares[sample.drawn]
    return sample.scores[sample.drawn], sample.labels, weights / weights.sum()


def _with_added_rows(sample: LabelledSample) -> tuple[Floats, Floats, Floats]:
    scores, labels, weights = _labelled(sample)
    weights = np.concatenate([weights, np.full(len(ADDED_LABELS), 1 / len(weights))])
    return np.concatenate([scores, ADDED_SCORES]), np.concatenate([labels, ADDED_LABELS]), weights / weights.sum()
