"""The rows of collected answers: what a system said to a question, or why it said nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.files import FieldTypes, Row, check_fields, first_difference, iter_jsonl, json_line, locate, parse_row
from rag_zeval.rows import RowWriter
from rag_zeval.secrets import without_keys
from rag_zeval.text import one_line

KEPT: FieldTypes = {"truth": (str, type(None)), "slice_tag": (str, type(None)), "gold_chunk_ids": list}  # of a question


@dataclass(frozen=True)
class Found:
    """What a system said to a question: the answer, the chunks it read for it, best first, and their ids.

    contexts, context_ids: None where it does not tell. Raises ValueError for what is no text, or ids of other chunks.
    """

    answer: str
    contexts: tuple[str, ...] | None = None
    context_ids: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, texts in (("answer", [self.answer]), ("contexts", self.contexts), ("context ids", self.context_ids)):
            for text in texts or ():
                if not isinstance(text, str):
                    raise ValueError(f"{name}: expected text, found {type(text).__name__}")
        contexts, ids = self.contexts, self.context_ids
        if contexts is not None and ids is not None and len(contexts) != len(ids):
            raise ValueError(f"{len(contexts)} contexts and {len(ids)} context ids")


def read_questions(path: str | Path) -> list[Row]:
    """The rows of a JSONL file of questions: "id" (else the line number), "question", and of KEPT what is there.

    Raises InputError naming file, line and field at the first row that does not fit, or if there is none.
    """
    questions: dict[str, Row] = {}
    for number, row in iter_jsonl(path, {"question": str}):
        with locate(f"{path}:{number}"):
            check_fields({"id": number, **row}, {"id": (str, int)})
            check_fields(row, {name: kind for name, kind in KEPT.items() if name in row})
            id_ = str(row.get("id", number))
            if id_ in questions:
                raise InputError(f"duplicate id '{id_}'")
            if not all(isinstance(chunk, str) for chunk in row.get("gold_chunk_ids", [])):
                raise InputError("field 'gold_chunk_ids': must be a list of strings")
        kept = {name: row[name] for name in KEPT if name in row}
        questions[id_] = {"id": id_, "question": row["question"], **kept}
    if not questions:
        raise InputError(f"{path}: no rows")
    return list(questions.values())


def answer_row(question: Row, found: Found | None, status: str, seconds: float) -> Row:
    """The row of a question: what was found for it, or null and the status "failed: reason"; the system's seconds."""
    row = {**question, "answer": found and found.answer, "status": status, "latency_s": seconds if found else None}
    if found is not None and found.contexts is not None:
        row["contexts"] = list(found.contexts)
    if found is not None and found.context_ids is not None:
        row["context_ids"] = list(found.context_ids)
    return row


def ask_each(questions: Iterable[Row], ask: Callable[[str], Found]) -> Iterator[Row]:
    """Put questions (as `read_questions` has them) to a function, one after the other; a row for each, timed.

    What it raises is the status of that row alone, without keys: those of the environment, and what looks like one.
    """
    for question in questions:
        started = time.perf_counter()
        found, status = None, "ok"
        try:
            found = ask(question["question"])
        except Exception as error:
            status = f"failed: {one_line(without_keys(f'{type(error).__name__}: {error}'))}"
        yield answer_row(question, found, status, time.perf_counter() - started)


def failed_rows(rows: RowWriter, questions: Sequence[Row], made_by: Row) -> list[str]:
    """The ids of the rows that have failed, to be asked again.

    made_by: what an answer depends on besides the question. Raises InputError if a row is of another question or was
    collected otherwise: one file holds one run.
    """
    asked = {question["id"]: question for question in questions}
    failed = []
    for number, row in enumerate(rows.done.values(), 1):
        with locate(f"{rows.path}:{number}"):
            check_fields(row, {"status": str, "latency_s": (float, int, type(None))})
            if row["id"] not in asked:
                raise InputError(f"row {row['id']!r} belongs to none of the questions; choose another --out")
            now = parse_row(json_line({**asked[row["id"]], **made_by}))
            if differing := first_difference({name: row.get(name) for name in now}, now):
                field = differing.removeprefix("collected.")
                raise InputError(f"row {row['id']!r} was collected with a different {field}; choose another --out")
        if row["status"].startswith("failed"):
            failed.append(row["id"])
    return failed
