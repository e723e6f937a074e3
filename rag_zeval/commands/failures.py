"""`rag-zeval failures`: why do answers fail?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_zeval.commands.arguments import check_files, read_names
from rag_zeval.commands.evaluate import Map
from rag_zeval.errors import InputError
from rag_zeval.terminal_tables import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_zeval.golden.failure_classes import Classified, Share
    from rag_zeval.results import Judged

ResultFile = Annotated[Path, typer.Argument(help="The result file that `rag-zeval evaluate` wrote.")]
GoldFiles = Annotated[
    list[Path], typer.Argument(help="The files that it judged, with the columns context_ids and gold_chunk_ids.")
]
Correct = Annotated[
    str | None,
    typer.Option(help="The metric that says whether an answer is correct. Default: ...@truth or is_correct."),
]
Supported = Annotated[
    str | None,
    typer.Option(help="The metric that says whether an answer is supported. Default: ...@contexts or rag_zeval."),
]
Threshold = Annotated[float, typer.Option(help="The minimum score, 0 to 1, that counts as correct, or as supported.")]
InPrompt = Annotated[int | None, typer.Option(min=1, help="How many retrieved chunks the prompt held. Default: all.")]
OutPath = Annotated[Path | None, typer.Option(help="Also write every answer with its class, JSONL. Default: none.")]
EXAMPLES, SHOWN = 10, 120  # of each class; characters of a text


def failures(
    results: ResultFile,
    gold: GoldFiles,
    correct: Correct = None,
    supported: Supported = None,
    threshold: Threshold = 0.5,
    k: InPrompt = None,
    map: Map = [],  # noqa: B006 (typer reads it)
    out: OutPath = None,
) -> None:
    """Find out why answers fail: the retriever, the ranking or the generator.

    Every answer gets one class. A wrong answer fails because no gold chunk was retrieved, because the gold chunk was
    ranked below the first K, or although it was in the prompt. A correct answer is supported or not. If a score or an
    id is missing, the class is unknown.

    The table counts classes by slice, with 95% Wilson intervals. Up to ten examples of each class follow.
    """
    from rag_zeval.cases.reading import read_cases
    from rag_zeval.files import json_line, write_chunks
    from rag_zeval.golden.failure_classes import CLASSES, NOT_KNOWN, choose_metrics, classify, shares
    from rag_zeval.results import read_judged

    if not 0 <= threshold <= 1:
        raise InputError(f"--threshold is {threshold}, but must be from 0 to 1")
    check_files([("INPUT", results), *(("INPUT", path) for path in gold), ("--out", out)])
    judged = read_judged(results)
    metrics = choose_metrics(judged, correct, supported, threshold)
    names = read_names(map)
    classified = classify(
        judged, [case for path in gold for case in read_cases(path, names, judged=False).cases], metrics, k
    )
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
    if out is not None:
        write_chunks(out, (json_line(dataclasses.asdict(one)) for one in classified))
        print(f"all answers with their class: {out}")


def _rule(metric: str, judged: Sequence[Judged], threshold: float) -> str:
    """From which score on an answer is right, or supported, and by what it was judged."""
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
