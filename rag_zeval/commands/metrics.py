"""The commands that examine metrics (`metrics`) and repeated answers (`consistency`)."""

import itertools
from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.commands.arguments import check_files
from rag_zeval.errors import InputError
from rag_zeval.terminal_tables import print_table
from rag_zeval.text import one_line, with_interval


def metrics(
    results: Annotated[list[Path], typer.Argument(help="One or more result files of `rag-zeval evaluate`.")],
    exact_match_weight: Annotated[
        float | None,
        typer.Option(help="The weight λ, 0 to 1, of the exact match in ccrs_ac. Default: 0.7, as in the paper."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write the tables as a page.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write all numbers as CSV.")] = None,
) -> None:
    """Show which metrics to keep: how many scores are at the best value, and which metrics rank the answers alike.

    A metric is of little use if nearly all answers get its best value, if another metric ranks the answers alike, or if
    it tells no systems apart. The command prints a table for each of these reasons, with 95% intervals.

    If two files have a metric for the same answers, the command compares their judges. The scores of ccrs_ac are shown
    for several weights λ of its exact match. The command is free and needs no network.
    """
    from rag_zeval.decisions.metric_validity import (
        correlation,
        of_judges,
        of_metric,
        read_columns,
        weights_of_exact_match,
    )
    from rag_zeval.progress import Progress
    from rag_zeval.report.metrics import Validity, write_csv, write_page

    if exact_match_weight is not None and not 0 <= exact_match_weight <= 1:
        raise InputError(f"--exact-match-weight is {exact_match_weight:g}, but must be from 0 to 1")
    check_files(results, ("--html", html), ("--csv", csv))
    columns = read_columns(results, exact_match_weight)
    weights = dict(weights_of_exact_match(results))
    names = list(columns.scores)
    of_one_judge = [pair for judges in columns.judges.values() for pair in itertools.combinations(judges, 2)]
    two = [pair for pair in itertools.combinations(names, 2) if pair not in of_one_judge]
    pairs = []
    with Progress() as progress, progress.job("correlations", len(two)) as job:
        for pair in two:
            pairs.append(correlation(*pair, columns.scores))
            job.advance()
    validity = Validity(
        {name: of_metric(name, scores) for name, scores in columns.scores.items()},
        pairs,
        [found for pair in of_one_judge if (found := of_judges(*pair, columns.scores))],
        weights,
    )
    tables = list(validity.tables())
    if html is not None:
        write_page(html, [str(path) for path in results], tables)
    if csv is not None:
        write_csv(csv, validity)
    for table in tables:
        print(f"{table.title}\n{table.note}")
        print_table(table.heads, table.rows)
    for name, path in (("page", html), ("numbers", csv)):
        if path is not None:
            print(f"{name}: {path}")


def consistency(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="A result file with repeated questions; or two or more, each with one run of a system. Write "
            "FILE#SYSTEM if a file holds several systems.",
        ),
    ],
    show: Annotated[
        int, typer.Option(min=0, help="How many of the questions whose scores differ most to print for each metric.")
    ] = 5,
) -> None:
    """Show how consistent a system is when it answers the same questions again.

    For each metric the command prints the mean, the spread of a question's scores, the consistency index, and how far
    two runs rank the questions alike (Kendall's tau-b). The index is mean ÷ (1 + standard deviation), and needs three
    runs. The command also compares the answers themselves by ROUGE-L. Each number has a 95% interval over questions.

    Scores of several trials of the judge are averaged first, so that only the system's own variation remains.
    """
    from rag_zeval.decisions.consistency import steadiness
    from rag_zeval.decisions.sides import files_of

    check_files(files_of(runs))
    found = list(steadiness(runs, show))
    heads = ("system", "metric", "runs", "questions", "mean", "spread", "consistency index", "ranks: tau-b")
    rows = []
    for one in found:
        estimates = (one.mean, one.spread, one.index, one.ranks)
        shown = ["-" if each is None else with_interval(each[0], *(each[1] or (None, None))) for each in estimates]
        rows.append((one.system, one.metric, str(one.runs), str(one.questions), *shown))
    print_table(heads, rows)
    print(
        "In brackets: 95% intervals over questions, by bootstrap, or Wilson's for a mean of scores that are all 0 or "
        "1. Spread: the standard deviation of a question's scores."
    )
    for one in found:
        if one.widest:
            print(f"{one_line(one.system)}, {one_line(one.metric)}: the questions that differ most")
            print_table(
                ("question", "scores"), [(text, ", ".join(f"{x:.3f}" for x in scores)) for text, scores in one.widest]
            )
