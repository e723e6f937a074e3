"""`rag-zeval compare`: what changed between two result files or more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rag_zeval.commands.arguments import check_files
from rag_zeval.errors import InputError

Sides = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="Two or more result files. Write FILE#SYSTEM if a file holds several systems."
    ),
]
Metrics = Annotated[
    list[str] | None, typer.Option(help="A metric to compare; repeat the option for several. Default: all they share.")
]
HtmlPath = Annotated[Path | None, typer.Option(help="Also write a page with the changed answers side by side.")]
OutPath = Annotated[Path | None, typer.Option(help="Also write all numbers as JSON.")]
Changed = Annotated[
    int, typer.Option(min=0, help="How many questions whose score changed to print for each metric, at most.")
]


def compare(
    sides: Sides, metric: Metrics = None, html: HtmlPath = None, out: OutPath = None, changed: Changed = 20
) -> None:
    """Show what changed between result files, and whether it could be noise.

    The table shows the second file (B) minus the first (A) for each metric, over all cases and in each slice. Cases are
    paired by id, or by question if the files share no id. The command is free and needs no network.

    Intervals are 95% bootstrap intervals over cases. The p-values come from a paired randomisation test, with Holm's
    correction over the slices of a metric. With more than two files, every pair is compared, and the command counts the
    pairs with a significant difference.
    """
    import dataclasses

    from rag_zeval.decisions.comparison import compare_pairwise, compare_sides
    from rag_zeval.decisions.sides import file_and_system, read_sides, shared_metrics
    from rag_zeval.decisions.wording import print_comparison, print_pairwise, print_sides
    from rag_zeval.files import write_json
    from rag_zeval.report.comparison import write_page

    if len(sides) < 2:
        raise InputError("compare needs two or more result files, got one")
    if len(set(sides)) < len(sides) > 2:
        raise InputError("compare: the same result file is given twice; remove one")
    if html is not None and len(sides) > 2:
        raise InputError(f"--html compares two files, got {len(sides)}: name two, or leave out --html")
    inputs = dict.fromkeys(file_and_system(side)[0] for side in sides)  # one file may hold several
    check_files([*(("INPUT", path) for path in inputs), ("--html", html), ("--out", out)])
    first, *others = read = read_sides(sides)
    metrics = shared_metrics(read, metric or ())
    found: list[Any]
    if len(read) > 2:
        found = [compare_pairwise(read, name) for name in metrics]
    else:
        found = [compare_sides(first, others[0], name) for name in metrics]
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
