"""Result rows: `rag-zeval evaluate` writes one for each case, metric and trial, and other commands read them."""

import hashlib
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rag_zeval.cases.case import Case
from rag_zeval.errors import InputError
from rag_zeval.files import FieldTypes, Row, check_fields, iter_jsonl, locate
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import BETWEEN, NOUNS, judged_by
from rag_zeval.scorers.score import Scored, Scorer

OR_NONE = type(None)
READ: FieldTypes = {  # what other commands read of a row
    "case": str, "slice_tag": (str, OR_NONE), "metric": str, "trial": int, "systems": list, "question": str,
    "reference": str, "answers": list, "scores": list, "statuses": list, "status": str, "trajectory": (list, OR_NONE),
    "latency_s": (int, float, OR_NONE),
}  # fmt: skip
UNTOLD: Row = {"reference_kind": None, "chunks": []}  # files of older versions lack these fields
SOURCE: FieldTypes = {"reference_kind": (str, OR_NONE), "chunks": list}
CLAIM: FieldTypes = {"claim": str, "is_supported": bool, "grounding_evidence": list, "analysis": str}
SPENT = "spent before"  # the id of the row that keeps the costs of rows that were retried


def row_id(key: str, metric: str, trial: int) -> str:
    """The id of a result row; `#trial` from the second trial on."""
    return f"{key}|{metric}" + (f"#{trial}" if trial else "")


def input_sha256(example: Example, lacking: Sequence[str | None]) -> str:
    """The first 16 hex digits of a hash of everything that a scorer sees of an example.

    lacking: for each answer, why it cannot be judged, or None. Such a reason is hashed in place of the answer.
    """
    answers = [[why] if why else answer for answer, why in zip(example.answers, lacking, strict=True)]
    seen = [example.question, example.reference, answers, example.truth, example.chunks]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:16]


def result_row(id_: str, case: Case, example: Example, scorer: Scorer, scored: Scored, made_by: Row) -> Row:
    """The result row of a scored case. made_by: metric, trial, and what the scores depend on besides the example."""
    parts = dict(scored.parts)
    statuses = [score.status for score in scored.scores]
    row = {
        "slice_tag": case.slice_tag,
        "metric": made_by["metric"],
        "trial": made_by["trial"],
        "systems": list(case.answers),
        "question": example.question,
        **judged_by(example, scorer.needs, scorer.also),
        "answers": example.answers,
        "scores": scored.values,
        "statuses": statuses,
        "status": next((status for status in statuses if status.startswith("failed")), statuses[0]),
        "trajectory": parts.pop("trajectory", None),
        "reply": parts.pop("reply", None),
        "parts": parts,
        "calls": scored.calls,
        "cached": scored.cached,
        "prompt_tokens": scored.prompt_tokens,
        "completion_tokens": scored.completion_tokens,
        "paid_tokens": scored.paid_tokens,
        "bounded": scored.bounded,
        "seconds": scored.seconds,
        "latency_s": case.latency_s,
        **made_by,
        "input_sha256": input_sha256(example, scorer.lacking(example)),
    }
    # escapes in a reply can spell characters that no file can hold
    clean: Row = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
    return {"id": id_, "case": case.id, **clean}  # these as they are: rows are found by them


@dataclass(frozen=True)
class ResultRows:
    """The rows with these ids, in this order. Each iteration reads them from the file, one at a time."""

    stored: Mapping[str, Row]
    ids: Sequence[str]

    def __iter__(self) -> Iterator[Row]:
        return (self.stored[id_] for id_ in self.ids)


@dataclass(frozen=True)
class ResultFile:
    """The rows of a result file. Each iteration reads and checks them, one at a time.

    required: the fields that each row must have, with their types; it includes those of READ. Iterating raises
    InputError, naming file, line and field, if the file is no result file or has no rows.
    """

    path: str | Path
    required: FieldTypes = field(default_factory=lambda: READ)

    def __iter__(self) -> Iterator[Row]:
        empty = True
        for number, row in iter_jsonl(self.path, {"id": str}):
            if row["id"] != SPENT:
                with locate(f"{self.path}:{number}"):
                    check_fields({**UNTOLD, **row}, {**self.required, **SOURCE})
                    _check_answers(row)
                empty = False
                yield row
        if empty:
            raise InputError(f"{self.path}: no rows")


