"""`rag-zeval audit-qrels`: how far a judge's relevance grades agree with those of people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.files import locate
from rag_zeval.terminal_tables import print_table

ONE_TOPIC = "no intervals: they need at least two topics"


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
        else ONE_TOPIC
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
