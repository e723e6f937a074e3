"""Prints the tables of `rag-zeval audit`: agreement of judge and people, corrected means and disagreements."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from rag_zeval.audit import agreement as of
from rag_zeval.audit.agreement import Ratings, Statistic
from rag_zeval.audit.corrected_mean import corrected_mean, labels_alone
from rag_zeval.audit.corrected_table import HEADS, CorrectedMeans
from rag_zeval.audit.labelled_results import LabelledResults
from rag_zeval.audit.planning import by_agreement, by_pilot, chance_to_find, rows_needed
from rag_zeval.audit.sheet import Item, Label
from rag_zeval.errors import InputError
from rag_zeval.terminal_tables import print_framed
from rag_zeval.text import decimals_beside, one_line, with_interval


def print_agreement(labelled: LabelledResults) -> None:
    """Print every statistic of agreement, the confusion matrix, and the agreement within each slice."""
    found = [(name, str(one), str(one.n)) for name, one in labelled.agreement()]
    print_framed(("", "value [95% interval]", "n"), found)
    counts = [(f"judge: {name}", str(good), str(rest)) for name, good, rest in labelled.counts()]
    print_framed(("rows", *(f"people: {name}" for name in labelled.good)), counts)
    slices = [(name, str(raw), str(kappa), str(raw.n)) for name, raw, kappa in labelled.agreement_by_slice()]
    print_framed(("slice", "raw agreement", "Cohen's kappa", "n"), slices)


def print_corrected(means: Sequence[CorrectedMeans]) -> None:
    """Print the mean scores by the judge, corrected, and by the labels alone, and the notes about all answers."""
    print_framed(HEADS, [one.cells for one in means])
    for note in means[0].notes:
        print(note)


def print_rows_needed(
    items: Sequence[Item], unit: str, width: float, agreement: float, labels: Mapping[str, Label]
) -> None:
    """Print how many of the items people must label for an interval of this width, with and without the judge.

    labels: labels of a first sheet, from which later labels are simulated. If there are none, `agreement` is used: how
    often people agree with the judge. Raises InputError if width or agreement is not above 0 and at most 1.
    """
    for name, value in (("--width", width), ("--agreement", agreement)):
        if not 0 < value <= 1:
            raise InputError(f"{name} is {value:g}, but must be above 0 and at most 1")
    guess = by_pilot(unit, items, labels) if labels else by_agreement(unit, agreement)
    rows, widths = [], []
    for name, estimate in (("corrected score", corrected_mean), ("labels alone", labels_alone)):
        found = rows_needed(items, guess, width, estimate)
        widths.append(found.width)
        needed = f"{found.rows} of {len(items)}" if found.rows else f"more than all {len(items)}"
        rows.append((name, needed, f"{found.width:.3f}"))
    known = f"people agree with the judge on {agreement:.0%} of the {unit}s"
    if labels:
        known = f"people label the other {unit}s as they labelled these {len(labels)}"
    print(f"for a 95% interval of width {width:g}, if {known}:")
    print_framed(("", f"{unit}s to label", "expected width"), rows)
    differences = [width * part for part in (0.5, 1, 1.5)]
    chances = ", ".join(f"{one:.3f} in {chance_to_find(one, widths[0]):.0%}" for one in differences)
    print(
        f"if two versions get as many labels each, `compare --labels` finds a true difference of {chances} of "
        "comparisons"
    )


def print_disagreements(rows: Sequence[tuple[Item, Label]], threshold: float) -> None:
    """Print the rows on which judge and person differ, those with the largest gap first."""
    differ = [(item, label) for item, label in rows if (item.score >= threshold) != (label.value >= threshold)]
    print(f"{len(differ)} disagreements")
    for item, label in sorted(differ, key=lambda row: -abs(row[0].score - row[1].value)):
        said = f"score {item.score:.3f}" if item.claim is None else "supported" if item.score else "not supported"
        print(f"\n{item.id} (case {one_line(item.case)}, slice {one_line(item.slice)})")
        for name, text in {
            "question": item.question,
            "answer" if item.claim is None else "claim": item.asked_about,
            "judge": f"{said}; {item.analysis}" if item.analysis else said,
            "person": f"{label.text}; {label.note}" if label.note else label.text,
        }.items():
            print(f"    {name}: {one_line(text)}")
    print()


def print_ceiling(
    classes: Ratings, rows: Sequence[tuple[Item, Label]], others: Mapping[str, Label], threshold: float
) -> None:
    """Print the first person's kappa with the second person and with the judge, on the rows that both people labelled.

    others: the second person's labels by row id. At least one is of a row in `rows`.
    """
    judge = classes.only(np.array([item.id in others for item, _ in rows]))
    second = [others[item.id].value >= threshold for item, _ in rows if item.id in others]
    people = dataclasses.replace(judge, first=np.array(second, dtype=float))
    apart = of.difference(of.kappa, judge, people)
    print(
        f"kappa with the first person, on the {len(second)} rows that both people labelled: the second person "
        f"{of.estimate(of.kappa, people)}, the judge {of.estimate(of.kappa, judge)}, "
        f"difference (judge minus person) {apart}"
    )
    if apart.value is None:
        print("a kappa is undefined, so the judge cannot be compared with the second person: label rows of both kinds")
    elif apart.interval is None:
        print("too few rows to compare the judge with a person")
    elif apart.interval[1] < 0:
        print("the judge is below the human ceiling")
    elif apart.interval[0] > 0:
        print("the judge agrees with the first person more than the second does")
    else:
        print("these rows show no difference between the judge and the second person")


def conclusion(kappa: Statistic, bar: float) -> str:
    """Return a sentence that says whether kappa reaches the bar, and whether its interval includes the bar."""
    if kappa.value is None:
        return f"Cohen's kappa is undefined: judge and people put all rows into one class. Not shown to reach {bar:g}"
    side = "below" if kappa.value < bar else "at least"
    decimals = max(decimals_beside(one, bar) for one in (kappa.value, *(kappa.interval or ())))
    low, high = kappa.interval or (None, None)
    shown = with_interval(kappa.value, low, high, f".{decimals}f")
    if kappa.interval is None:
        return f"Cohen's kappa {shown} is {side} {bar:g}; a single case gives no interval"
    inside = kappa.interval[0] <= bar <= kappa.interval[1]
    return f"Cohen's kappa {shown} is {side} {bar:g}, which the interval {'includes' if inside else 'excludes'}"
