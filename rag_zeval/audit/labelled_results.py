"""A labelled sheet joined with the results that it was drawn from, and how far judge and people agree on them."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from rag_zeval.audit import agreement as of
from rag_zeval.audit.agreement import Measure, Ratings, Statistic
from rag_zeval.audit.corrected_comparison import read_sheet
from rag_zeval.audit.corrected_mean import labelled_sample
from rag_zeval.audit.sheet import CLAIM, Item, Label, SheetPlan, check_drawn_from, read_items


@dataclass(frozen=True)
class LabelledResults:
    """All items of a metric that a sheet was drawn from, and people's labels of at least one of them.

    labels: by row id. threshold: the minimum score, from 0 to 1, that counts as good.
    """

    plan: SheetPlan
    items: Sequence[Item]
    labels: Mapping[str, Label]
    threshold: float

    @cached_property
    def rows(self) -> list[tuple[Item, Label]]:
        """The items that have a label."""
        return [(item, self.labels[item.id]) for item in self.items if item.id in self.labels]

    @cached_property
    def values(self) -> Ratings:
        """Scores and labels of `rows`, each weighted by the number of items that it stands for."""
        sample = labelled_sample(self.items, self.labels)
        assert sample is not None, "there is a label"
        return Ratings(
            first=np.array([item.score for item, _ in self.rows]),
            second=np.array([label.value for _, label in self.rows]),
            weights=sample.weights,
            cases=[item.case for item, _ in self.rows],
            levels=2 if self.plan.unit == CLAIM else 5,
        )

    @cached_property
    def classes(self) -> Ratings:
        """The ratings in two classes: 1 for good, 0 for the rest."""
        return self.values.classes(self.threshold)

    @property
    def good(self) -> tuple[str, str]:
        """The names of the classes 1 and 0."""
        return ("supported", "not supported") if self.plan.unit == CLAIM else (f"{self.threshold:g} or more", "less")

    def agreement(self) -> list[tuple[str, Statistic]]:
        """Return every statistic of agreement with its name.

        Sensitivity and specificity weight a claim as the score does: by 1 / the number of claims in its answer.
        """
        shares = np.array([item.share for item, _ in self.rows])
        by_score = dataclasses.replace(self.classes, weights=self.classes.weights * shares)
        lines: list[tuple[str, Measure, Ratings]] = [
            (f"{self.good[0]}, according to the judge", of.share_first, self.classes),
            (f"{self.good[0]}, according to people", of.share_second, self.classes),
            ("raw agreement", of.raw_agreement, self.classes),
            ("balanced accuracy", of.balanced_accuracy, self.classes),
            ("sensitivity", of.sensitivity, by_score),
            ("specificity", of.specificity, by_score),
            ("Cohen's kappa", of.kappa, self.classes),
            ("Kendall's tau-b", of.kendall, self.values),
        ]
        if ((self.values.second > 0) & (self.values.second < 1)).any():
            lines += [
                ("kappa of grades, linear weights", of.linear_kappa, self.values),
                ("kappa of grades, quadratic weights", of.quadratic_kappa, self.values),
            ]
        return [(name, of.estimate(measure, ratings)) for name, measure, ratings in lines]

    def agreement_by_slice(self) -> list[tuple[str, Statistic, Statistic]]:
        """Return raw agreement and Cohen's kappa within each slice that has a label."""
        slices = [item.slice for item, _ in self.rows]
        parts = [(name, self.classes.only(np.array([of == name for of in slices]))) for name in sorted(set(slices))]
        return [(name, of.estimate(of.raw_agreement, part), of.estimate(of.kappa, part)) for name, part in parts]

    def counts(self) -> list[tuple[str, int, int]]:
        """Return, for each class of the judge, how many rows people call good and not good. Not weighted."""
        table = dataclasses.replace(self.classes, weights=np.ones(len(self.rows))).confusion()
        return [(name, table[at][1], table[at][0]) for name, at in zip(self.good, (1, 0), strict=True)]


def read_labelled(sheet: Path, results: Path, threshold: float) -> LabelledResults:
    """Read a labelled sheet and the results that it was drawn from.

    Raises InputError as `read_sheet` and `read_items` do, and for a sheet that was drawn from other results.
    """
    labelled = read_sheet(sheet)
    plan = labelled.plan
    items = read_items(results, plan.unit, plan.metric).items
    check_drawn_from(sheet, plan, results, items)
    return LabelledResults(plan, items, labelled.labels, threshold)
