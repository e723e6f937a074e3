"""How many rows people must label for an interval of a certain width: by simulated audits of the results at hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from rag_zeval.audit.agreement import Statistic
from rag_zeval.audit.corrected_mean import LabelledSample, corrected_mean, labelled_sample
from rag_zeval.audit.sheet import LABELS, Item, Label, draw, strata_of

AUDITS = 20  # simulated for each number of rows
Guess = Callable[[Item, Random], float]  # a label that a person could give to an item


def by_agreement(unit: str, agreement: float) -> Guess:
    """People give the judge's value with this probability, else any of the others that the unit has, equally likely."""
    levels = sorted(set(LABELS[unit].values()))

    def guess(item: Item, random: Random) -> float:
        nearest = min(levels, key=lambda level: abs(level - item.score))
        return nearest if random.random() < agreement else random.choice([one for one in levels if one != nearest])

    return guess


def by_pilot(unit: str, items: Sequence[Item], labels: Mapping[str, Label]) -> Guess:
    """People label as they did so far within the item's stratum; one more label there could have been anything."""
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
    """The fewest rows whose interval is expected to be as narrow as asked for; None: all rows are not enough."""

    rows: int | None
    width: float  # expected, with these rows or with all


def rows_needed(
    items: Sequence[Item],
    guess: Guess,
    width: float,
    estimate: Callable[[LabelledSample], Statistic] = corrected_mean,
    seed: int = 0,
) -> RowsNeeded:
    """How many rows of these items give the estimate's 95% interval this width, on average over AUDITS simulations."""
    least, most = max(len(strata_of(items)), 2), len(items)

    def expected(rows: int) -> float:
        widths = []
        for audit in range(AUDITS):
            random = Random(f"{seed} {audit}")
            drawn = draw(items, rows, audit)
            labels = {item.id: Label(guess(item, random), "", "") for item, _ in drawn}
            sample = labelled_sample(items, labels)
            assert sample is not None, "every row is labelled"
            low, high = estimate(sample).interval or (0.0, 1.0)
            widths.append(high - low)
        return sum(widths) / AUDITS

    if (narrowest := expected(most)) > width:
        return RowsNeeded(None, narrowest)
    while least < most:
        middle = (least + most) // 2
        if expected(middle) <= width:
            most = middle
        else:
            least = middle + 1
    return RowsNeeded(most, expected(most))
