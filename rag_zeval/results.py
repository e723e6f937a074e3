"""Result rows: `rag-zeval evaluate` writes one for each case, metric and trial, and other commands read them."""

import json
import statistics
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rag_zeval.cases.case import Case
from rag_zeval.errors import InputError
from rag_zeval.files import (
    COUNT,
    NONE,
    NUMBER_OR_NONE,
    FieldTypes,
    Maybe,
    Row,
    check_fields,
    check_several_readings,
    iter_unique,
    locate,
)
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import BETWEEN, NOUNS, judged_by
from rag_zeval.judge.schema import TRAJECTORY
from rag_zeval.scorers.score import Scored, Scorer
from rag_zeval.text import content_hash

TEXT_OR_NONE = (str, NONE)
READ: FieldTypes = {  # the fields that other commands read; files of older versions lack those after `latency_s`
    "case": str, "slice_tag": TEXT_OR_NONE, "metric": str, "trial": COUNT, "systems": [str], "question": str,
    "reference": str, "answers": [str], "scores": [NUMBER_OR_NONE], "statuses": [str], "status": str,
    "trajectory": TRAJECTORY, "latency_s": NUMBER_OR_NONE, "reference_kind": Maybe(TEXT_OR_NONE),
    "truth": Maybe(str), "chunks": Maybe([str]), "identity": Maybe(TEXT_OR_NONE), "prompt_hash": Maybe(TEXT_OR_NONE),
    "golden": Maybe({str: str}), "retrieved": Maybe([str]), "gold_chunk_ids": Maybe([str]),
    "cost_usd": Maybe(NUMBER_OR_NONE), "nothing_retrieved": Maybe(bool),
}  # fmt: skip
SHOWN: FieldTypes = {  # the fields that a report shows
    **READ, "reply": TEXT_OR_NONE, "calls": COUNT, "cached": COUNT, "prompt_tokens": (COUNT, NONE),
    "parts": {"answers": Maybe((list, NONE)), "pieces": Maybe(list), "windows": Maybe([list])},
    "completion_tokens": (COUNT, NONE), "seconds": (int, float), "model": Maybe(TEXT_OR_NONE),
    "variant": Maybe(TEXT_OR_NONE), "sampling": Maybe((dict, NONE)),
}  # fmt: skip
COSTS: FieldTypes = {
    "calls": COUNT, "paid_tokens": Maybe(([COUNT], NONE)), "bounded": Maybe(COUNT), "untold": Maybe(COUNT),
    "embedded": Maybe(COUNT), "by_judge": Maybe({str: [COUNT]}),
}  # fmt: skip
SPENT = "spent before"  # the id of the row that keeps the costs of rows that were retried


def row_id(key: str, metric: str, trial: int) -> str:
    """Return the id of a result row. It ends in `#trial` from the second trial on."""
    return f"{key}|{metric}" + (f"#{trial}" if trial else "")


def input_sha256(example: Example, lacking: Sequence[str | None]) -> str:
    """Return the first 16 hex digits of a hash of everything that a scorer sees of an example.

    lacking: for each answer, why it cannot be judged, or None. Such a reason is hashed in place of the answer.
    """
    answers = [[why] if why else answer for answer, why in zip(example.answers, lacking, strict=True)]
    return content_hash(example.question, example.reference, answers, example.truth, example.chunks)


def case_fields(case: Case, scorer: Scorer) -> Row:
    """Return the fields of a result row that come from the case, and that no score depends on."""
    return _without_surrogates(
        {
            "slice_tag": case.slice_tag,
            "systems": list(case.answers),
            **({"context_ids": list(case.chunk_ids)} if "chunks" in scorer.needs else {}),
            "latency_s": case.latency_s,
            "cost_usd": case.cost_usd,
            "retrieved": list(case.context_ids),
            "nothing_retrieved": case.nothing_retrieved,
            "gold_chunk_ids": list(case.gold_chunk_ids),
            "golden": case.golden,
        }
    )


def _without_surrogates(row: Row) -> Row:
    """Return the row without lone surrogates, which no file can hold. Escapes in a reply can stand for them."""
    clean: Row = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
    return clean


def result_row(id_: str, case: Case, example: Example, scorer: Scorer, scored: Scored, made_by: Row) -> Row:
    """Return the result row of a scored case.

    made_by: metric, trial, and what the scores depend on besides the example.
    """
    parts = dict(scored.parts)
    statuses = [score.status for score in scored.scores]
    row = {
        **case_fields(case, scorer),
        "metric": made_by["metric"],
        "trial": made_by["trial"],
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
        **made_by,
        "input_sha256": input_sha256(example, scorer.lacking(example)),
    }
    return {"id": id_, "case": case.id, **_without_surrogates(row)}  # unchanged: rows are looked up by them


def judge_of(row: Row) -> str:
    """Describe the judge of a row and how it was asked. The text is empty if no judge was asked."""
    if not row.get("model"):
        return ""
    sampling: dict[str, Any] = {**(row.get("sampling") or {})}
    if row.get("variant") is None:  # only rag_zeval, which has one, samples as the run says; the others as their source
        sampling |= {"temperature": None, "top_p": None}
    said = {"prompt": row.get("variant"), "prompt hash": row.get("prompt_hash"), **sampling}
    words = [f"{name} {value}" for name, value in said.items() if value is not None]
    return f"{row['metric']}: {', '.join([row['model'], *words])}"


@dataclass(frozen=True)
class ResultRows:
    """The rows with these ids, in this order. Each iteration reads them from the file, one at a time.

    left: makes the rows that the file lacks, because a limit in dollars was reached.
    """

    stored: Mapping[str, Row]
    ids: Sequence[str]
    left: Mapping[str, Callable[[], Row]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Row]:
        return (self.left[id_]() if id_ in self.left else self.stored[id_] for id_ in self.ids)


