"""The commands that compare a judge with people.

`sample` draws what people label; `audit` and `audit-qrels` compare. `judge-card` writes a page about a judge. `qrels`
writes a judge's relevance grades, so that they can be compared.
"""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.commands.arguments import DrawnFrom, Prices, ResultPath, Sheet, check_files, check_threshold
from rag_zeval.errors import InputError
from rag_zeval.files import locate
from rag_zeval.terminal_tables import print_framed, print_table
from rag_zeval.text import counted, one_line

Threshold = Annotated[float, typer.Option(help="The minimum score, 0 to 1, that counts as a good answer.")]


def sample(
    results: ResultPath,
    n: Annotated[int, typer.Option("--n", min=1, help="How many rows to draw.")] = 50,
    metric: Annotated[
        str | None, typer.Option(help="The metric whose verdicts people check. Default: the only one of RESULTS.")
    ] = None,
    unit: Annotated[str, typer.Option(help="What people label in each row: claim or answer.")] = "claim",
    out: Annotated[
        Path, typer.Option(help="The file for the sheet, CSV. A .json file beside it records how rows were drawn.")
    ] = Path("sheet.csv"),
    seed: Annotated[int, typer.Option(help="The seed of the random draw.")] = 0,
    more: Annotated[
        Path | None,
        typer.Option(
            metavar="SHEET",
            help="A labelled sheet of RESULTS: write it again, with its labels and --n new rows where they help most.",
        ),
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(
            help="Draw nothing: print how many rows give the corrected score an interval of this width, such as 0.1. "
            "The command guesses what people will say from --more SHEET, or from --agreement."
        ),
    ] = None,
    agreement: Annotated[
        float, typer.Option(help="With --width: the share of rows, 0 to 1, on which people will agree with the judge.")
    ] = 0.8,
) -> None:
    """Draw claims or answers for people to label, into a CSV sheet that hides the judge's scores.

    Every score band and slice gets at least one row; the other rows are drawn in proportion. Give people only the CSV.
    Then `rag-zeval audit` corrects the judge's score by their labels, and compares the two.
    """
    from rag_zeval.audit.printing import print_rows_needed
    from rag_zeval.audit.sheet import (
        ASKED,
        UNITS,
        check_drawn_from,
        draw,
        draw_more,
        plan_of,
        plan_path,
        read_items,
        read_labels,
        read_plan,
        stratum_of_each,
        write_sheet,
    )

    if unit not in UNITS:
        raise InputError(f"--unit is '{unit}', but must be one of {', '.join(UNITS)}")
    if width is None:
        check_files([results], ("--more", more), ("--out", out), ("the plan beside --out", plan_path(out)))
    earlier = read_plan(more) if more else None
    if earlier:
        unit, metric = earlier.unit, earlier.metric
    population = read_items(results, unit, metric)
    items = population.items
    labels = read_labels(more, earlier) if more and earlier else {}
    if more and earlier:
        check_drawn_from(more, earlier, results, items)
    if width is not None:
        print_rows_needed(items, unit, width, agreement, labels)
        return
    drawn = draw_more(items, earlier, labels, n, seed) if earlier else draw(items, n, seed)
    plan = plan_of(population.metric, unit, drawn, stratum_of_each(items, earlier))
    write_sheet(out, plan, [item for item, _ in drawn], seed, labels)
    sizes = Counter(item.stratum for item in items)
    rows = Counter(item.stratum for item, _ in drawn)
    print_framed(
        ("score, slice", f"{unit}s", "rows"), [(name, str(sizes[name]), str(rows[name])) for name in sorted(sizes)]
    )
    if population.without:
        print(f"{population.without} answers have no {'score' if unit == 'answer' else 'claim'} and are left out")
    print(f"{out}: {len(drawn)} of {len(items)} {unit}s by {population.metric}")
    if earlier:
        print(f"{len(earlier.probabilities)} of its rows are those of {more}, with {len(labels)} labels")
        if new := sum(map(earlier.is_new, items)):
            rows_of_new = sum(earlier.is_new(item) for item, _ in drawn)
            print(f"{new} {unit}s are new since {more} was drawn, and {counted(rows_of_new, 'row')} are of them")
    print(f"column label: write {ASKED[unit]}; leave it empty if you cannot tell")
    print(f"{plan_path(out)}: records how the rows were drawn; do not show it to the people who label")


def audit(
    sheet: Sheet,
    results: DrawnFrom,
    sheet2: Annotated[
        Path | None, typer.Argument(help="A copy of the sheet, labelled by another person. Optional.")
    ] = None,
    fail_below: Annotated[float, typer.Option(help="Cohen's kappa below this value gives exit status 1.")] = 0.7,
    threshold: Threshold = 0.5,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Also write the mean scores as CSV: the judge's, and corrected.")
    ] = None,
) -> None:
    """Correct the judge's mean score by people's labels, and compare the two: agreement, kappa and every difference.

    Rows are weighted by how they were drawn, so the figures hold for all of RESULTS. With a second labelled copy of the
    sheet, the command also compares how well people agree with each other and with the judge.
    """
    from rag_zeval.audit.agreement import estimate, kappa
    from rag_zeval.audit.corrected_table import groups_of, means_by_group, write_means
    from rag_zeval.audit.labelled_results import read_labelled
    from rag_zeval.audit.printing import (
        conclusion,
        print_agreement,
        print_ceiling,
        print_corrected,
        print_disagreements,
    )
    from rag_zeval.audit.sheet import plan_path, read_labels

    check_threshold(threshold)
    if not -1 <= fail_below <= 1:
        raise InputError(f"--fail-below is {fail_below}, but must be from -1 to 1")
    check_files([sheet, plan_path(sheet), results, sheet2], ("--csv", csv))
    labelled = read_labelled(sheet, results, threshold)
    plan, labels, rows = labelled.plan, labelled.labels, labelled.rows
    others = read_labels(sheet2, plan) if sheet2 else {}
    if sheet2 and not labels.keys() & others.keys():
        raise InputError(
            f"{sheet2}: shares no labelled row with the other sheet; at least one row must be labelled in both"
        )
    means = means_by_group(groups_of(labelled.items), labels, plan)
    if csv is not None:  # before printing, because the reader of the output may leave early
        write_means(csv, plan.metric, means)
    print(
        f"{plan.metric}: {len(rows)} {plan.unit}s labelled, from {len(set(labelled.values.cases))} cases; "
        f"{len(plan.probabilities) - len(rows)} rows of the sheet not labelled"
    )
    print_corrected(means)
    print_agreement(labelled)
    print_disagreements(rows, threshold)
    if sheet2:
        print_ceiling(labelled.classes, rows, others, threshold)
    if csv is not None:
        print(f"means: {csv}")
    found = estimate(kappa, labelled.classes)
    print(conclusion(found, fail_below))
    if found.value is None or found.value < fail_below:
        raise typer.Exit(1)


