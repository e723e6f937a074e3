"""`python -m eval_benchmarks.retrieval FILE.jsonl`: does the retriever find the gold chunks, by k and by slice?

A line of the file is a question: {"question": text, "retrieved": [ids, best first], "gold_chunk_ids": [ids],
"slice_tag": text}. hit-rate@k is the share of questions with at least one gold chunk among the first k; recall@k is
the mean share of a question's gold chunks among the first k. The practitioner's text this follows
(llmbestpractices.com/ai-agents/rag-eval, with its k) calls the first one recall@k; they are the same where each
question has one gold chunk.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from rag_zeval.errors import InputError, exit_status
from rag_zeval.files import Row, check_fields, parse_row
from rag_zeval.statistics.bootstrap import mean_interval, share_interval

KS = (5, 10, 50)  # what the prompt sees, what a reranker sees, what the index gives
ALL = "all"
HEADS = ("slice", "k", "questions", "hit-rate@k", "95% Wilson", "recall@k", "95% bootstrap")
FIELDS = {"question": str, "retrieved": list, "gold_chunk_ids": list, "slice_tag": str}
Interval = tuple[float, float]


@dataclass(frozen=True)
class Question:
    """The ids retrieved for a question, best first, and those of the chunks that hold its answer."""

    retrieved: tuple[str, ...]
    gold: frozenset[str]
    slice_tag: str


def recall(question: Question, k: int) -> float:
    """The share of the gold chunks that stand among the first k, in [0, 1]; an id that stands twice takes two places.

    There is a hit where it is above 0.
    """
    return len(question.gold.intersection(question.retrieved[:k])) / len(question.gold)


def hit_rate(questions: Sequence[Question], k: int) -> tuple[float, Interval]:
    """The share of questions with a hit, and its 95% Wilson interval."""
    hits = sum(recall(question, k) > 0 for question in questions)
    return hits / len(questions), share_interval(hits, len(questions))


def mean_recall(questions: Sequence[Question], k: int) -> tuple[float, Interval]:
    """The mean recall, and its 95% percentile bootstrap interval over questions (a point where all are alike)."""
    shares = [recall(question, k) for question in questions]
    return sum(shares) / len(shares), mean_interval([[share] for share in shares])


def read_questions(path: Path) -> tuple[list[Question], list[str]]:
    """The questions of a file, and a line for each row that cannot be used, with file, line and field.

    Raises InputError if the file cannot be read or no row can be used.
    """
    questions: list[Question] = []
    left_out: list[str] = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                questions.append(_read_question(parse_row(line)))
            except InputError as error:
                left_out.append(f"{path}:{number}: {error}")
    if not questions:
        raise InputError(left_out[0] if left_out else f"{path}: no questions in it")
    return questions, left_out


def _read_question(row: Row) -> Question:
    check_fields(row, FIELDS)
    for field in ("retrieved", "gold_chunk_ids"):
        for id_ in row[field]:
            if not isinstance(id_, str):  # 7 and "7" would never meet
                raise InputError(f"field '{field}' must hold ids that are texts, found {type(id_).__name__}")
    if not row["gold_chunk_ids"]:
        raise InputError("field 'gold_chunk_ids' is empty: there is nothing to find")
    return Question(tuple(row["retrieved"]), frozenset(row["gold_chunk_ids"]), row["slice_tag"])


def table(questions: Sequence[Question]) -> list[tuple[str, ...]]:
    """Lines under HEADS: all questions, then each slice by itself, at every k."""
    tag_of = attrgetter("slice_tag")
    slices = [(tag, list(members)) for tag, members in groupby(sorted(questions, key=tag_of), key=tag_of)]
    lines: list[tuple[str, ...]] = []
    for tag, members in [(ALL, questions), *slices]:
        for k in KS:
            cells = [tag, str(k), str(len(members))]
            for value, (low, high) in (hit_rate(members, k), mean_recall(members, k)):
                cells += [f"{value:.3f}", f"{low:.3f} to {high:.3f}"]
            lines.append(tuple(cells))
    return lines


def short_lists(questions: Sequence[Question]) -> list[str]:
    """A line for each k beyond what some rows list: there the file may be the limit, not the retriever."""
    counts = {k: sum(len(question.retrieved) < k for question in questions) for k in KS}
    return [f"k = {k}: {n} of {len(questions)} rows list fewer ids" for k, n in counts.items() if n]


def main(argv: Sequence[str]) -> int:
    """Exit status: 0, or 1 if rows had to be left out, 2 if there is nothing to measure."""
    parser = argparse.ArgumentParser(prog="python -m eval_benchmarks.retrieval", description=__doc__)
    parser.add_argument("file", type=Path, help="JSONL, a question a line")
    questions, left_out = read_questions(parser.parse_args(argv).file)
    from rich.table import Table
    from rich.text import Text

    from eval_benchmarks.output.tables import open_console

    shown = Table(*HEADS)
    for cells in table(questions):
        shown.add_row(*map(Text, cells))  # Text: brackets in a slice's name are no markup
    open_console().print(shown)
    for line in short_lists(questions):
        print(line)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