@dataclass(frozen=True)
class ResultFile:
    """The rows of a result file. Each iteration reads and checks them, one at a time.

    required: the fields that each row must have, with their types; it includes those of READ. Iterating raises
    InputError, naming file, line and field, if the file is no result file, has no rows or has a duplicate score.
    """

    path: str | Path
    required: FieldTypes = field(default_factory=lambda: READ)

    def __iter__(self) -> Iterator[Row]:
        check_several_readings(Path(self.path))
        lines: dict[Hashable, int] = {}
        for number, row in iter_unique(self.path, {}):
            if row["id"] != SPENT:
                with locate(f"{self.path}:{number}"):
                    if "case" not in row:
                        raise InputError(
                            "field 'case' is missing: name a result file, which `rag-zeval evaluate` writes"
                        )
                    check_result(row, self.required)
                    scored = ((row["case"], row["metric"], row["trial"], system) for system in row["systems"])
                    for key in scored:
                        if lines.setdefault(key, number) != number:
                            raise InputError(f"row {row['id']!r} repeats a score of line {lines[key]}: remove one")
                yield row
        if not lines:
            raise InputError(f"{self.path}: no rows")


def check_result(row: Row, required: FieldTypes) -> Row:
    """Return the row if it is a result row: it has the fields `required`, READ among them, and a value for each system.

    Raises InputError naming the first field that does not fit.
    """
    check_fields(row, required)
    if not row["systems"] or len(set(row["systems"])) < len(row["systems"]):
        raise InputError("field 'systems' must name each of its systems once")
    for name in ("answers", "statuses", "scores", "trajectory"):
        if row[name] is not None and len(row[name]) != len(row["systems"]):
            raise InputError(f"field '{name}': has {len(row[name])}, must have one for each of 'systems'")
    return row


def check_costs(row: Row) -> Row:
    """Return the row if it says what it cost. Raises InputError naming the first field that does not fit."""
    check_fields(row, COSTS)
    if row.get("paid_tokens") and len(row["paid_tokens"]) != 2:
        raise InputError("field 'paid_tokens' must hold two numbers, of prompts and of replies")
    if any(len(tokens) != 2 for tokens in row.get("by_judge", {}).values()):
        raise InputError("field 'by_judge' must hold two numbers for each judge, of prompts and of replies")
    return row


@dataclass(frozen=True)
class Judged:
    """One answer scored by one metric. With several trials, the score is the mean over the trials that have one.

    Attributes:
        case: The id of the case.
        question: Its question.
        slice_tag: The slice that the case belongs to; None if the input names none.
        system: The RAG system that gave the answer.
        metric: The scorer and the reference that it used.
        answer: The answer that was judged.
        reference: The text that it was judged by.
        score: In the metric's own range; None if no trial has one.
        status: "ok" or "repaired" (the reply was not quite JSON) with a score, and "failed: reason" without one. It is
            that of the first trial with a score, or of the first trial if none has one.
        claims: The answer's atomic claims as JSON; None if the metric has none.
        latency_s: How many seconds the RAG system took; None if the input does not say.
        judge: The model and the prompt that gave the score.
        reference_kind: "truth", "contexts" or "reference"; None if unknown, or if there is none.
        chunks: The retrieved contexts that the metric used beside the reference.
        retrieved: The ids of the retrieved contexts, best first, as the input gives them.
        nothing_retrieved: Whether the input says that nothing was retrieved. If not, and `retrieved` is empty, the ids
            are missing.
        gold_chunk_ids: The ids of the chunks that hold the answer.
        cost_usd: What the answer cost, in dollars; None if the input does not say.
        golden: A hash of each text that fixes the case (see `Case.golden`); empty in files of earlier versions.
        truth: The ground truth, if the metric used it beside a reference that the case gives itself; otherwise "".
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
    retrieved: tuple[str, ...] = ()
    gold_chunk_ids: tuple[str, ...] = ()
    cost_usd: float | None = None
    golden: Mapping[str, str] = field(default_factory=dict)
    nothing_retrieved: bool = False
    truth: str = ""

    @property
    def sources(self) -> list[tuple[str, str]]:
        """The texts that the score depends on besides question and answer, as `(name in words, text)`."""
        return sources(vars(self))


def sources(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the texts that the scores of a result row depend on, each with its name in words, as "ground truth"."""
    kind, reference = row.get("reference_kind"), row["reference"]
    others = {"truth": row.get("truth"), "chunks": BETWEEN.join(row.get("chunks", ()))}
    told = [(NOUNS.get(kind or "", "reference"), reference)] if kind or reference else []
    return [*told, *((NOUNS[name], text) for name, text in others.items() if text)]


def read_judged(path: str | Path) -> list[Judged]:
    """Return every answer of a result file, once for each metric, in the file's order.

    Raises InputError, naming file, line and field, if the file is no result file or has no rows.

        failed = [one for one in read_judged("answers.results.jsonl") if one.score is None]
    """
    return over_trials(ResultFile(path))


def over_trials(rows: Iterable[Row]) -> list[Judged]:
    """Return every answer of these result rows, once for each metric, in the order of the rows."""
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
            tuple(row.get("chunks", ())), tuple(row.get("retrieved", ())), tuple(row.get("gold_chunk_ids", ())),
            row.get("cost_usd"), row.get("golden", {}), row.get("nothing_retrieved", False),
            row.get("truth", ""),
        )  # fmt: skip


def _mean(trials: Sequence[Judged]) -> Judged:
    scored = [trial for trial in trials if trial.score is not None]
    first = scored[0] if scored else trials[0]
    score = statistics.fmean(trial.score for trial in scored if trial.score is not None) if scored else None
    return replace(first, score=score)
