"""The commands about gold chunks: `check-set` checks a golden set; `retrieval` and `failures` measure a system."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_zeval.commands.arguments import Map, QuestionMap, ResultPath, check_files, check_threshold, read_names
from rag_zeval.errors import InputError
from rag_zeval.terminal_tables import print_table
from rag_zeval.text import counted

if TYPE_CHECKING:
    from rag_zeval.golden.failure_classes import Classified, Share
    from rag_zeval.results import Judged

EXAMPLES, SHOWN = 10, 120  # examples of each class; characters of a text


def check_set(
    file: Annotated[
        Path,
        typer.Argument(
            help="A file with the fields question, gold_chunk_ids, truth, slice_tag and origin, in any format that "
            "evaluate reads."
        ),
    ],
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="OLD", help="An earlier version of FILE. Also list the rows that were edited since. Default: none."
        ),
    ] = None,
    map: QuestionMap = [],  # noqa: B006 (typer reads it)
) -> None:
    """Check a golden set, and list what to fix by file and line.

    A good set has 50 to 200 questions, each with gold chunks, a ground truth and a slice. It has no duplicates or near
    duplicates and at least five questions in each slice. Half of the questions come from production.

    The version that is printed changes with every question, true answer and gold chunk. Rows are never edited: scores
    of different texts cannot be compared. To change a row, remove it and add another one with a new id.

    The exit status is 0 if there is nothing to fix, 1 if there is, and 2 if FILE cannot be read.
    """
    from rag_zeval.cases.case import set_version
    from rag_zeval.golden.check_set import by_tag, changes, findings, from_production, hashes, read_set

    names = read_names(map)
    read = read_set(file, names)
    earlier = read_set(against, names) if against is not None else None
    for place, row in earlier.rows.items() if earlier else ():
        if isinstance(row, InputError):  # it would seem to be a row that was removed
            raise InputError(f"{place}: {row}")
    print(*filter(None, (read, earlier)), sep="\n", file=sys.stderr)
    rows = read.readable
    version = set_version([hashes(row) for row in rows.values()])
    of_slices = []
    for name, places in by_tag(rows):
        of_slices.append((name, str(len(places)), str(sum(from_production(rows[place]) for place in places))))
    print_table(("slice", "questions", "from production"), of_slices)
    print(f"version {version}: {counted(len(rows), 'question')}")
    found = findings(read)
    if earlier is not None:
        old = earlier.readable
        since = changes(rows, old)
        found = [*since.edits, *found]
        before = set_version([hashes(row) for row in old.values()])
        print(
            f"since {against} (version {before}): {since.same} questions unchanged, "
            f"{len({edit.place for edit in since.edits})} edited, {since.new} new, {since.gone} removed"
        )
    if not found:
        print("nothing to fix")
        return
    print_table(("where", "field", "what to fix"), [(one.place, one.field, one.text) for one in found])
    raise typer.Exit(1)


def retrieval(
    file: Annotated[
        Path,
        typer.Argument(
            help="A file with the fields context_ids (or retrieved), best first, gold_chunk_ids and slice_tag, "
            "in any format that evaluate reads."
        ),
    ],
    k: Annotated[
        str,
        typer.Option(help="Cut-offs k, separated by commas, such as the number of chunks that your prompt holds."),
    ] = "5,10,50",
    qrels: Annotated[
        Path | None,
        typer.Option(
            help="A qrels file with grades of chunks, by people or by `rag-zeval qrels`, in place of gold_chunk_ids. "
            "Topics are the ids of rows."
        ),
    ] = None,
    relevant: Annotated[
        int, typer.Option(min=1, max=10, help="The minimum grade of a relevant chunk in --qrels. nDCG uses all grades.")
    ] = 1,
    map: QuestionMap = [],  # noqa: B006 (typer reads it)
) -> None:
    """Measure whether the retriever finds the gold chunks: hit rate, recall, precision, nDCG, MRR and MAP.

    Each measure is computed at every k and for every slice, with 95% intervals. Rows that cannot be used are listed on
    stderr and left out.

    The exit status is 0 if all rows were used, 1 if some were left out, and 2 if there is nothing to measure.
    """
    from rag_zeval.audit.qrels import read_qrels
    from rag_zeval.cases.case import never_match
    from rag_zeval.golden.retrieval import estimates, rankings_of, read_retrieved, short_lists

    parts = [part.strip() for part in k.split(",")]
    if not all(re.fullmatch("[1-9][0-9]{0,5}", part) for part in parts):
        raise InputError(f"--k is {k!r}, but must be whole numbers from 1 to 999999, separated by commas")
    ks = sorted({int(part) for part in parts})
    grades = None if qrels is None else read_qrels(qrels)
    read = read_retrieved(file, grades is not None, read_names(map))
    rankings, bad, unanswerable = rankings_of(read, grades, relevant)
    print(read, file=sys.stderr)
    rows = []
    for (name, measure), cells in groupby(estimates(rankings, ks, relevant), lambda one: (one.slice_name, one.measure)):
        at_each_k = list(cells)
        intervals = ["none" if one.interval is None else "{:.3f}, {:.3f}".format(*one.interval) for one in at_each_k]
        shown = [f"{one.value:.3f} [{interval}]" for one, interval in zip(at_each_k, intervals, strict=True)]
        rows.append((name, str(at_each_k[0].n), measure, *shown))
    print_table(("slice", "questions", "measure", *(f"k = {one}" for one in ks)), rows)
    print("In brackets: 95% intervals over questions, by bootstrap, or Wilson's where all values are 0 or 1.")
    if unanswerable:
        print(f"{counted(unanswerable, 'unanswerable question')} left out: there are no gold chunks to find")
    for at, n in short_lists(rankings, ks):
        print(f"k = {at}: {n} of {len(rankings)} rows have fewer than {at} ids")
    if note := never_match((ranking.retrieved, ranking.gold) for ranking in rankings):
        print(f"note: {note}", file=sys.stderr)
    for line in bad:
        print(f"left out: {line}", file=sys.stderr)
    if bad:
        raise typer.Exit(1)


def failures(
    results: ResultPath,
    gold: Annotated[
        list[Path],
        typer.Argument(help="The files that `evaluate` read, with the columns context_ids and gold_chunk_ids."),
    ],
    correct: Annotated[
        str | None,
        typer.Option(help="The metric that says whether an answer is correct. Default: as in `dashboard`."),
    ] = None,
    supported: Annotated[
        str | None,
        typer.Option(help="The metric that says whether an answer is supported. Default: as in `dashboard`."),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="The minimum score, 0 to 1, that counts as correct, or as supported.")
    ] = 0.5,
    k: Annotated[
        int | None, typer.Option(min=1, help="How many retrieved chunks the prompt held. Default: all.")
    ] = None,
    map: Map = [],  # noqa: B006 (typer reads it)
    out: Annotated[
        Path | None, typer.Option(help="Also write every answer with its class, JSONL. Default: none.")
    ] = None,
) -> None:
    """Find out why answers fail: the retriever, the ranking or the generator.

    Every answer gets one class. A wrong answer fails because no gold chunk was retrieved, because the gold chunk was
    ranked below the first K, or although it was in the prompt. A right answer is supported or not. If a score or an id
    is missing, the class is "not known".

    The table counts classes by slice, with 95% Wilson intervals. Up to ten examples of each class follow.
    """
    from rag_zeval.cases.case import never_match
    from rag_zeval.cases.reading import read_cases
    from rag_zeval.files import json_line, write_chunks
    from rag_zeval.golden.failure_classes import CLASSES, NOT_KNOWN, choose_metrics, classify, shares
    from rag_zeval.results import read_judged

    check_threshold(threshold)
    check_files([results, *gold], ("--out", out))
    judged = read_judged(results)
    metrics = choose_metrics(judged, correct, supported, threshold)
    names = read_names(map)
    files = [read_cases(path, names, judged=False) for path in gold]
    for file in files:
        for field in ("context_ids", "gold_chunk_ids"):
            if field in file.columns.ambiguous:
                raise InputError(f"{file.name}: {file.columns.ambiguous[field]}")
    cases = [case for file in files for case in file.cases]
    classified = classify(judged, cases, metrics, k)
    several = len({one.system for one in classified}) > 1
    rules = (("correct", metrics.correct), ("supported", metrics.supported))
    print("; ".join(f"{name}: {_rule(metric, judged, threshold)}" for name, metric in rules))
    heads = ("slice", "class", "answers", "of", "share", "95% Wilson")
    print_table(("system", *heads) if several else heads, [_cells(share, several) for share in shares(classified)])
    for name in CLASSES:
        members = [one for one in classified if one.class_name == name]
        if members:
            print(f"{name}: {min(EXAMPLES, len(members))} of {len(members)}")
            last = "why" if name == NOT_KNOWN else "ground truth"
            examples = [_example(one, several) for one in members[:EXAMPLES]]
            print_table(("case", "question", "answer", last), examples)
    if note := never_match((case.context_ids, case.gold_chunk_ids) for case in cases):
        print(f"note: {note}", file=sys.stderr)
    if out is not None:
        write_chunks(out, (json_line(dataclasses.asdict(one)) for one in classified))
        print(f"all answers with their class: {out}")


def _rule(metric: str, judged: Sequence[Judged], threshold: float) -> str:
    """Describe a rule for correct, or supported, answers: metric, minimum score and reference."""
    names = dict.fromkeys(name for one in judged if one.metric == metric for name, _ in one.sources)
    return f"{metric} ≥ {threshold:g}" + (f" (judged by the {' and the '.join(names)})" if names else "")


def _cells(share: Share, several: bool) -> tuple[str, ...]:
    interval = share.interval
    numbers = (f"{share.count / share.of:.3f}", f"{interval[0]:.3f} to {interval[1]:.3f}") if interval else ("-", "-")
    cells = (share.slice_name, share.class_name, str(share.count), str(share.of), *numbers)
    return (share.system, *cells) if several else cells


def _example(one: Classified, several: bool) -> tuple[str, ...]:
    texts = (one.question, one.answer or "", one.why or one.truth or "")
    case = f"{one.system}:{one.case}" if several else one.case
    return (case, *(text if len(text) <= SHOWN else f"{text[:SHOWN]}…" for text in texts))
