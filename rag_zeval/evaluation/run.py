"""A run of `evaluate`: every case by every metric, a row written as soon as it is there; nothing is done twice."""

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from rag_zeval.cases.case import NO_SLICE, Case, CaseSet
from rag_zeval.cases.reading import CaseFile
from rag_zeval.errors import InputError
from rag_zeval.evaluation.metrics import Judges, Metric, check_needs, metric_name, need_texts, open_metrics
from rag_zeval.files import Row, first_difference
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import NOUNS
from rag_zeval.models.cache import ReplyCache
from rag_zeval.models.nli import open_checker
from rag_zeval.models.precision import of_precision
from rag_zeval.progress import Progress
from rag_zeval.results import SHOWN, SPENT, ResultRows, check_costs, check_result, input_sha256
from rag_zeval.rows import RowWriter
from rag_zeval.scorers.claim_checkers import CheckedClaims
from rag_zeval.scorers.registry import JUDGE, Named
from rag_zeval.scorers.score import Scored
from rag_zeval.scoring.opening import shares_questions
from rag_zeval.scoring.row_loop import rows_to_retry, score_rows, take_out
from rag_zeval.scoring.spending import Spending
from rag_zeval.statistics.allocation import allocate
from rag_zeval.text import content_hash

RETRIED_SHARE = 0.2  # of the cases of a metric: up to so many without a score are judged again in the same run


@dataclass(frozen=True)
class EvaluationRun:
    """What is to be judged: cases, by scorers, each by sources of truth ("reference", "contexts", "truth").

    known: the ids of all cases that rows may be of, also where only some of them are judged this time.
    """

    cases: CaseSet
    known: Collection[str]
    scorers: Sequence[Named]
    sources: Sequence[str]
    judges: Judges


def plan_run(
    files: Sequence[CaseFile],
    scorers: Sequence[Named],
    against: str | None,
    judges: Judges,
    limit: int | None = None,
    sample: int | None = None,
) -> EvaluationRun:
    """The run that judges the answers of these files, each of another system.

    against: as `CaseSet.sources` takes it. sample: so many cases of each file, drawn within slices; limit: the first
    ones. Raises InputError for files of the same system, and if no case has what a scorer needs.
    """
    systems = Counter(file.system for file in files if file.system is not None)
    for name, count in systems.items():
        if count > 1:  # a mean over both is nobody's
            old, new = [file.name for file in files if file.system == name][:2]
            raise InputError(f"{old} and {new}: both systems are called '{name}'. Give them names: old={old} new={new}")
    tags = {case.id: case.slice_tag or NO_SLICE for file in reversed(files) for case in file.cases}
    cases = CaseSet([case for file in files for case in _drawn(file.cases, tags, limit, sample)])
    sources = cases.sources(against, need_texts(scorers))
    check_needs(scorers, cases)
    return EvaluationRun(cases, {case.id for file in files for case in file.cases}, scorers, sources, judges)


def _drawn(cases: list[Case], tags: Mapping[str, str], limit: int | None, sample: int | None) -> list[Case]:
    """The same cases of every file that has the same ids: from each slice (`tags`, by id) its share, at least one.

    They are the first in an order of hashes, so most stay when a set gets more questions.
    """
    if sample is not None and sample < len(cases):
        ids = sorted({case.id for case in cases}, key=content_hash)
        slices = [[id_ for id_ in ids if tags[id_] == tag] for tag in sorted({tags[id_] for id_ in ids})]
        chosen = set(ids[:sample])
        if len(slices) <= sample:
            rows = allocate([len(one) for one in slices], sample)
            chosen = {id_ for one, count in zip(slices, rows, strict=True) for id_ in one[:count]}
        cases = [case for case in cases if case.id in chosen]
    return cases[:limit]


def judged_by(run: EvaluationRun) -> Iterator[str]:
    """What answers will be judged by, and in how many cases it is there."""
    for source in run.sources:
        there = sum(case.source(source) is not None for case in run.cases.cases)
        yield f"judged by: {NOUNS[source]}, in {there} of {len(run.cases.cases)} cases"


def reply_cache(out: Path, scorers: Sequence[Named]) -> Path | None:
    """The SQLite file beside the result file for the replies, where several scorers ask the same things; else None."""
    return out.with_name(f"{out.name}.replies.sqlite") if any(map(shares_questions, scorers)) else None


@contextmanager
def score(run: EvaluationRun, out: Path, cache: Path | None, spending: Spending) -> Iterator[ResultRows]:
    """Score what the result file `out` lacks: all rows of this run, metric by metric, in the order of the cases.

    The file belongs to this run until the `with` ends. cache: the SQLite file of replies, if they are kept.
    Rows without a score are tried again, and asked anew where a cache keeps what could not be read. Where the judge's
    budget is spent, what costs money is left: `spending` counts those rows.
    Raises InputError if a row of the file is of another input, model or prompt, and for a model that cannot be used.
    """
    with ReplyCache(cache) if cache is not None else nullcontext() as replies, RowWriter(out) as writer:
        metrics = open_metrics(run.scorers, run.cases, run.sources, run.judges, replies)
        for metric in metrics:
            if metric.parts and metric.made_by["trial"] == 0:
                for line in metric.parts.lines(metric.label, len(metric.examples)):
                    print(line, file=sys.stderr)
        _retry(run, metrics, writer, spending)
        with Progress() as progress:
            for metric in metrics:
                unscored = score_rows(metric, writer, progress, spending)
                if again := _to_ask_again(metric, unscored, writer, spending):
                    print(f"retrying {len(again)} failed rows", file=sys.stderr)
                    _forget_replies(metric, [metric.examples[id_] for id_ in again])
                    take_out(writer, list(map(metric.row_id, again)))
                    score_rows(metric, writer, progress, spending)
            if CheckedClaims.name in run.scorers and not spending.unasked:
                checked = list(_of_claims(run, metrics, writer.done))
                for metric in checked:
                    score_rows(metric, writer, progress, spending)
                metrics += checked
        ids = (metric.row_id(key) for metric in metrics for key in metric.examples)
        yield ResultRows(writer.done, [id_ for id_ in ids if id_ in writer.done])