def _check_answers(row: Row) -> None:
    """Raise InputError naming the first field with a wrong value, or without one value for each system."""
    for name, kind in (("systems", str), ("answers", str), ("statuses", str), ("scores", (int, float, OR_NONE))):
        if len(row[name]) != len(row["systems"]):
            raise InputError(f"field '{name}': has {len(row[name])}, must have one for each of 'systems'")
        for value in row[name]:
            if not isinstance(value, kind) or isinstance(value, bool):
                raise InputError(f"field '{name}': holds {value!r}")
    if not all(isinstance(chunk, str) for chunk in row.get("chunks", ())):
        raise InputError("field 'chunks': must be a list of strings")
    trajectory = row["trajectory"]
    if trajectory is not None and len(trajectory) != len(row["systems"]):
        raise InputError(f"field 'trajectory': has {len(trajectory)}, must have one for each of 'systems'")
    for candidate in filter(None, trajectory or ()):  # None: of an answer that was not judged
        with locate("field 'trajectory'"):
            check_fields(candidate, {"atomic_claims": list})
            for claim in candidate["atomic_claims"]:
                check_fields(claim, CLAIM)
                if not all(isinstance(quote, str) for quote in claim["grounding_evidence"]):
                    raise InputError("field 'grounding_evidence': must be a list of strings")


@dataclass(frozen=True)
class Judged:
    """One answer scored by one metric. With several trials, the score is the mean over the trials that have one.

    Attributes:
        case: The id of the case.
        question: Its question.
        slice_tag: The group of questions that it belongs to; None if the input names none.
        system: The RAG system that gave the answer.
        metric: The scorer and what it checked against.
        answer: What was judged.
        reference: What it was judged by.
        score: In the metric's own range; None if no trial has one.
        status: Of the first trial with a score, else of the first trial.
        claims: The answer's atomic claims as JSON; None if the metric has none.
        latency_s: How many seconds the RAG system took; None if the input does not say.
        judge: The model and the prompt that gave the score.
        reference_kind: "truth", "contexts" or "reference"; None if unknown, or if there is none.
        chunks: The retrieved contexts that the metric used beside the reference.
    """

    case: str
    question: str
    slice_tag: str | None
    system: str
    metric: str
    answer: str
    reference: str
    score: float | None
    status: str
    claims: tuple[dict[str, Any], ...] | None
    latency_s: float | None = None
    judge: str | None = None
    reference_kind: str | None = None
    chunks: tuple[str, ...] = ()

    @property
    def sources(self) -> list[tuple[str, str]]:
        """What the score was made from besides question and answer: names in words, and texts."""
        return sources(self.reference, self.reference_kind, self.chunks)


def sources(reference: str, kind: str | None, chunks: Sequence[str]) -> list[tuple[str, str]]:
    """The texts that a score was made from, each with its name in words, such as "ground truth"."""
    told = [(NOUNS.get(kind or "", "reference"), reference)] if kind or reference else []
    return [*told, *([(NOUNS["chunks"], BETWEEN.join(chunks))] if chunks else [])]


def read_judged(path: str | Path) -> list[Judged]:
    """Every answer of a result file, once for each metric, in the file's order.

    Raises InputError, naming file, line and field, if the file is no result file or has no rows.

        failed = [one for one in read_judged("answers.results.jsonl") if one.score is None]
    """
    return over_trials(ResultFile(path))


def over_trials(rows: Iterable[Row]) -> list[Judged]:
    """Every answer of these result rows, once for each metric, in the order of the rows."""
    trials: dict[tuple[str, str, str], list[Judged]] = {}
    for row in rows:
        for one in _judged(row):
            trials.setdefault((one.metric, one.system, one.case), []).append(one)
    return [_mean(of_answer) for of_answer in trials.values()]


def _judged(row: Row) -> Iterator[Judged]:
    trajectory = row["trajectory"] or [None] * len(row["answers"])
    made_by = [row[name] for name in ("identity", "prompt_hash") if row.get(name) is not None]
    for system, answer, score, status, candidate in zip(
        row["systems"], row["answers"], row["scores"], row["statuses"], trajectory, strict=True
    ):
        claims = tuple(candidate["atomic_claims"]) if candidate else None
        yield Judged(
            row["case"], row["question"], row["slice_tag"], system, row["metric"], answer, row["reference"], score,
            status, claims, row["latency_s"], ", prompt ".join(made_by) or None, row.get("reference_kind"),
            tuple(row.get("chunks", ())),
        )  # fmt: skip


def _mean(trials: Sequence[Judged]) -> Judged:
    scored = [trial for trial in trials if trial.score is not None]
    first = scored[0] if scored else trials[0]
    score = statistics.fmean(trial.score for trial in scored if trial.score is not None) if scored else None
    return replace(first, score=score)
