"""Estimates how many rows people must label for an interval of a given width, by simulating audits of the results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

from rag_zeval.audit.agreement import Statistic
from rag_zeval.audit.corrected_mean import LabelledSample, corrected_mean, labelled_sample
from rag_zeval.audit.sheet import LABELS, Item, Label, draw, strata_of

AUDITS = 20  # simulations for each number of rows
Guess = Callable[[Item, Random], float]  # draws a label that a person could give to an item


def by_agreement(unit: str, agreement: float) -> Guess:
    """Simulate people who give the judge's value with the probability `agreement`.

    The judge's value is the unit's value that is nearest to its score. Otherwise, all other values of the unit are
    equally likely.
    """
    levels = sorted(set(LABELS[unit].values()))

    def guess(item: Item, random: Random) -> float:
        nearest = min(levels, key=lambda level: abs(level - item.score))
        return nearest if random.random() < agreement else random.choice([one for one in levels if one != nearest])

    return guess


def by_pilot(unit: str, items: Sequence[Item], labels: Mapping[str, Label]) -> Guess:
    """Simulate people who label as they did so far within the item's stratum.

    One more label is added to each stratum, with a random value of the unit.
    """
    levels = sorted(set(LABELS[unit].values()))
    known = {
        name: [labels[item.id].value for item in stratum if item.id in labels]
        for name, stratum in strata_of(items).items()
    }

    def guess(item: Item, random: Random) -> float:
        seen = known[item.stratum]
        return seen[at] if (at := random.randrange(len(seen) + 1)) < len(seen) else random.choice(levels)

    return guess


@dataclass(frozen=True)
class RowsNeeded:
    """The smallest number of rows with an expected interval as narrow as required; None if all rows are not enough."""

    rows: int | None
    width: float  # expected with these rows; with all if `rows` is None


def expected_width(
    items: Sequence[Item],
    guess: Guess,
    rows: int,
    estimate: Callable[[LabelledSample], Statistic] = corrected_mean,
) -> float:
    """Return the mean width of the estimate's 95% interval with this many labelled rows, over AUDITS simulations.

    A simulation without an interval counts as width 1.
    """
    widths = []
    for audit in range(AUDITS):
        random = Random(f"0 {audit}")
        drawn = draw(items, rows, audit)
        labels = {item.id: Label(guess(item, random), "", "", 1 / probability) for item, probability in drawn}
        sample = labelled_sample(items, labels)
        assert sample is not None, "every row is labelled"
        low, high = estimate(sample).interval or (0.0, 1.0)
        widths.append(high - low)
    return sum(widths) / AUDITS


def rows_needed(
    items: Sequence[Item],
    guess: Guess,
    width: float,
    estimate: Callable[[LabelledSample], Statistic] = corrected_mean,
) -> RowsNeeded:
    """Find the fewest rows to label for which the estimate's 95% interval is expected to be at most `width` wide."""
    least, most = max(len(strata_of(items)), 2), len(items)
    if (narrowest := expected_width(items, guess, most, estimate)) > width:
        return RowsNeeded(None, narrowest)
    while least < most:
        middle = (least + most) // 2
        if expected_width(items, guess, middle, estimate) <= width:
            most = middle
        else:
            least = middle + 1
    return RowsNeeded(most, expected_width(items, guess, most, estimate))


def chance_to_find(difference: float, width: float) -> float:
    """Return the power, from 0 to 1, of a test at 5% for a true difference between two versions.

    width: width of the 95% interval of each version's corrected mean. The interval of the difference is then sqrt(2)
    times as wide, or narrower if the same questions are labelled in both. We use the normal distribution in place of
    Student's t.
    """
    reach = NormalDist().inv_cdf(0.975)
    return NormalDist().cdf(reach * (2**0.5 * difference / width - 1))