def _retry(run: EvaluationRun, metrics: Sequence[Metric], writer: RowWriter, spending: Spending) -> None:
    """Count what the rows of the file have cost, and take out those without a score while there is money for a retry.

    Of those, kept replies that scoring would read again are dropped: nobody could read them before.
    """
    failed = _failed_rows(run, metrics, writer)
    for row in writer.done.values():
        spending.add(row)
    account = run.judges.account
    if account is not None:
        account.budget.spent += spending.dollars or 0.0
    again = rows_to_retry(failed, spending, account.budget if account else None)
    if again:
        print(f"retrying {len(again)} failed rows", file=sys.stderr)
    for metric in metrics:
        _forget_replies(metric, [example for of, example in (failed[id_] for id_ in again) if of is metric])
    take_out(writer, again)


def _to_ask_again(metric: Metric, unscored: Sequence[str], writer: RowWriter, spending: Spending) -> list[str]:
    """Of examples without a score, those to judge again in the same run: an endpoint's next reply may be another.

    Empty if many failed, which is not by chance: asking again would only cost money. Empty if the budget is spent.
    """
    if metric.made_by["model"] is None or metric.scorer.group is not None or spending.unasked:
        return []
    failed = [
        id_
        for id_ in unscored
        if _may_score(writer.done[metric.row_id(id_)], metric.scorer.lacking(metric.examples[id_]))
    ]
    return failed if len(failed) <= max(1, RETRIED_SHARE * len(metric.examples)) else []


def _forget_replies(metric: Metric, examples: Sequence[Example]) -> None:
    """Drop what a cache keeps of these examples' replies."""
    if metric.cached is not None and examples:
        metric.cached.forgets = True
        list(metric.scorer.score(examples))
        metric.cached.forgets = False


def _failed_rows(run: EvaluationRun, metrics: Sequence[Metric], writer: RowWriter) -> dict[str, tuple[Metric, Example]]:
    """The rows without a score that another try may have one for, by id: the metric and example of each."""
    failed = {}
    places = {metric.row_id(key): (metric, of) for metric in metrics for key, of in metric.examples.items()}
    if len(places) < len(metrics) * len(run.cases.keys):
        raise InputError("with --trials or several scorers, ids like 'x' and 'x|rag_zeval#1' collide: rename them")
    for number, row in enumerate(writer.done.values(), 1):
        try:
            if row["id"] != SPENT:
                check_result(row, SHOWN)
            check_costs(row)
            if row["id"] == SPENT:
                continue
            if row["case"] not in run.known:
                raise InputError(f"row {row['id']!r} comes from a different input")
            if row["id"] in places:
                metric, example = places[row["id"]]
                _check_made_by(row, metric, example)
                if _may_score(row, metric.scorer.lacking(example)):
                    failed[row["id"]] = metric, example
        except InputError as error:
            raise InputError(f"{writer.path}:{number}: {error}; choose another --out") from error
    return failed


def _may_score(row: Row, lacking: Sequence[str | None]) -> bool:
    """Whether an answer failed that has all it needs, and was not read: one that was read has no claims."""
    trajectory = row["trajectory"] or [None] * len(lacking)
    return any(
        str(status).startswith("failed") and not why and read is None
        for status, why, read in zip(row["statuses"], lacking, trajectory, strict=False)
    )


def _check_made_by(row: Row, metric: Metric, example: Example) -> None:
    now = {**metric.made_by, "input_sha256": input_sha256(example, metric.scorer.lacking(example))}
    if row.get("identity") in metric.scorer.identities:  # some are those of rows judged in parts
        now["identity"] = row["identity"]
    now.pop("model")  # a name; `identity` says what it is
    if differing := first_difference({name: row.get(name) for name in now}, now):
        hint = of_precision(row.get("identity"), now["identity"])
        raise InputError(f"row {row['id']!r} was made with a different {differing}{hint}")


def _of_claims(run: EvaluationRun, metrics: Sequence[Metric], rows: Mapping[str, Row]) -> Iterator[Metric]:
    """The metrics of `checked_claims`, on the trajectories that the judge gave in its first trial."""
    checker = open_checker(str(run.judges.claim_checker), False)
    for metric in metrics:
        if metric.scorer.name == JUDGE and metric.made_by["trial"] == 0:
            judged = {}
            for key in metric.examples:
                if row := rows.get(metric.row_id(key)):
                    judged[key] = Scored(key, (), {"trajectory": row["trajectory"], "status": row["status"]})
            scorer = CheckedClaims(checker, judged, run.judges.model or "")
            name = metric_name(scorer.name, metric.against)
            made_by = {"metric": name, "trial": 0, "model": None, "identity": scorer.identity}
            yield replace(metric, label=name, scorer=scorer, made_by=made_by, cached=None, parts=None)
