"""What `rag-zeval evaluate` writes: one result row per example and trial, and their summary."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields, first_difference
from rag_zeval.judge.evaluator import Evaluation, Evaluator, Example
from rag_zeval.models.language_model import known_total
from rag_zeval.rows import RowWriter
from rag_zeval.statistics.bootstrap import mean_interval

Asked = tuple[Example, int]  # and the trial


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
    row = {**dataclasses.asdict(evaluation), "trial": trial, **provenance(evaluator, example)}
    # escapes in a reply can spell characters that no file can hold
    clean: Row = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
    return {**clean, "id": row_id(example.id, trial), "example": example.id}  # as they are: rows are found by them


def failed_rows(writer: RowWriter, evaluator: Evaluator, examples: Mapping[str, Example]) -> dict[str, Asked]:
    """The rows of a result file that have failed, to be tried again: what was asked, by row id.

    Raises InputError if a row belongs to another model, prompt, sampling or input: one file holds one run.
    """
    failed: dict[str, Asked] = {}
    for number, row in enumerate(writer.done.values(), 1):
        try:
            check_fields(row, {"example": str, "trial": int, "status": str})
            _check_provenance(row, evaluator, examples)
        except InputError as error:
            raise InputError(f"{writer.path}:{number}: {error}; name another --out") from error
        if row["status"].startswith("failed"):
            failed[row["id"]] = (examples[row["example"]], row["trial"])
    return failed


def _check_provenance(row: Row, evaluator: Evaluator, examples: Mapping[str, Example]) -> None:
    if row["example"] not in examples:
        raise InputError(f"row {row['id']!r} is of another input")
    now = provenance(evaluator, examples[row["example"]])
    del now["model"]  # a name; `identity` says what it is
    before = {"structured": False, **row}  # version 0.1.0 did not write it
    if differing := first_difference({name: before.get(name) for name in now}, now):
        raise InputError(f"row {row['id']!r} was made with another {differing}")


@dataclass(frozen=True)
class ResultRows:
    """Rows of a result file by `ids`, in that order: read one by one, as often as they are gone through."""

    stored: Mapping[str, Row]
    ids: Sequence[str]

    def __iter__(self) -> Iterator[Row]:
        return (self.stored[id_] for id_ in self.ids)


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


def summarize(rows: Iterable[Row]) -> Summary:
    """The summary of result rows (at least one), gone through once and not kept."""
    by_example: dict[str, list[float]] = {}
    by_trial: dict[int, list[float]] = {}
    kinds: dict[str, Counter[str]] = {}
    tokens: list[tuple[int | None, int | None]] = []
    count = answers = calls = cached = 0
    for row in rows:
        for score in row["scores"]:
            if score is not None:
                by_example.setdefault(row["example"], []).append(score)
                by_trial.setdefault(row["trial"], []).append(score)
        kinds.setdefault(re.sub(r"\d+", "N", row["status"]), Counter())[row["status"]] += 1
        if row["calls"]:
            tokens.append((row["prompt_tokens"], row["completion_tokens"]))
        count, answers = count + 1, answers + len(row["scores"])
        calls, cached = calls + row["calls"], cached + row["cached"]
    scores = [score for scored in by_example.values() for score in scored]
    trial_means = [statistics.fmean(trial) for trial in by_trial.values()]
    return Summary(
        rows=count,
        answers=answers,
        scored=len(scores),
        mean=statistics.fmean(scores) if scores else None,
        ci=mean_interval(list(by_example.values())) if len(by_example) > 1 else None,
        trial_sd=statistics.stdev(trial_means) if len(trial_means) > 1 else None,
        calls=calls,
        cached=cached,
        prompt_tokens=known_total([prompt for prompt, _ in tokens]),
        completion_tokens=known_total([completion for _, completion in tokens]),
        untold=sum(None in counts for counts in tokens),
        statuses=_statuses(kinds),
    )


def _statuses(kinds: Mapping[str, Counter[str]]) -> dict[str, int]:
    """Rows by status: those with a score first, then failures, the frequent first.

    kinds: the statuses that differ only in their numbers, which are one, named by the first that came.
    """
    counts: dict[str, int] = {}
    for kind in kinds.values():
        first, others = next(iter(kind)), kind.total() - kind[next(iter(kind))]
        counts[f"{first} (and {others} like it)" if others else first] = kind.total()
    return dict(sorted(counts.items(), key=lambda item: (item[0].startswith("failed"), -item[1])))
