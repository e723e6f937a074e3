"""Reads and writes relevance grades as TREC qrels files, and pairs the grades of people and a judge."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rag_zeval.audit.agreement import Ratings
from rag_zeval.errors import InputError
from rag_zeval.files import NONE, FieldTypes, Maybe, Row, check_fields, locate, readable, write_text
from rag_zeval.results import READ
from rag_zeval.text import one_line, trec_id

FIELDS = ("topic", "iteration", "document", "grade")
BEIR = ("topic", "document", "grade")  # below a header
HIGHEST = 10  # the highest valid grade: larger numbers are probably ranks or scores
Qrels = dict[tuple[str, str], int]  # (topic, document): grade


def read_qrels(path: str | Path) -> Qrels:
    """Read a qrels file and return its grades in file order.

    A line is `topic iteration document grade`, separated by white space, or by tabs if a field holds spaces, which
    become %20 as in `write_qrels`. iteration: ignored. grade: a whole number from 0 to HIGHEST. Below a header of three
    names, as in BEIR, lines have no iteration. Blank lines are skipped, and so are duplicates with the same grade.
    Raises InputError naming file, line and field for an invalid line, and for a duplicate with another grade. Raises it
    also for a file that cannot be read or has no grades.
    """
    grades: Qrels = {}
    lines: dict[tuple[str, str], int] = {}
    names: tuple[str, ...] = ()
    with readable(path), open(path, "rb") as file:
        for number, bare in enumerate(file, 1):
            line = bare.removeprefix(b"\xef\xbb\xbf").strip()
            if not line:
                continue
            if not names:
                first = _words(line, BEIR)
                names = BEIR if len(first) == len(BEIR) and not first[-1].isdecimal() else FIELDS
                if names == BEIR:
                    continue
            with locate(f"{path}:{number}"):
                pair, grade = _graded(_words(line, names), names)
                if grades.setdefault(pair, grade) != grade:
                    raise InputError(
                        f"field 'grade' is {grade} for topic {one_line(pair[0])} and document {one_line(pair[1])}, "
                        f"but {grades[pair]} in line {lines[pair]}"
                    )
            lines.setdefault(pair, number)
    if not grades:
        raise InputError(f"{path}:1: the file has no grades")
    return grades


def _words(line: bytes, names: Sequence[str]) -> list[str]:
    """Split bytes, so that only ASCII white space separates fields: a document id may contain other spaces."""
    tabbed = [part.strip() for part in line.split(b"\t")]
    parts = tabbed if len(tabbed) == len(names) and all(tabbed) else line.split()
    return [part.decode("utf-8", "backslashreplace").replace(" ", "%20") for part in parts]


def _graded(words: Sequence[str], names: Sequence[str]) -> tuple[tuple[str, str], int]:
    if words[0].startswith("{") and words[-1].endswith("}"):
        raise InputError(f"is JSON: write a line of {' '.join(FIELDS)} for each grade")
    if len(words) != len(names):
        raise InputError(f"expected {len(names)} fields ({' '.join(names)}), found {len(words)}")
    topic, document, grade = words[0], words[-2], words[-1]
    if not re.fullmatch("[0-9]{1,2}", grade) or int(grade) > HIGHEST:
        raise InputError(f"field 'grade' must be a whole number from 0 to {HIGHEST}, found {one_line(grade)}")
    return (topic, document), int(grade)


@dataclass
class GradedChunks:
    """The grades that UMBRELA gave to chunks, from a result file.

    grades: by case and chunk id. several: pairs that have different grades in different rows; `grades` has the first.
    ungraded: cases without any grade.
    """

    grades: Qrels = field(default_factory=dict)
    several: set[tuple[str, str]] = field(default_factory=set)
    ungraded: set[str] = field(default_factory=set)


JUDGED: FieldTypes = {**READ, "parts": {"answers": Maybe((list, NONE))}, "context_ids": Maybe([str])}  # fields of a row


def graded_chunks(rows: Iterable[Row]) -> GradedChunks:
    """Collect the grades of all `umbrela` metrics from the rows of their first trial.

    rows: with the fields of JUDGED. Raises InputError if there are no grades, if a row lacks the ids of its chunks, or
    if its grades are not valid.
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
        for one in graded[:1]:  # all answers of a row have the same grades
            with locate(f"row {row['id']!r}"):
                check_fields(one, {"grades": [range(HIGHEST + 1)]})
            # some metrics grade only the first k chunks
            for chunk, grade in zip(map(trec_id, row["context_ids"]), one["grades"], strict=False):
                if found.grades.setdefault((case, chunk), grade) != grade:
                    found.several.add((case, chunk))
    if not found.grades:
        raise InputError("the file has no grades: run `rag-zeval evaluate --scorers umbrela` first")
    found.ungraded -= {case for case, _ in found.grades}
    return found


def write_qrels(path: Path, grades: Qrels) -> None:
    """Write grades as a qrels file, for `read_qrels` and trec_eval."""
    write_text(path, "".join(f"{topic} 0 {chunk} {grade}\n" for (topic, chunk), grade in grades.items()))


def graded_pairs(people: Qrels, judge: Qrels) -> Ratings:
    """Return the ratings of the pairs that both grade, in the order of `people`. The judge is the first rater.

    The cases are the topics. A grade g becomes the value g / (levels - 1), where levels is the highest grade of
    these pairs + 1 (at least 2). Raises InputError if the two share no pair.

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
