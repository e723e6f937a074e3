"""Relevance grades as TREC keeps them, in qrels files, and the pairs of topic and document that two of them grade."""

import re
from pathlib import Path

import numpy as np

from rag_zeval.audit.agreement import Ratings
from rag_zeval.errors import InputError
from rag_zeval.files import locate, readable
from rag_zeval.text import one_line

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
