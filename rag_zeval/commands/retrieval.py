"""`rag-zeval retrieval`: does the retriever find the gold chunks?"""

from __future__ import annotations

import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.errors import InputError
from rag_zeval.terminal_tables import print_table

RankingFile = Annotated[
    Path,
    typer.Argument(help="JSONL with the fields context_ids (or retrieved), best first, gold_chunk_ids and slice_tag."),
]
Ks = Annotated[
    str,
    typer.Option(
        help="Cut-offs k, separated by commas: how many chunks the prompt, the reranker and the index each return."
    ),
]


def retrieval(file: RankingFile, k: Ks = "5,10,50") -> None:
    """Measure whether the retriever finds the gold chunks: hit rate, recall, precision, nDCG, MRR and MAP.

    Each measure is computed at every k and for every slice, with 95% intervals. Rows that cannot be used are listed on
    stderr and left out.

    The exit status is 0 if all rows were used, 1 if some were left out, and 2 if there is nothing to measure.
    """
    from rag_zeval.golden.retrieval import estimates, read_rankings, short_lists

    ks = parse_ks(k)
    rankings, bad, unanswerable = read_rankings(file)
    rows = []
    for (name, measure), cells in groupby(estimates(rankings, ks), lambda one: (one.slice_name, one.measure)):
        at_each_k = list(cells)
        intervals = ["none" if one.interval is None else "{:.3f}, {:.3f}".format(*one.interval) for one in at_each_k]
        shown = [f"{one.value:.3f} [{interval}]" for one, interval in zip(at_each_k, intervals, strict=True)]
        rows.append((name, str(at_each_k[0].n), measure, *shown))
    print_table(("slice", "questions", "measure", *(f"k = {one}" for one in ks)), rows)
    print("In brackets: 95% intervals. Wilson's for the hit rate, a percentile bootstrap over questions for the rest.")
    if unanswerable:
        print(f"{unanswerable} questions are unanswerable and left out: they have no gold chunks")
    for at, n in short_lists(rankings, ks):
        print(f"k = {at}: {n} of {len(rankings)} rows have fewer than {at} ids")
    for line, text in bad.items():
        print(f"left out: {file}:{line}: {text}", file=sys.stderr)
    if bad:
        raise typer.Exit(1)


def parse_ks(text: str) -> list[int]:
    """Numbers between commas, in rising order, each once. Raises InputError for anything else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("[1-9][0-9]{0,5}", part) for part in parts):
        raise InputError(f"--k is {text!r}, but must be whole numbers from 1 to 999999, separated by commas")
    return sorted({int(part) for part in parts})
