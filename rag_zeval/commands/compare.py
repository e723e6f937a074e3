"""`rag-zeval compare`: what changed between two result files or more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rag_zeval.commands.arguments import check_files
from rag_zeval.errors import InputError

Sides = Annotated[list[str], typer.Argument(help="Result files of `evaluate`; FILE#SYSTEM where one holds several.")]
Metrics = Annotated[list[str] | None, typer.Option(help="Only this metric; may be given several times.")]
HtmlPath = Annotated[Path | None, typer.Option(help="Also write a page with the answers that changed, side by side.")]
OutPath = Annotated[Path | None, typer.Option(help="Also write everything as JSON.")]
Changed = Annotated[int, typer.Option(min=0, help="Print at most this many of the questions that changed, per metric.")]


def compare(
    sides: Sides, metric: Metrics = None, html: HtmlPath = None, out: OutPath = None, changed: Changed = 20
) -> None:
    """Compare result files A and B: B - A by each metric, for all cases and each slice, and whether it may be chance.

    Cases are paired by id, or by question where the files share no id. Intervals are 95% bootstrap intervals over
    cases, p is of the paired randomisation test, Holm's over the slices of a metric. More than two files: every two of
    them, and how many a metric tells apart.
    """
    import dataclasses

    from rag_zeval.decisions.comparison import compare as compare_by
    from rag_zeval.decisions.page import write_page
    from rag_zeval.decisions.pairwise import compare_pairwise
    from rag_zeval.decisions.printing import print_comparison, print_pairwise, print_sides
    from rag_zeval.decisions.sides import file_and_system, read_sides, shared_metrics
    from rag_zeval.files import write_json

    if len(sides) < 2:
        raise InputError("compare: one result file given, must be two or more")
    if len(set(sides)) < len(sides) > 2:
        raise InputError("compare: a result file is given twice")
    if html is not None and len(sides) > 2:
        raise InputError(f"--html shows two sides, {len(sides)} are given")
    inputs = dict.fromkeys(file_and_system(side)[0] for side in sides)  # one file may hold several
    check_files([*(("INPUT", path) for path in inputs), ("--html", html), ("--out", out)])
    first, *others = read = read_sides(sides)
    metrics = shared_metrics(read, metric or ())
    found: list[Any]
    if len(read) > 2:
        found = [compare_pairwise(read, name) for name in metrics]
    else:
        found = [compare_by(first, others[0], name) for name in metrics]
    if html is not None:  # before anything is printed: who reads that may stop early
        write_page(html, sides, found)
    if out is not None:
        write_json(out, {"sides": sides, "metrics": [dataclasses.asdict(one) for one in found]})
    if len(read) > 2:
        for pairwise in found:
            print_pairwise(pairwise)
    else:
        print_sides(sides)
        for comparison in found:
            print_comparison(comparison, changed)
    for name, path in (("page", html), ("numbers", out)):
        if path is not None:
            print(f"{name}: {path}")
