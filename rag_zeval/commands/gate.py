"""`rag-zeval gate`: whether a new version may replace the baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.commands.arguments import check_files

Baseline = Annotated[
    str, typer.Argument(metavar="A", help="The baseline: a result file, or FILE#SYSTEM if it holds several systems.")
]
Candidate = Annotated[str, typer.Argument(metavar="B", help="The new version, named in the same way.")]
MaxDrop = Annotated[float, typer.Option(help="How far the mean of a metric may drop, in its own units.")]
SliceMaxDrop = Annotated[float, typer.Option(help="How far the mean of a metric may drop within a slice.")]
MinCoverage = Annotated[float, typer.Option(help="The share of cases, 0 to 1, for which B must have a score.")]
Metrics = Annotated[
    list[str] | None, typer.Option(help="A metric to check; repeat the option for several. Default: all metrics of A.")
]
JunitPath = Annotated[Path | None, typer.Option(help="Also write the checks as JUnit XML.")]
SummaryPath = Annotated[Path | None, typer.Option(help="Also write the checks as Markdown, for a pull request.")]


def gate(
    a: Baseline,
    b: Candidate,
    max_drop: MaxDrop = 0.02,
    slice_max_drop: SliceMaxDrop = 0.05,
    min_coverage: MinCoverage = 0.95,
    metric: Metrics = None,
    junit: JunitPath = None,
    summary: SummaryPath = None,
) -> None:
    """Decide whether a new version B may replace the baseline A: exit status 0 if so, 1 if not.

    B fails if too few of its cases have a score. It also fails if a metric drops by more than its limit, overall or in
    a slice, and the drop is significant. A drop that could be noise is a warning, with exit status 0.

    If A and B are equally good, B fails in at most 5 of 100 such decisions. The command is free and needs no network.
    """
    from rag_zeval.decisions.comparison import compare_sides
    from rag_zeval.decisions.gate import Limits, decide, passed, print_checks, write_junit, write_summary
    from rag_zeval.decisions.sides import file_and_system, read_sides, shared_metrics
    from rag_zeval.decisions.wording import print_sides

    limits = Limits(max_drop, slice_max_drop, min_coverage)
    inputs = dict.fromkeys(file_and_system(side)[0] for side in (a, b))  # one file may hold both
    check_files([*(("INPUT", path) for path in inputs), ("--junit", junit), ("--summary", summary)])
    first, second = read_sides([a, b])
    metrics = shared_metrics([first, second], metric or list(first.judged))
    checks = decide([compare_sides(first, second, name) for name in metrics], limits)
    if junit is not None:
        write_junit(junit, checks)
    if summary is not None:
        write_summary(summary, [a, b], checks)
    print_sides([a, b])
    print_checks(checks)
    if not passed(checks):
        raise typer.Exit(1)
