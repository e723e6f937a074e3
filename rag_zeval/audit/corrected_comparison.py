"""Compares two sides by the scores that people would give, estimated from labelled sheets of both sides."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rag_zeval.audit.corrected_mean import (
    LabelledSample,
    corrected_difference,
    corrected_mean,
    labelled_sample,
)
from rag_zeval.audit.sheet import Item, Label, SheetPlan, items_of, read_labels, read_plan
from rag_zeval.cases.case import ALL, slice_name
from rag_zeval.decisions.comparison import Comparison, Difference
from rag_zeval.decisions.sides import Side
from rag_zeval.errors import InputError
from rag_zeval.statistics.bootstrap import BootstrapEstimate
from rag_zeval.statistics.discriminative_power import holm


@dataclass(frozen=True)
class LabelledSheet:
    """A sheet of `rag-zeval sample` that people have labelled."""

    path: Path
    plan: SheetPlan
    labels: Mapping[str, Label]


def read_sheet(path: Path) -> LabelledSheet:
    """Read a labelled sheet and its plan.

    Raises InputError as `read_plan` and `read_labels` do, and for a sheet without any label.
    """
    plan = read_plan(path)
    labels = read_labels(path, plan)
    if not labels:
        raise InputError(f"{path}: column 'label' is empty in every row: fill it in")
    return LabelledSheet(path, plan, labels)


@dataclass(frozen=True)
class _Labelled:
    """All items of a side that people could label, and the sheet that has labels of some of them."""

    items: Sequence[Item]
    sheet: LabelledSheet

    @property
    def unlabelled(self) -> str | None:
        """What no label stands for, in words (see `SheetPlan.without_label`)."""
        return self.sheet.plan.without_label(self.items, self.sheet.labels)

    def sample(self, slice_tag: str | None = None) -> LabelledSample | None:
        """Return the items of a slice, or all, with their labels. None if there are no labels."""
        return labelled_sample([item for item in self.items if slice_tag in (None, item.slice)], self.sheet.labels)


def correct(
    comparisons: Sequence[Comparison], sides: Sequence[Side], sheets: Sequence[LabelledSheet]
) -> list[Comparison]:
    """Return the comparisons of two sides, with `corrected` filled for each metric that the sheets have labels of.

    Such a metric needs one sheet for each side. A sheet that was drawn from a file of both systems serves both. Raises
    InputError for a metric with labels of one side only, for two sheets of one side and metric, and for a sheet of
    neither side. With labels of one side only, we would have to assume the same judge errors on the other side. Then
    the corrected difference would only be the judge's own, times its power (see `best_power`).
    """
    used: set[Path] = set()
    found = []
    for comparison in comparisons:
        of_sides = _labelled(sides, comparison.metric, sheets)
        there = [labelled for labelled in of_sides if labelled]
        used |= {labelled.sheet.path for labelled in there}
        if len(there) == 1:
            [other] = [side.name for side, labelled in zip(sides, of_sides, strict=True) if labelled is None]
            raise InputError(
                f"--labels {there[0].sheet.path}: shows the errors of {comparison.metric} on one side and nothing of "
                f"its errors on {other}: draw and label a sheet of {other} too"
            )
        missing = tuple(
            f"labels of {letter}: {said}"
            for letter, labelled in zip("AB", there, strict=False)
            if (said := labelled.unlabelled)
        )
        found.append(replace(comparison, corrected=_differences(*there), unlabelled=missing) if there else comparison)
    for sheet in sheets:
        if sheet.path not in used:
            raise InputError(f"--labels {sheet.path}: was drawn from neither of the two, or from a metric not compared")
    return found


def corrected_means(
    side: Side, metrics: Iterable[str], sheets: Sequence[LabelledSheet], alone: bool = False
) -> dict[str, tuple[BootstrapEstimate, int, str | None]]:
    """Return the mean that people would give to one side, by metric that a sheet is of.

    With it come the number of labels, and what no label stands for in words (see `_Labelled.unlabelled`). alone:
    whether no other side is compared. Raises InputError for a sheet with too few labels, and for two sheets of this
    side with the same metric; if alone, also for a sheet that was drawn from another file or from another metric.
    """
    found, used = {}, set()
    for metric in metrics:
        of_metric = [sheet for sheet in sheets if sheet.plan.metric == metric]
        whole = [sheet for sheet in of_metric if sheet.plan.probabilities.keys() <= _ids(_items(side, sheet))]
        [labelled] = _labelled([side], metric, whole or of_metric)  # a sheet of another version has rows of its own
        sample = labelled.sample() if labelled else None
        if labelled and (sample is None or corrected_mean(sample).interval is None):
            raise InputError(
                f"--labels {labelled.sheet.path}: too few labels of {side.name}: label rows of two cases or more"
            )
        if labelled and sample:
            used.add(labelled.sheet.path)
            found[metric] = _mean(sample), len(sample.labels), labelled.unlabelled
    for sheet in sheets if alone else ():
        if sheet.path not in used:
            raise InputError(f"--labels {sheet.path}: was not drawn from {side.name}, or from a metric without a bar")
    return found


def _labelled(sides: Sequence[Side], metric: str, sheets: Sequence[LabelledSheet]) -> list[_Labelled | None]:
    """Return each side's items with the sheet of this metric that has labels of them. None for a side without a sheet.

    An answer that two versions of a system share has the same id in both, so a sheet of one version may hold some
    answers of the other. They are no random sample of it: the sheet is only of the side that has all its rows. If none
    has, it was drawn from a file of several systems, and is of each of them. Raises InputError for several sheets of
    one side.
    """
    found: list[list[_Labelled]] = [[] for _ in sides]
    for sheet in sheets:
        if sheet.plan.metric == metric:
            items = [_items(side, sheet) for side in sides]
            held = [sheet.plan.probabilities.keys() & _ids(of_side) for of_side in items]
            every = set[str]().union(*held)  # without the rows of edited cases, which no side has
            owners: Sequence[int] = [at for at, rows in enumerate(held) if rows == every] or range(len(sides))
            for at in owners:
                if held[at] & sheet.labels.keys():
                    found[at].append(_Labelled(items[at], sheet))
    only = [of_side[0].sheet.path for of_side in found if len(of_side) == 1]
    for at, side in enumerate(sides):
        if len(found[at]) > 1:  # kept labels of unchanged answers may be all that the other side has
            found[at] = [one for one in found[at] if one.sheet.path not in only] or found[at]
        if len(found[at]) > 1:
            names = " and ".join(str(one.sheet.path) for one in found[at])
            raise InputError(f"--labels: {names} are both of {side.name}: name one")
    return [of_side[0] if of_side else None for of_side in found]


def _items(side: Side, sheet: LabelledSheet) -> list[Item]:
    """Return all items of a side that a sheet of it could have. Their cases are those by which the sides are paired.

    An item whose row in the sheet showed other texts has no id: it is not the one that people labelled.
    """
    return [
        replace(item, case=case, id="" if sheet.plan.edited(item) else item.id)
        for case, judged in side.judged[sheet.plan.metric].items()
        for item in items_of(judged, sheet.plan.unit)
    ]


def _ids(items: Iterable[Item]) -> set[str]:
    return {item.id for item in items}


def _differences(first: _Labelled, second: _Labelled) -> tuple[Difference, ...]:
    slices = list(dict.fromkeys(item.slice for item in (*first.items, *second.items)))
    overall = _difference(ALL, first.sample(), second.sample())
    parts = [_difference(slice_name(name), first.sample(name), second.sample(name)) for name in slices]
    adjusted = holm([part.p for part in parts])
    by_slice = [replace(part, p_holm=p) for part, p in zip(parts, adjusted, strict=True)]
    return (overall, *(by_slice if len(slices) > 1 else ()))


def _difference(name: str, first: LabelledSample | None, second: LabelledSample | None) -> Difference:
    n = sum(len(sample.labels) for sample in (first, second) if sample)
    found = corrected_difference(first, second) if first and second else None
    if first is None or second is None or found is None:
        return Difference(name, n, None, None, None, None, None, labels=n)
    change, p = found
    return Difference(name, n, _mean(first), _mean(second), change, None, p, labels=n)


def _mean(sample: LabelledSample) -> BootstrapEstimate:
    mean = corrected_mean(sample)
    assert mean.value is not None and mean.interval is not None, "a difference has two intervals"
    return BootstrapEstimate(mean.value, *mean.interval)
