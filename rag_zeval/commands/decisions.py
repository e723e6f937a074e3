"""The commands that compare result files, `compare` and `gate`. `decisions/gate.py` defines what a regression is."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_zeval.commands.arguments import check_files
from rag_zeval.errors import InputError

Labels = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="SHEET",
        help="A labelled sheet of `rag-zeval sample`, to compare by the scores that people would give. One sheet for "
        "each side: repeat the option.",
    ),
]


LIMIT = "[METRIC=]NUMBER"
MEASURES = "a measure such as recall@5, latency_p95 or cost_per_1000"


def compare(
    sides: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Two or more result files. Write FILE#SYSTEM if a file holds several systems."
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(help=f"A metric to compare, or {MEASURES}; repeat the option. Default: all they share."),
    ] = None,
    labels: Labels = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page with the changed answers side by side.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write all numbers as JSON.")] = None,
    changed: Annotated[
        int, typer.Option(min=0, help="How many questions whose score changed to print for each metric, at most.")
    ] = 20,
) -> None:
    """Show what changed between result files, and whether it could be noise.

    The table shows the second file (B) minus the first (A) for each metric, over all cases and in each slice. Cases are
    paired by id, or by question if the files share no id. The command is free and needs no network.

    With --labels, a second table corrects the judge's errors by people's labels of claims or answers of both files.

    Intervals are 95% intervals over cases, by bootstrap, or Wilson's for a mean of scores that are all 0 or 1. The
    p-values come from a paired randomisation test, with Holm's correction over the slices of a metric. With more than
    two files, every pair is compared, and the command counts the pairs with a significant difference.
    """
    from rag_zeval.audit.corrected_comparison import correct, read_sheet
    from rag_zeval.decisions.comparison import compare_pairwise, compare_sides
    from rag_zeval.decisions.sides import check_different, files_of, read_sides, shared_metrics
    from rag_zeval.decisions.wording import edits, print_comparison, print_line, print_pairwise, print_sides
    from rag_zeval.files import write_json
    from rag_zeval.golden.release_measures import with_measures
    from rag_zeval.report.comparison import write_page

    if len(sides) < 2:
        raise InputError(
            "compare needs two or more result files, got one. To compare two systems of one file, name each as "
            f"{sides[0]}#SYSTEM"
        )
    if len(sides) > 2:
        check_different("compare", sides)
    if html is not None and len(sides) > 2:
        raise InputError(f"--html compares two files, got {len(sides)}: name two, or leave out --html")
    if labels and len(sides) > 2:
        raise InputError(f"--labels compares two files, got {len(sides)}: name two, or leave out --labels")
    check_files([*files_of(sides), *(labels or ())], ("--html", html), ("--out", out))
    sheets = [read_sheet(path) for path in labels or ()]
    first, *others = read = [with_measures(side, metric or ()) for side in read_sides(sides)]
    metrics = shared_metrics(read, metric or ())
    found: list[Any] = [
        compare_pairwise(read, name) if len(read) > 2 else compare_sides(first, others[0], name) for name in metrics
    ]
    if sheets:
        found = correct(found, read, sheets)
    if html is not None:  # before printing, because the reader of the output may leave early
        write_page(html, sides, found)
    if out is not None:
        write_json(out, {"sides": sides, "metrics": [dataclasses.asdict(one) for one in found]})
    if len(read) > 2:
        if said := edits(first.edited, "the files"):
            print_line(said)
        for pairwise in found:
            print_pairwise(pairwise)
    else:
        print_sides(read, "AB")
        for comparison in found:
            print_comparison(comparison, changed)
    for name, path in (("page", html), ("numbers", out)):
        if path is not None:
            print(f"{name}: {path}")


def gate(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="The baseline: a result file, or FILE#SYSTEM if it holds several systems. Without B, the new version.",
        ),
    ],
    b: Annotated[
        str | None, typer.Argument(metavar="B", help="The new version, named in the same way.", show_default=False)
    ] = None,
    max_drop: Annotated[
        list[str],
        typer.Option(
            metavar=LIMIT,
            help="How much worse a metric may be, in its own units; latency and cost, as a share of A's value. Repeat "
            "the option to set limits of single metrics.",
        ),
    ] = ["0.02"],  # noqa: B006 (typer reads it)
    slice_max_drop: Annotated[
        list[str], typer.Option(metavar=LIMIT, help="How much worse a metric may be within a slice.")
    ] = ["0.05"],  # noqa: B006
    min_coverage: Annotated[
        float, typer.Option(help="The share of cases, 0 to 1, for which B must have a score, also in each slice.")
    ] = 0.95,
    metric: Annotated[
        list[str] | None,
        typer.Option(help=f"A metric to check, or {MEASURES}; repeat the option. Default: all metrics of A."),
    ] = None,
    least: Annotated[
        list[str],
        typer.Option(
            "--min", metavar="METRIC=NUMBER", help="The minimum value that a metric of B must have. Needs no baseline."
        ),
    ] = [],  # noqa: B006
    most: Annotated[
        list[str],
        typer.Option(
            "--max",
            metavar="METRIC=NUMBER",
            help="The maximum value that a metric of B may have, such as latency_p95=2.",
        ),
    ] = [],  # noqa: B006
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail, too. Default: they only warn.")] = False,
    labels: Labels = None,
    junit: Annotated[Path | None, typer.Option(help="Also write the checks as JUnit XML.")] = None,
    summary: Annotated[Path | None, typer.Option(help="Also write the checks as Markdown, for a pull request.")] = None,
) -> None:
    """Decide whether a new version B may replace the baseline A: exit status 0 if so, 1 if not.

    B fails if too few of its cases have a score, overall or in a slice. It also fails if a metric drops by more than
    its limit, overall or in a slice, and the drop is significant. A drop that is hardly noise is a warning, and fails
    with --strict. A drop that could be noise is unclear, and never fails.

    A first release has no baseline: name its result file alone, with the values that it must reach (--min, --max).

    With --labels, it decides by the scores that people would give, which labelled sheets of A and B estimate.

    If A and B are equally good, a drop makes B fail in at most 5 of 100 such decisions. With --strict it can be more if
    a small slice has much more noise than the others. The command is free and needs no network.
    """
    from rag_zeval.audit.corrected_comparison import correct, corrected_means, read_sheet
    from rag_zeval.decisions.comparison import compare_sides
    from rag_zeval.decisions.gate import (
        GateCheck,
        bar_checks,
        decide,
        in_order,
        passed,
        print_checks,
        read_bars,
        read_limits,
        strictly,
        write_junit,
        write_summary,
    )
    from rag_zeval.decisions.sides import are_different, files_of, read_side, read_sides, shared_metrics
    from rag_zeval.decisions.wording import print_sides
    from rag_zeval.golden.release_measures import with_measures

    limits, bars = read_limits(max_drop, slice_max_drop, min_coverage), read_bars(least, most)
    names = [a] if b is None else [a, b]
    if b is None and (metric or not bars):
        raise InputError("gate: without a second file, name what the first must reach: --min or --max METRIC=NUMBER")
    check_files([*files_of(names), *(labels or ())], ("--junit", junit), ("--summary", summary))
    sheets = [read_sheet(path) for path in labels or ()]
    sides = [with_measures(side, metric or ()) for side in read_sides(names)]
    checks = []
    if b is not None:
        metrics = shared_metrics(sides, metric or list(sides[0].judged))
        comparisons = [compare_sides(sides[0], sides[1], name) for name in metrics]
        checks = decide(correct(comparisons, sides, sheets), limits)
    if not are_different(names):
        checks.append(GateCheck("every metric", "files", "warning", "A and B are the same file: nothing can be worse"))
    asked = list(dict.fromkeys(bar.metric for bar in bars))
    new = with_measures(read_side(names[-1]), asked)  # a bar is about all cases, also those edited since A
    shared_metrics([new], asked)
    checks += bar_checks(new, bars, corrected_means(new, asked, sheets, b is None), limits, b is None)
    checks = in_order(strictly(checks) if strict else checks)
    letters = dict(zip("AB" if b else "B", names, strict=True))
    if junit is not None:
        write_junit(junit, checks)
    if summary is not None:
        write_summary(summary, letters, checks)
    print_sides(sides, letters)
    print_checks(checks)
    if not passed(checks):
        raise typer.Exit(1)
