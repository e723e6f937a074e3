"""Relevance grades as TREC keeps them, in qrels files, and the pairs of topic and document that two of them grade."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rag_zeval.audit.agreement import Ratings
from rag_zeval.errors import InputError
from rag_zeval.files import NONE, FieldTypes, Maybe, Row, check_fields, locate, readable, write_text
from rag_zeval.results import READ
from rag_zeval.text import one_line, trec_id

FIELDS = ("topic", "iteration", "document", "grade")
HIGHEST = 10  # grade: what is higher is taken for something else, such as a rank or a score
Qrels = dict[tuple[str, str], int]  # the grade of a topic and a document


def read_qrels(path: str | Path) -> Qrels:
    """The grades of a qrels file, in its order: a line is `topic iteration document grade`, separated by white space.

    iteration: is not used by anyone. grade: a whole number from 0 to HIGHEST. Blank lines, and lines that say again
    what an earlier one said, do not count. Raises InputError naming file, line and field for a line that does not fit,
    for a pair that has another grade in an earlier line, and for a file that cannot be read or has no line.
    """
    grades: Qrels = {}
    lines: dict[tuple[str, str], int] = {}
    with readable(path), open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            # of bytes, so that only ASCII white space separates, whatever a document is called
            words = [word.decode("utf-8", "backslashreplace") for word in line.removeprefix(b"\xef\xbb\xbf").split()]
            if not words:
                continue
            with locate(f"{path}:{number}"):
                pair, grade = _graded(words)
                if grades.setdefault(pair, grade) != grade:
                    raise InputError(
                        f"field 'grade' is {grade} for topic {one_line(pair[0])} and document {one_line(pair[1])}, "
                        f"but {grades[pair]} in line {lines[pair]}"
                    )
            lines.setdefault(pair, number)
    if not grades:
        raise InputError(f"{path}:1: the file has no grades")
    return grades


def _graded(words: list[str]) -> tuple[tuple[str, str], int]:
    if len(words) != len(FIELDS):
        raise InputError(f"expected {len(FIELDS)} fields ({' '.join(FIELDS)}), found {len(words)}")
    topic, _, document, grade = words
    if not re.fullmatch("[0-9]{1,2}", grade) or int(grade) > HIGHEST:
        raise InputError(f"field 'grade' must be a whole number from 0 to {HIGHEST}, found {one_line(grade)}")
    return (topic, document), int(grade)


@dataclass
class GradedChunks:
    """The grades that UMBRELA gave to chunks, in a result file.

    grades: by case and id of the chunk; several: pairs that have another grade in another row, of which the first is
    kept; ungraded: cases that have none.
    """

    grades: Qrels = field(default_factory=dict)
    several: set[tuple[str, str]] = field(default_factory=set)
    ungraded: set[str] = field(default_factory=set)


JUDGED: FieldTypes = {**READ, "parts": {"answers": Maybe((list, NONE))}, "context_ids": Maybe([str])}  # of a row


def graded_chunks(rows: Iterable[Row]) -> GradedChunks:
    """What the rows of all `umbrela` metrics say in their first trial; rows have the fields of JUDGED.

    Raises InputError if there are none, or they do not hold the ids of the chunks.
    """
    found = GradedChunks()
    for row in rows:
        if row["trial"] or not row["metric"].startswith("umbrela"):
            continue
        if "context_ids" not in row:
            raise InputError(f"row {row['id']!r} has no context_ids: run `rag-zeval evaluate` again with another --out")
        case = trec_id(row["case"])
        [*graded] = filter(None, row["parts"].get("answers") or [])
        if not graded:
            found.ungraded.add(case)
        for one in graded[:1]:  # all answers of a row have the same
            with locate(f"row {row['id']!r}"):
                check_fields(one, {"grades": [range(HIGHEST + 1)]})
            for chunk, grade in zip(map(trec_id, row["context_ids"]), one["grades"], strict=False):  # of the first k
                if found.grades.setdefault((case, chunk), grade) != grade:
                    found.several.add((case, chunk))
    if not found.grades:
        raise InputError("the file has no grades: run `rag-zeval evaluate --scorers umbrela` first")
    found.ungraded -= {case for case, _ in found.grades}
    return found


def write_qrels(path: Path, grades: Qrels) -> None:
    """Write grades that `read_qrels` reads, and trec_eval."""
    write_text(path, "".join(f"{topic} 0 {chunk} {grade}\n" for (topic, chunk), grade in grades.items()))


def graded_pairs(people: Qrels, judge: Qrels) -> Ratings:
    """The pairs that both grade, in the order of `people`, the judge's grades first, by topic.

    A grade g is the value g / (levels - 1); levels: the highest grade of a pair + 1. Raises InputError for no pair.

    >>> graded_pairs({("1", "a"): 2, ("1", "b"): 0}, {("1", "a"): 1}).confusion()
    [[0, 0, 0], [0, 0, 1], [0, 0, 0]]
    """
    both = [pair for pair in people if pair in judge]
    if not both:
        raise InputError("no pair of topic and document is graded in both files")
    grades = np.array([(judge[pair], people[pair]) for pair in both], dtype=float)
    top = max(1, int(grades.max()))
    first, second = grades.T / top
    return Ratings(first, second, np.ones(len(both)), [topic for topic, _ in both], top + 1)
