"""Where questions and passages come from: the nano world, or a JSONL file of `{id, question, passage}`."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rag_zeval import world
from rag_zeval.errors import InputError
from rag_zeval.files import iter_jsonl

NANO = "nano"
SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class SourceQuestion:
    """A question with the passage that answers it; `facts` is the truth where it is known (nano world), else None."""

    id: str
    question: str
    passage: str
    facts: Mapping[str, str] | None = None


def load_questions(source: str, split: str, n_questions: int | None, seed: int) -> list[SourceQuestion]:
    """The first `n_questions` of a source in an order drawn with `seed`; None takes all of a file, in its own order.

    source: "nano" (`split` says whose people) or the path of a JSONL file. Raises InputError naming file, line and
    field for a row that does not fit, and when the source holds too few questions.
    """
    if source == NANO:
        if n_questions is None:
            raise InputError("config: key 'n_questions' must be a number for the nano world: it has no end")
        return [SourceQuestion(q.id, q.question, q.passage, q.facts) for q in world.questions(split, n_questions, seed)]
    rows = _read(Path(source))
    if n_questions is None:
        return rows
    if n_questions > len(rows):
        raise InputError(f"{source}: holds {len(rows)} questions, n_questions={n_questions} asks for more")
    return random.Random(seed).sample(rows, n_questions)


def _read(path: Path) -> list[SourceQuestion]:
    rows: dict[str, SourceQuestion] = {}
    for number, row in iter_jsonl(path, {"id": str, "question": str, "passage": str}):
        for field in ("id", "question", "passage"):
            if not row[field].strip():
                raise InputError(f"{path}:{number}: field '{field}' is empty")
            if any(0xD800 <= ord(character) < 0xE000 for character in row[field]):
                raise InputError(f"{path}:{number}: field '{field}' holds half a character (a lone surrogate)")
        if row["id"] in rows:
            raise InputError(f"{path}:{number}: field 'id': {row['id']!r} stands twice")
        rows[row["id"]] = SourceQuestion(row["id"], row["question"], row["passage"])
    if not rows:
        raise InputError(f"{path}: holds no questions")
    return list(rows.values())


def questions_sha256(questions: list[SourceQuestion]) -> str:
    """Hex sha256 of the questions themselves, in order: what the file said when the run began."""
    digest = hashlib.sha256()
    for question in questions:
        digest.update(json.dumps(asdict(question), sort_keys=True).encode())
    return digest.hexdigest()
