"""Files of `rag-zeval evaluate`: rows in, one result row per example and trial out, and their summary."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_zeval.bootstrap import mean_interval
from rag_zeval.errors import InputError
from rag_zeval.evaluator import Evaluation, Evaluator, Example
from rag_zeval.files import Row, iter_jsonl, write_text
from rag_zeval.llm import known_total
from rag_zeval.schema import LETTERS


def read_examples(path: str | Path) -> list[Example]:
    """Rows `{id?, question, reference, answers: [str, …] | answer: str}`; a row without id gets its line number.

    Raises InputError naming file, line and field at the first row that does not fit, or if there is none.
    """
    examples: dict[str, Example] = {}
    for number, row in iter_jsonl(path, {"question": str, "reference": str}):
        where = f"{path}:{number}"
        answers = row.get("answers", [row["answer"]] if "answer" in row else None)
        if answers is None:
            raise InputError(f"{where}: field 'answers' is missing")
        if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
            raise InputError(f"{where}: field 'answers': must be a list of strings (or 'answer' one string)")
        if not 1 <= len(answers) <= len(LETTERS):
            raise InputError(f"{where}: field 'answers': has {len(answers)}, must have 1 to {len(LETTERS)}")
        given = row.get("id", str(number))
        if isinstance(given, bool) or not isinstance(given, (str, int)):
            raise InputError(f"{where}: field 'id': must be a string or a whole number")
        if str(given) in examples:
            raise InputError(f"{where}: field 'id': '{given}' stands twice")
        examples[str(given)] = Example(str(given), row["question"], row["reference"], tuple(answers))
    if not examples:
        raise InputError(f"{path}: no rows")
    return list(examples.values())


def row_id(example_id: str, trial: int) -> str:
    """The id of a result row: the example's, with `#trial` from the second trial on."""
    return example_id if trial == 0 else f"{example_id}#{trial}"


def provenance(evaluator: Evaluator, example: Example) -> Row:
    """What a result row depends on: two rows with equal provenance may stand in one file."""
    text = json.dumps([example.question, example.reference, example.answers])
    return {
        "model": evaluator.backend.name,
        "identity": evaluator.backend.identity,
        "variant": evaluator.variant.name,
        "prompt_hash": evaluator.variant.prompt_hash,
        "sampling": dataclasses.asdict(evaluator.sampling),
        "structured": evaluator.structured,
        "input_sha256": hashlib.sha256(text.encode()).hexdigest()[:16],
    }


def result_row(evaluator: Evaluator, example: Example, evaluation: Evaluation, trial: int) -> Row:
    """The evaluation as JSON, with where it came from."""
    found = dataclasses.asdict(evaluation)
    found["id"] = row_id(example.id, trial)
    row = {**found, "example": example.id, "trial": trial, **provenance(evaluator, example)}
    # escapes in a reply can spell characters that no file can hold
    clean: Row = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
    return clean


def settle_done_rows(path: Path, evaluator: Evaluator, examples: Mapping[str, Example]) -> list[Row]:
    """Prepare a result file for going on: failed rows are taken out, to be tried again, and returned.

    Raises InputError if a row belongs to another model, prompt, sampling or input: one file holds one run.
    """
    if not path.exists():
        return []
    _drop_torn_line(path)
    kept: list[str] = []
    failed: list[Row] = []
    for number, row in iter_jsonl(path, {"id": str, "example": str, "trial": int, "status": str}):
        where, example = f"{path}:{number}: row '{row['id']}'", examples.get(row["example"])
        if example is None:
            raise InputError(f"{where} is of another input; name another --out")
        made = {"structured": False, **row}  # version 0.1.0 did not write it
        for field, value in provenance(evaluator, example).items():
            if field != "model" and made.get(field) != value:
                raise InputError(f"{where} was made with another {field}; name another --out")
        if row["status"].startswith("failed"):
            failed.append(row)
        else:
            kept.append(json.dumps(row, ensure_ascii=False) + "\n")
    if failed:
        write_text(path, "".join(kept))
    return failed


def _drop_torn_line(path: Path) -> None:
    """Cut off a last line that a kill tore; raise InputError if the file ends like none of ours."""
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    tail, start = data[end:], b'{"id": '
    try:
        row = json.loads(tail)
        ours = isinstance(row, dict) and "example" in row  # whole but for its end of line: it is done again
    except ValueError:
        ours = tail.startswith(start[: len(tail)])
    if not ours:
        raise InputError(f"{path}: is no file of result rows; name another --out")
    os.truncate(path, end)


@dataclass(frozen=True)
class Summary:
    """Totals of a run. Means are over scored answers only; a missing score is never a number.

    coverage: scored answers / answers; ci: 95% percentile bootstrap over examples, None with fewer than two scored;
    trial_sd: standard deviation of the trials' means, None for one trial; tokens: of calls made, not of
    cached replies, None if none of them told; untold: rows with calls that lack a count, so that these are minima.
    """

    rows: int
    answers: int
    scored: int
    mean: float | None
    ci: tuple[float, float] | None
    trial_sd: float | None
    calls: int
    cached: int
    prompt_tokens: int | None
    completion_tokens: int | None
    untold: int
    statuses: dict[str, int]

    @property
    def coverage(self) -> float:
        return self.scored / self.answers


def summarize(rows: Sequence[Row]) -> Summary:
    """The summary of result rows (at least one)."""
    called = [row for row in rows if row["calls"]]
    by_example: dict[str, list[float]] = {}
    by_trial: dict[int, list[float]] = {}
    for row in rows:
        for score in row["scores"]:
            if score is not None:
                by_example.setdefault(row["example"], []).append(score)
                by_trial.setdefault(row["trial"], []).append(score)
    scores = [score for scored in by_example.values() for score in scored]
    return Summary(
        rows=len(rows),
        answers=sum(len(row["scores"]) for row in rows),
        scored=len(scores),
        mean=sum(scores) / len(scores) if scores else None,
        ci=mean_interval(list(by_example.values())) if len(by_example) > 1 else None,
        trial_sd=_sd([sum(trial) / len(trial) for trial in by_trial.values()]),
        calls=sum(row["calls"] for row in rows),
        cached=sum(row["cached"] for row in rows),
        prompt_tokens=known_total([row["prompt_tokens"] for row in called]),
        completion_tokens=known_total([row["completion_tokens"] for row in called]),
        untold=sum(None in (row["prompt_tokens"], row["completion_tokens"]) for row in called),
        statuses=_count_statuses(rows),
    )


def _count_statuses(rows: Sequence[Row]) -> dict[str, int]:
    """Rows by status: those with a score first, then failures, the frequent first.

    Statuses that differ only in their numbers are one, named by the first that came.
    """
    kinds: dict[str, Counter[str]] = {}
    for row in rows:
        kinds.setdefault(re.sub(r"\d+", "N", row["status"]), Counter())[row["status"]] += 1
    counts: dict[str, int] = {}
    for kind in kinds.values():
        first, others = next(iter(kind)), kind.total() - kind[next(iter(kind))]
        counts[f"{first} (and {others} like it)" if others else first] = kind.total()
    return dict(sorted(counts.items(), key=lambda item: (item[0].startswith("failed"), -item[1])))


def _sd(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
