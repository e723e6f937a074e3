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
    Path, typer.Argument(help="JSONL with context_ids (or retrieved: ids, best first), gold_chunk_ids and slice_tag.")
]
Ks = Annotated[str, typer.Option(help="Among how many of the first ids to look: what prompt, reranker, index give.")]


def retrieval(file: RankingFile, k: Ks = "5,10,50") -> None:
    """Hit rate, recall, precision, nDCG, MRR and MAP of a retriever at each K, with 95% intervals, by slice.

    A row that cannot be used is told on stderr and does not count. Exit status: 0, 1 if there was one, 2 if there is
    nothing to measure.
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
    print("in brackets the 95% interval: Wilson's for the hit rate, else percentile bootstrap over questions")
    if unanswerable:
        print(f"{unanswerable} questions are unanswerable: there is nothing to find for them")
    for at, n in short_lists(rankings, ks):
        print(f"k = {at}: {n} of {len(rankings)} rows list fewer ids")
    for line, text in bad.items():
        print(f"left out: {file}:{line}: {text}", file=sys.stderr)
    if bad:
        raise typer.Exit(1)


def parse_ks(text: str) -> list[int]:
    """Numbers between commas, in rising order, each once. Raises InputError for anything else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("[1-9][0-9]{0,5}", part) for part in parts):
        raise InputError(f"--k is {text!r}, must be whole numbers from 1 to 999999, with commas between")
    return sorted({int(part) for part in parts})
