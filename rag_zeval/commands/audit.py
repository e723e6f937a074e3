"""`rag-zeval audit`: how far the judge agrees with the people who labelled a sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_zeval.errors import InputError
from rag_zeval.terminal_tables import print_framed

if TYPE_CHECKING:
    from rich.console import Console

    from rag_zeval.audit.agreement import Measure, Ratings, Statistic
    from rag_zeval.audit.sheet import Item, Label, SheetPlan


def audit(
    sheet: Annotated[
        Path, typer.Argument(help="A labelled sheet of `rag-zeval sample`, with its .json file beside it.")
    ],
    results: Annotated[Path, typer.Argument(help="The result file that the sheet was drawn from.")],
    sheet2: Annotated[
        Path | None, typer.Argument(help="A copy of the sheet, labelled by another person. Optional.")
    ] = None,
    fail_below: Annotated[float, typer.Option(help="Cohen's kappa below this value gives exit status 1.")] = 0.7,
    threshold: Annotated[float, typer.Option(help="The minimum score, 0 to 1, that counts as a good answer.")] = 0.5,
) -> None:
    """Compare the judge with people's labels: agreement, kappa and every row on which they differ.

    Rows are weighted by how they were drawn, so the figures hold for all of RESULTS. With a second labelled copy of the
    sheet, the command also compares how well people agree with each other and with the judge.
    """
    from rich.console import Console

    from rag_zeval.audit.agreement import estimate, kappa
    from rag_zeval.audit.sheet import CLAIM, read_items, read_labels, read_plan

    for name, value, lowest in (("--fail-below", fail_below, -1), ("--threshold", threshold, 0)):
        if not lowest <= value <= 1:
            raise InputError(f"{name} is {value}, but must be from {lowest} to 1")
    plan = read_plan(sheet)
    items = {item.id: item for item in read_items(results, plan.unit, plan.metric).items}
    gone = [id_ for id_ in plan.probabilities if id_ not in items]
    if gone:
        way_out = "audit the file that the sheet was drawn from, or draw a new sheet"
        raise InputError(f"{sheet}: {results} does not have row {gone[0]} (and {len(gone) - 1} more): {way_out}")
    labels = read_labels(sheet, plan)
    if not labels:
        raise InputError(f"{sheet}: column 'label' is empty in every row: fill it in")
    others = read_labels(sheet2, plan) if sheet2 else {}
    rows = [(items[id_], label) for id_, label in labels.items()]
    values = _ratings(rows, plan)
    classes = values.classes(threshold)

    console = Console(markup=False, highlight=False)
    console.print(
        f"{plan.metric}: {len(rows)} {plan.unit}s labelled, from {len({item.case for item, _ in rows})} cases; "
        f"{len(plan.probabilities) - len(rows)} rows of the sheet not labelled",
        soft_wrap=True,
    )
    good = ("supported", "not supported") if plan.unit == CLAIM else (f"{threshold:g} or more", "less")
    _print_statistics(values, classes, good)
    _print_slices(classes, [item.slice for item, _ in rows])
    _print_disagreements(console, rows, threshold)
    if sheet2:
        _print_ceiling(console, classes, rows, others, threshold, sheet2)
    found = estimate(kappa, classes)
    console.print(_conclusion(found, fail_below), soft_wrap=True)
    if found.value is None or found.value < fail_below:
        raise typer.Exit(1)


def _ratings(rows: Sequence[tuple[Item, Label]], plan: SheetPlan) -> Ratings:
    import numpy as np

    from rag_zeval.audit.agreement import Ratings
    from rag_zeval.audit.sheet import CLAIM

    return Ratings(
        first=np.array([item.score for item, _ in rows]),
        second=np.array([label.value for _, label in rows]),
        weights=np.array([1 / plan.probabilities[item.id] for item, _ in rows]),
        cases=[item.case for item, _ in rows],
        levels=2 if plan.unit == CLAIM else 5,
    )


def _print_statistics(values: Ratings, classes: Ratings, good: tuple[str, str]) -> None:
    from rag_zeval.audit import agreement as of

    lines: list[tuple[str, Measure, Ratings]] = [
        (f"{good[0]}, according to the judge", of.share_first, classes),
        (f"{good[0]}, according to people", of.share_second, classes),
        ("raw agreement", of.raw_agreement, classes),
        ("balanced accuracy", of.balanced_accuracy, classes),
        ("Cohen's kappa", of.kappa, classes),
        ("Kendall's tau-b", of.kendall, values),
    ]
    if ((values.second > 0) & (values.second < 1)).any():
        lines += [
            ("kappa of grades, linear weights", of.linear_kappa, values),
            ("kappa of grades, quadratic weights", of.quadratic_kappa, values),
        ]
    found = [(name, of.estimate(measure, ratings)) for name, measure, ratings in lines]
    print_framed(("", "value [95% interval]", "n"), [(name, str(one), str(one.n)) for name, one in found])
    counts = []
    for name, judge in zip(good, (True, False), strict=True):
        chosen = classes.second[classes.first == judge]
        counts.append((f"judge: {name}", str(int(chosen.sum())), str(int((1 - chosen).sum()))))
    print_framed(("rows", *(f"people: {name}" for name in good)), counts)


def _print_slices(classes: Ratings, slices: Sequence[str]) -> None:
    import numpy as np

    from rag_zeval.audit.agreement import estimate, kappa, raw_agreement

    rows = []
    for name in sorted(set(slices)):
        part = classes.only(np.array(slices) == name)
        rows.append((name, str(estimate(raw_agreement, part)), str(estimate(kappa, part)), str(len(part.first))))
    print_framed(("slice", "raw agreement", "Cohen's kappa", "n"), rows)


def _print_disagreements(console: Console, rows: Sequence[tuple[Item, Label]], threshold: float) -> None:
    from rag_zeval.text import one_line

    differ = [(item, label) for item, label in rows if (item.score >= threshold) != (label.value >= threshold)]
    console.print(f"{len(differ)} disagreements")
    for item, label in sorted(differ, key=lambda row: -abs(row[0].score - row[1].value)):
        said = f"score {item.score:.3f}" if item.claim is None else "supported" if item.score else "not supported"
        console.print(f"\n{item.id} (case {one_line(item.case)}, slice {one_line(item.slice)})", soft_wrap=True)
        for name, text in {
            "question": item.question,
            "answer" if item.claim is None else "claim": item.answer if item.claim is None else item.claim,
            "judge": f"{said}; {item.analysis}" if item.analysis else said,
            "person": f"{label.text}; {label.note}" if label.note else label.text,
        }.items():
            console.print(f"    {name}: {one_line(text)}", soft_wrap=True)
    console.print()


def _print_ceiling(
    console: Console,
    classes: Ratings,
    rows: Sequence[tuple[Item, Label]],
    others: Mapping[str, Label],
    threshold: float,
    sheet2: Path,
) -> None:
    """The first person's agreement with the second, beside that with the judge, on the rows that both labelled."""
    import dataclasses

    import numpy as np

    from rag_zeval.audit.agreement import difference, estimate, kappa

    both = np.array([item.id in others for item, _ in rows])
    if not both.any():
        raise InputError(
            f"{sheet2}: shares no labelled row with the other sheet; at least one row must be labelled in both"
        )
    judge = classes.only(both)
    second = [others[item.id].value >= threshold for item, _ in rows if item.id in others]
    people = dataclasses.replace(judge, first=np.array(second, dtype=float))
    apart = difference(kappa, judge, people)
    console.print(
        f"kappa with the first person, on the {len(second)} rows that both people labelled: the second person "
        f"{estimate(kappa, people)}, the judge {estimate(kappa, judge)}, difference (judge minus person) {apart}",
        soft_wrap=True,
    )
    if apart.interval is None:
        told = "too few rows to compare the judge with a person"
    elif apart.interval[1] < 0:
        told = "the judge is below the human ceiling"
    elif apart.interval[0] > 0:
        told = "the judge agrees with the first person more than the second does"
    else:
        told = "on these rows, the judge and the second person are indistinguishable"
    console.print(told)


def _conclusion(found: Statistic, bar: float) -> str:
    if found.value is None:
        return f"Cohen's kappa is undefined: judge and people put all rows into one class. Not shown to reach {bar:g}"
    side = "below" if found.value < bar else "at least"
    if found.interval is None:
        return f"Cohen's kappa {found} is {side} {bar:g}; a single case gives no interval"
    inside = found.interval[0] <= bar <= found.interval[1]
    return f"Cohen's kappa {found} is {side} {bar:g}, which the interval {'includes' if inside else 'excludes'}"
