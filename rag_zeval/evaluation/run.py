"""A run of `evaluate`: every case by every metric, a row written as soon as it is there; nothing is done twice."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rag_zeval.cases.case import CaseSet
from rag_zeval.errors import InputError
from rag_zeval.evaluation.metrics import CHECKED_CLAIMS, RAG_ZEVAL, Judges, Metric, metric_name, open_metrics
from rag_zeval.files import Row, check_fields, first_difference
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import NOUNS
from rag_zeval.models.cache import ReplyCache
from rag_zeval.progress import Progress
from rag_zeval.results import SPENT, ResultRows, input_sha256, result_row, row_id
from rag_zeval.rows import RowWriter
from rag_zeval.scorers.score import Scored
from rag_zeval.scoring.row_loop import Work, rows_to_retry, score_rows, take_out
from rag_zeval.scoring.spending import Spending


@dataclass(frozen=True)
class Plan:
    """What is to be judged: cases, by scorers, each by sources of truth ("reference", "contexts", "truth").

    known: the ids of all cases that rows may be of, also where only some of them are judged this time.
    """

    cases: CaseSet
    known: Collection[str]
    scorers: Sequence[str]
    sources: Sequence[str]
    judges: Judges


def judged_by(plan: Plan) -> Iterator[str]:
    """What answers will be judged by, and in how many cases it is there."""
    for source in plan.sources:
        there = sum(case.source(source) is not None for case in plan.cases.cases)
        yield f"judged by: {NOUNS[source]}, in {there} of {len(plan.cases.cases)} cases"


def evaluate(plan: Plan, writer: RowWriter, cache: ReplyCache | None, spending: Spending) -> ResultRows:
    """Score what the file of rows lacks; all rows of this plan, metric by metric, in the order of the cases.

    Rows without a score are tried again, and asked anew where a cache keeps what could not be read. Where the judge's
    budget is spent, what costs money is left: `spending` counts those rows. Raises InputError if a row of the file is
    of another input, model or prompt, and for a model that cannot be used.
    """
    metrics = open_metrics(plan.scorers, plan.sources, plan.judges, cache)
    failed = _failed_rows(plan, metrics, writer)
    for row in writer.done.values():
        spending.add(row)
    account = plan.judges.account
    if account is not None:
        account.budget.spent += spending.dollars or 0.0
    again = rows_to_retry(failed, spending, account.budget if account else None)
    if again:
        print(f"retrying {len(again)} failed rows", file=sys.stderr)
    for metric in metrics:
        tried = [failed[id_] for id_ in again]
        _forget(metric, [plan.cases.example(at, metric.against) for at, of in tried if of is metric])
    take_out(writer, again)
    ids: list[str] = []
    with Progress() as progress:
        for metric in metrics:
            ids += _score(plan.cases, metric, writer, progress, spending)
        for metric in _of_claims(plan, writer) if CHECKED_CLAIMS in plan.scorers and not spending.unasked else ():
            ids += _score(plan.cases, metric, writer, progress, spending)
    return ResultRows(writer.done, [id_ for id_ in ids if id_ in writer.done])


def _failed_rows(plan: Plan, metrics: Sequence[Metric], writer: RowWriter) -> dict[str, tuple[int, Metric]]:
    """The rows without a score that another try may have one for: the case and metric of each, by row id."""
    cases, failed = plan.cases, {}
    places = {row_id(key, m.name, m.trial): (at, m) for m in metrics for at, key in enumerate(cases.keys)}
    if len(places) < len(metrics) * len(cases.keys):
        raise InputError("with --trials or several scorers, ids like 'x' and 'x|rag_zeval#1' collide: rename them")
    for number, row in enumerate(writer.done.values(), 1):
        if row["id"] == SPENT:
            continue
        try:
            check_fields(row, {"case": str, "metric": str, "statuses": list})
            if row["case"] not in plan.known:
                raise InputError(f"row {row['id']!r} comes from a different input")
            if row["id"] in places:
                at, metric = places[row["id"]]
                example = cases.example(at, metric.against)
                _check_made_by(row, metric, example)
                if row["trajectory"] is None and _may_score(row["statuses"], metric.scorer.lacking(example)):
                    failed[row["id"]] = at, metric  # with a trajectory it has no claims
        except InputError as error:
            raise InputError(f"{writer.path}:{number}: {error}; choose another --out") from error
    return failed


def _may_score(statuses: Sequence[str], lacking: Sequence[str | None]) -> bool:
    """Whether an answer failed that has all it needs: the others will never have a score."""
    return any(str(one).startswith("failed") and not why for one, why in zip(statuses, lacking, strict=False))


def _check_made_by(row: Row, metric: Metric, example: Example) -> None:
    now = {**metric.made_by, "input_sha256": input_sha256(example, metric.scorer.lacking(example))}
    now.pop("model")  # a name; `identity` says what it is
    if differing := first_difference({name: row.get(name) for name in now}, now):
        raise InputError(f"row {row['id']!r} was made with a different {differing}")


def _forget(metric: Metric, examples: Sequence[Example]) -> None:
    """Drop the kept replies that scoring these examples would read again: nobody could read them before."""
    if metric.cached is not None and examples:
        metric.cached.forgets = True
        list(metric.scorer.score(examples))
        metric.cached.forgets = False


def _of_claims(plan: Plan, writer: RowWriter) -> Iterator[Metric]:
    """The metrics of `checked_claims`, on the trajectories that the judge gave in its first trial."""
    from rag_zeval.models.nli import open_checker
    from rag_zeval.scorers.claim_checkers import CheckedClaims

    checker = open_checker(str(plan.judges.claim_checker), False)
    for source in plan.sources:
        judged = {}
        for key in plan.cases.keys:
            if row := writer.done.get(row_id(key, metric_name(RAG_ZEVAL, source), 0)):
                parts = {"trajectory": row["trajectory"], "status": row["status"]}
                judged[key] = Scored(key, (), parts)
        scorer = CheckedClaims(checker, judged, plan.judges.model or "")
        yield Metric(metric_name(CHECKED_CLAIMS, source), source, scorer, {"model": None, "identity": scorer.identity})


def _score(cases: CaseSet, metric: Metric, writer: RowWriter, progress: Progress, spending: Spending) -> list[str]:
    """Score the cases that have no row yet; the ids of all rows of this metric, there or not."""
    at_key = {key: at for at, key in enumerate(cases.keys)}
    made_by = {"metric": metric.name, "trial": metric.trial, **metric.made_by}

    def id_of(key: str) -> str:
        return row_id(key, metric.name, metric.trial)

    def example(key: str) -> Example:
        return cases.example(at_key[key], metric.against)

    def row(scored: Scored) -> Row:
        case = cases.cases[at_key[scored.id]]
        return result_row(id_of(scored.id), case, example(scored.id), metric.scorer, scored, made_by)

    trial = f", trial {metric.trial + 1}" if metric.trial else ""
    work = Work(f"{metric.name}{trial}", metric.scorer, cases.keys, example, id_of, row)
    score_rows(work, writer, progress, spending)
    return [id_of(key) for key in cases.keys]
