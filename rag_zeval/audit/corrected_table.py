"""Corrected means of all answers, of each system and of each slice, as `audit`, pages and files show them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_zeval.audit.agreement import Statistic
from rag_zeval.audit.corrected_comparison import read_sheet
from rag_zeval.audit.corrected_mean import (
    ErrorRates,
    LabelledSample,
    best_power,
    by_error_rates,
    corrected_mean,
    labelled_sample,
    labels_alone,
)
from rag_zeval.audit.sheet import CLAIM, Item, Label, SheetPlan, check_drawn_from, items_of
from rag_zeval.cases.case import ALL
from rag_zeval.csv_files import sheet_text
from rag_zeval.files import write_text
from rag_zeval.results import Judged

HEADS = ("mean score", "judge", "corrected", "labels alone", "labels")
COLUMNS = (
    *("metric", "answers", "labels", "judge"),
    *(f"{name}{end}" for name in ("corrected", "labels alone") for end in ("", " low", " high")),
    *("sensitivity", "specificity", *(f"by error rates{end}" for end in ("", " low", " high"))),
)  # fmt: skip


@dataclass(frozen=True)
class CorrectedMeans:
    """Three means of the same answers: the judge's, the one corrected by people's labels, and that of the labels alone.

    Attributes:
        answers: Which answers: "all", "system: NAME" or "slice: NAME".
        judge: The judge's mean, from 0 to 1.
        corrected: The mean that people would have given, with its 95% interval and the number of labels.
        labels_alone: The same mean without the judge's scores.
        error_rates: The judge's sensitivity and specificity, and the mean that they imply. None if people label whole
            answers, or if the labels give no such mean (see `by_error_rates`).
        difference: Why the mean of `error_rates` lies outside the interval of `corrected`. None if it does not.
        unlabelled: How many rows no label stands for, in words. None if there are none.
    """

    answers: str
    judge: float
    corrected: Statistic
    labels_alone: Statistic
    error_rates: ErrorRates | None
    difference: str | None
    unlabelled: str | None

    @property
    def cells(self) -> list[str]:
        """The row for a table with the column heads HEADS."""
        return [self.answers, f"{self.judge:.3f}", str(self.corrected), str(self.labels_alone), str(self.corrected.n)]

    @property
    def notes(self) -> list[str]:
        """Lines to print below the table: about the mean by the error rates, and about rows without a label."""
        said = [self.difference, self.unlabelled]
        if rates := self.error_rates:
            said.insert(
                0,
                f"sensitivity {rates.sensitivity:.3f}, specificity {rates.specificity:.3f}; "
                f"corrected by these two alone: {rates.mean}",
            )
        return [line for line in said if line]


def corrected_scores(judged: Iterable[Judged], sheet: str | Path) -> list[CorrectedMeans]:
    """Estimate the means that people would have given to answers, from a labelled sheet of `rag-zeval sample`.

        for one in corrected_scores(read_judged("answers.results.jsonl"), "sheet.csv"):
            print(one.answers, one.judge, one.corrected)

    Args:
        judged: All answers that the sheet was drawn from, as `evaluate` and `read_judged` return them. Answers of
            other metrics are ignored.
        sheet: The sheet. Its .json file must be beside it.

    Returns:
        The means of all answers. If there are several systems or slices, the means of each one with a label follow.

    Raises:
        InputError: For a sheet that cannot be read, has no label, or was drawn from other answers.
    """
    labelled = read_sheet(Path(sheet))
    plan = labelled.plan
    items = [item for one in judged if one.metric == plan.metric for item in items_of(one, plan.unit)]
    check_drawn_from(labelled.path, plan, "these results", items)
    return means_by_group(groups_of(items), labelled.labels, plan)


def groups_of(items: Sequence[Item]) -> dict[str, Sequence[Item]]:
    """Group the items: all of them, those of each system if there are several, and the same for slices."""
    groups: dict[str, Sequence[Item]] = {ALL: items}
    for kind in ("system", "slice"):
        names = sorted({getattr(item, kind) for item in items})
        for name in names if len(names) > 1 else ():
            groups[f"{kind}: {name}"] = [item for item in items if getattr(item, kind) == name]
    return groups


def means_by_group(
    groups: Mapping[str, Sequence[Item]], labels: Mapping[str, Label], plan: SheetPlan
) -> list[CorrectedMeans]:
    """Return the means of each group that has a label. labels: by row id, as `SheetPlan.weigh` returns them."""
    return [
        _means(name, sample, plan.unit, plan.without_label(items, labels))
        for name, items in groups.items()
        if (sample := labelled_sample(items, labels))
    ]


def _means(name: str, sample: LabelledSample, unit: str, unlabelled: str | None) -> CorrectedMeans:
    corrected = corrected_mean(sample)
    rates = by_error_rates(sample) if unit == CLAIM else None
    why = _difference(sample, corrected, rates) if rates else None
    return CorrectedMeans(name, sample.judge_mean, corrected, labels_alone(sample), rates, why, unlabelled)


def _difference(sample: LabelledSample, corrected: Statistic, rates: ErrorRates) -> str | None:
    """Say why the mean by the error rates is outside the corrected mean's interval. None if it is inside.

    Both start from the labels' mean and add f x (judge's mean of all rows - judge's mean of the labelled rows). This
    leaves out rounding and the rows added for few labels. By the error rates, f is 1 / (sensitivity + specificity - 1).
    For the corrected mean, f is its power.
    """
    assert rates.mean.value is not None, "rates give a mean"
    if corrected.interval is None or corrected.interval[0] <= rates.mean.value <= corrected.interval[1]:
        return None
    weights = sample.weights * sample.shares[sample.drawn]
    labelled = float(weights @ sample.scores[sample.drawn] / weights.sum())
    factor = 1 / (rates.sensitivity + rates.specificity - 1)
    return (
        f"the two corrections differ: the judge's mean is {labelled:.3f} on the labelled claims and "
        f"{sample.judge_mean:.3f} on all. Sensitivity and specificity multiply this gap by {factor:.2f}, the corrected "
        f"mean by {best_power(sample):.2f}. Trust the corrected mean, or label more claims"
    )


def write_means(path: Path, metric: str, means: Sequence[CorrectedMeans]) -> None:
    """Write the means as a CSV file with the columns COLUMNS. An unknown value is an empty cell."""
    rows = []
    for one in means:
        rates = one.error_rates
        estimates = [*_numbers(one.corrected), *_numbers(one.labels_alone)]
        of_rates = [rates.sensitivity, rates.specificity, *_numbers(rates.mean)] if rates else [None] * 5
        numbers = ["" if number is None else repr(number) for number in (one.judge, *estimates, *of_rates)]
        rows.append([metric, one.answers, str(one.corrected.n), *numbers])
    write_text(path, sheet_text(COLUMNS, rows))


def _numbers(statistic: Statistic) -> list[float | None]:
    return [statistic.value, *(statistic.interval or (None, None))]