def judge_card(
    sheet: Sheet,
    results: DrawnFrom,
    out: Annotated[Path, typer.Option(help="The Markdown file to write.")] = Path("judge-card.md"),
    prices: Prices = None,
    threshold: Threshold = 0.5,
) -> None:
    """Write one Markdown page about a judge on your data: how far to trust it, and what it costs.

    The card has the agreement with people, the raw and the corrected mean, bias by length and position, consistency
    over trials and cost, also by slice. What the files do not say is shown as unknown.
    """
    from rag_zeval.audit.judge_card import write_judge_card
    from rag_zeval.audit.sheet import plan_path
    from rag_zeval.scoring.prices import read_prices

    check_threshold(threshold)
    check_files([sheet, plan_path(sheet), results, prices], ("--out", out))
    write_judge_card(out, sheet, results, threshold, read_prices(prices) if prices else None)
    print(f"judge card: {out}")


def qrels(
    results: ResultPath,
    out: Annotated[Path, typer.Option(help="The qrels file to write, with lines `case 0 chunk grade`.")],
) -> None:
    """Write the relevance grades of `umbrela` as a qrels file in TREC's format, which trec_eval reads.

    A topic is the id of a case. A document is the id of a chunk, or an id made of its text if the input has no ids.
    White space in an id is written as in a URL (%20).

    `retrieval --qrels` measures a retriever by the grades. `audit-qrels` compares them with people's.
    """
    from rag_zeval.audit.qrels import JUDGED, graded_chunks, write_qrels
    from rag_zeval.results import ResultFile

    check_files([results], ("--out", out))
    with locate(results):
        found = graded_chunks(ResultFile(results, JUDGED))
    write_qrels(out, found.grades)
    print(f"{len(found.grades):,} grades of {len({case for case, _ in found.grades}):,} cases: {out}")
    if found.ungraded:
        print(f"{len(found.ungraded):,} cases have no grades: they have no score of umbrela", file=sys.stderr)
    if found.several:
        case, chunk = min(found.several)
        print(
            f"warning: {len(found.several):,} chunks have several grades, and the first is written; one of them is "
            f"{one_line(chunk)} of case {one_line(case)}. Do your ids name the same chunk in all systems?",
            file=sys.stderr,
        )


def audit_qrels(
    people: Annotated[
        Path, typer.Argument(help="A file with the grades of people, with lines `topic iteration document grade`.")
    ],
    judge: Annotated[
        Path, typer.Argument(help="A file with the judge's grades of the same documents, in the same format.")
    ],
) -> None:
    """Compare a judge's relevance grades with people's, from two qrels files in TREC's format.

    The command prints kappas, rank correlations and the confusion matrix, with 95% intervals over topics. It uses the
    pairs of topic and document that both files grade, from 0 to 10. Pairs in only one file are counted and left out.
    """
    from rag_zeval.audit import agreement as of
    from rag_zeval.audit.qrels import graded_pairs, read_qrels

    by_people, by_judge = read_qrels(people), read_qrels(judge)
    with locate(f"{people} and {judge}"):
        ratings = graded_pairs(by_people, by_judge)
    topics, pairs = len(set(ratings.cases)), len(ratings.cases)
    print(
        f"{pairs:,} pairs of topic and document graded by both, from {topics:,} topics; "
        f"{len(by_people) - pairs:,} by people only, {len(by_judge) - pairs:,} by the judge only"
    )
    rows = []
    for name, measure in {
        "same grade": of.raw_agreement,
        "Cohen's kappa": of.kappa,
        "kappa, linear weights": of.linear_kappa,
        "kappa, quadratic weights": of.quadratic_kappa,
        "Kendall's tau-b": of.kendall,
        "Spearman's rho": of.spearman,
    }.items():
        found = of.estimate(measure, ratings)
        rows.append((name, str(found), f"{found.n:,}"))
    print_table(("", "value [95% interval]", "pairs"), rows)
    print(
        "Intervals: bootstrap over topics; all documents of a topic are resampled together."
        if topics > 1
        else "no intervals: they need at least two topics"
    )
    matrix = ratings.confusion()
    heads = (f"people: {grade}" for grade in range(len(matrix)))
    print_table(
        ("pairs", *heads, "all"),
        [
            *((f"judge: {grade}", *map("{:,}".format, [*row, sum(row)])) for grade, row in enumerate(matrix)),
            ("all", *(f"{sum(column):,}" for column in zip(*matrix, strict=True)), f"{sum(map(sum, matrix)):,}"),
        ],
    )
