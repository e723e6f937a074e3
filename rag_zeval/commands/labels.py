"""The commands for labels that outlive a result file: `keep-labels` stores them, `reuse-labels` finds them again."""

from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.commands.arguments import DrawnFrom, ResultPath, Sheet, check_files
from rag_zeval.errors import InputError


def keep_labels(
    sheet: Sheet,
    results: DrawnFrom,
    person: Annotated[
        str, typer.Option(help="Who labelled. The labels of the person `adjudicated` decide where others differ.")
    ],
    labels: Annotated[
        Path, typer.Option(help="The file to add the labels to, JSONL. Keep it under version control.")
    ] = Path("labels.jsonl"),
) -> None:
    """Keep a person's labels by the texts that they are about, for later runs of the same or another judge.

    The command lists the rows on which people differ and nobody has decided yet. `rag-zeval reuse-labels` finds the
    labels again.
    """
    from rag_zeval.audit.kept_labels import keep, text_keys
    from rag_zeval.audit.sheet import check_drawn_from, read_items, read_labels, read_plan
    from rag_zeval.terminal_tables import print_table

    check_files([sheet, results], ("--labels", labels))
    if not person.strip():
        raise InputError("--person is empty: name the person who labelled the sheet")
    plan = read_plan(sheet)
    items = read_items(results, plan.unit, plan.metric).items
    check_drawn_from(sheet, plan, results, items)
    found = keep(labels, items, plan, read_labels(sheet, plan), person)
    print(f"{labels}: {len(found.kept.labels)} labels; {found.new} new, {found.replaced} changed")
    if found.outside:
        print(f"not kept: {found.outside} rows whose texts belong to an earlier sheet, in which nobody labelled them")
    disputed = found.kept.disputed()
    rows = [
        (item.id, item.asked_about, "; ".join(f"{name}: {one.text}" for name, one in disputed[text].items()))
        for item, text in zip(items, text_keys(items), strict=True)
        if text in disputed
    ]
    if rows:
        print(f"{len(rows)} rows on which people differ:")
        print_table(("row", plan.unit, "labels"), rows)


def reuse_labels(
    labels: Annotated[Path, typer.Argument(help="The file of labels that `rag-zeval keep-labels` wrote.")],
    results: ResultPath,
    out: Annotated[
        Path,
        typer.Option(help="The sheet to write, CSV, with the labels filled in. A .json file is written beside it."),
    ] = Path("sheet.csv"),
    metric: Annotated[
        str | None, typer.Option(help="The metric to audit. Default: the only one of RESULTS that people can label.")
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            help="Whose labels to fill in. Default: those of `adjudicated`, else of whoever labelled a text first."
        ),
    ] = None,
    n: Annotated[
        int, typer.Option("--n", min=0, help="Also draw this many rows to label, from texts that no label stands for.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="The seed of that draw.")] = 0,
) -> None:
    """Find the kept labels that apply to a new run, and write them into a sheet for `rag-zeval audit`.

    A label applies if question, claim (or answer) and the texts to judge by are still the same, whoever judged them.
    """
    from rag_zeval.audit.kept_labels import read_kept, reuse
    from rag_zeval.audit.sheet import plan_of, plan_path, read_items, write_sheet

    check_files([labels, results], ("--out", out), ("the plan beside --out", plan_path(out)))
    kept = read_kept(labels)
    people = sorted({row["person"] for row in kept.labels})
    if person is not None and person not in people:
        raise InputError(f"--person {person}: {labels} has no label of this person; choose from: {', '.join(people)}")
    unit = kept.draws[0]["unit"]
    population = read_items(results, unit, metric)
    found = reuse(kept, population.items, person, n, seed)
    if not found.rows:
        raise InputError(f"{labels}: no label applies to {results}: its texts are others. Draw a sheet of it")
    plan = plan_of(population.metric, unit, found.rows, found.strata, found.labels)
    write_sheet(out, plan, [item for item, _ in found.rows], seed, found.labels)
    print(f"{out}: {len(found.labels)} of {len(kept.by_text)} labelled texts apply to {results}")
    if found.unlabelled:
        print(
            f"{found.unlabelled} of {len(population.items)} {unit}s are in a score band and slice without any label. "
            "The figures assume that they are like the others"
        )
    if found.of:
        print(f"{found.of} of {len(population.items)} {unit}s have texts that no sheet was drawn from")
        print(f"label the {found.more} new rows" if found.more else "no label stands for them: --n draws some to label")
