"""What users ask `rag-zeval evaluate` to judge: their file of answers, checked row by row before anything starts."""

from __future__ import annotations

from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.files import Row, iter_jsonl, locate
from rag_zeval.judge.evaluator import Example
from rag_zeval.judge.schema import LETTERS


def read_examples(path: str | Path) -> list[Example]:
    """Rows `{id?, question, reference, answers: [str, …] | answer: str}`; a row without id gets its line number.

    Raises InputError naming file, line and field at the first row that does not fit, or if there is none.
    """
    examples: dict[str, Example] = {}
    for number, row in iter_jsonl(path, {"question": str, "reference": str}):
        with locate(f"{path}:{number}"):
            example = _example(row, number)
            if example.id in examples:
                raise InputError(f"field 'id': '{example.id}' stands twice")
        examples[example.id] = example
    if not examples:
        raise InputError(f"{path}: no rows")
    return list(examples.values())


def _example(row: Row, number: int) -> Example:
    answers = row.get("answers", [row["answer"]] if "answer" in row else None)
    if answers is None:
        raise InputError("field 'answers' is missing")
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise InputError("field 'answers': must be a list of strings (or 'answer' one string)")
    if not 1 <= len(answers) <= len(LETTERS):
        raise InputError(f"field 'answers': has {len(answers)}, must have 1 to {len(LETTERS)}")
    id_ = row.get("id", number)
    if isinstance(id_, bool) or not isinstance(id_, (str, int)):
        raise InputError("field 'id': must be a string or a whole number")
    return Example(str(id_), row["question"], row["reference"], tuple(answers))
