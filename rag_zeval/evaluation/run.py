"""A run of `evaluate`: it scores every case by every metric, writes each row at once, and skips finished rows."""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rag_zeval.cases.case import NO_SLICE, Case, CaseSet
from rag_zeval.cases.case_file import CaseFile
from rag_zeval.cases.paths import quoted_list
from rag_zeval.errors import InputError
from rag_zeval.evaluation.metrics import Judges, Metric, check_needs, metric_name, need_texts, open_metrics, open_models
from rag_zeval.files import Row, first_difference, json_line, parse_row
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import NOUNS
from rag_zeval.models.cache import ReplyCache
from rag_zeval.models.nli import Checker
from rag_zeval.models.precision import difference
from rag_zeval.progress import Progress
from rag_zeval.results import SHOWN, SPENT, ResultRows, case_fields, check_costs, check_result, input_sha256
from rag_zeval.rows import RowWriter
from rag_zeval.scorers.claim_checkers import CheckedClaims
from rag_zeval.scorers.registry import JUDGE, Named
from rag_zeval.scorers.score import Scored
from rag_zeval.scoring.opening import shares_questions
from rag_zeval.scoring.row_loop import rows_to_retry, score_rows, take_out
from rag_zeval.scoring.spending import Spending
from rag_zeval.statistics.allocation import allocate
from rag_zeval.text import content_hash, counted, one_line

RETRIED_SHARE = 0.2  # if at most this share of a metric's cases has no score, the run judges them again


@dataclass(frozen=True)
class EvaluationRun:
    """What to judge: cases, by scorers, with kinds of reference (`sources`: "reference", "contexts", "truth").

    known: the ids of all cases that rows of the result file may belong to, even if this run judges only some of them.
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
    """Return the run that judges the answers of these files, each of a different system.

    against: as `CaseSet.sources` takes it. sample: how many cases to draw from each file, within slices. limit: how
    many of these to judge, the first ones. None means all. Raises InputError for fewer than one of these, for files of
    the same system, and if no case has what a scorer needs.
    """
    for name, count in (("limit", limit), ("sample", sample)):
        if count is not None and count < 1:
            raise InputError(f"--{name} is {count}, but must be 1 or more")
    systems = Counter(file.system for file in files if file.system is not None)
    for name, count in systems.items():
        if count > 1:  # a mean over both would describe neither
            old, new = [file.name for file in files if file.system == name][:2]
            raise InputError(f"{old} and {new}: both systems are called '{name}'. Give them names: old={old} new={new}")
    tags = {case.id: case.slice_tag or NO_SLICE for file in reversed(files) for case in file.cases}
    cases = CaseSet([case for file in files for case in _drawn(file.cases, tags, limit, sample)])
    sources = cases.sources(against, need_texts(scorers))
    check_needs(scorers, cases)
    return EvaluationRun(cases, {case.id for file in files for case in file.cases}, scorers, sources, judges)


def named_as(name: str | None, file: CaseFile) -> CaseFile:
    """Return a file whose one system has this name, also if a column names it otherwise. None keeps all names.

    Raises InputError if a column names several systems. Answers that name none have the name already.
    """
    systems = {system for case in file.cases for system in case.answers}
    if name is None or name in systems:
        return file
    if len(systems) > 1:
        several = quoted_list(sorted(systems))
        raise InputError(f"{name}={file.name}: it holds several systems, {several}; remove {name}=")

    def named(texts: Mapping[str, str]) -> dict[str, str]:
        return dict(zip([name], texts.values(), strict=False))  # none if there is no text

    cases = [replace(one, answers=named(one.answers), unanswered=named(one.unanswered)) for one in file.cases]
    return replace(file, cases=cases)


def _drawn(cases: list[Case], tags: Mapping[str, str], limit: int | None, sample: int | None) -> list[Case]:
    """Draw `sample` cases and return the first `limit` of them. Files with the same ids get the same cases.

    tags: the slice of each id. Each slice gets its share, at least one case; with more slices than `sample`, slices are
    ignored. The draw takes the first ids in an order of hashes, so most of them stay when a set gets more questions.
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
    """Yield a line for each kind of reference: what it is, and how many cases have it. Also warn of ids that clash."""
    for source in run.sources:
        there = sum(case.source(source) is not None for case in run.cases.cases)
        yield f"judged by: {NOUNS[source]}, in {there} of {len(run.cases.cases)} cases"
    questions: dict[str, set[str]] = {}
    for case in run.cases.cases:
        questions.setdefault(case.id, set()).add(" ".join(case.question.split()))
    if several := [id_ for id_, asked in questions.items() if len(asked) > 1]:
        what = f"{len(several)} ids have different questions in different files, such as {one_line(several[0])!r}"
        yield f"warning: {what}; their answers cannot be compared"


def reply_cache(out: Path, scorers: Sequence[Named]) -> Path | None:
    """Return the path of the reply cache, an SQLite file beside the result file; None if no scorer needs one.

    It is for scorers whose family asks a judge the same things several times.
    """
    return out.with_name(f"{out.name}.replies.sqlite") if any(map(shares_questions, scorers)) else None


@contextmanager
def score(run: EvaluationRun, out: Path, cache: Path | None, spending: Spending) -> Iterator[ResultRows]:
    """Score the rows that the result file `out` lacks, and yield all rows of this run.

    They are ordered metric by metric, each in the order of the cases. Rows that are not judged, because the budget is
    spent, are among them, without a score; the file lacks them. The file is locked until the `with` ends. cache: the
    SQLite file of replies, if they are cached.
    Rows whose case has another slice or the like are updated (see `case_fields`).
    Rows without a score are retried; a cached reply that could not be read is deleted first. Once the judge's budget is
    spent, the run skips what costs money; `spending` counts those rows.
    Raises InputError if a row of the file is of another input, model or prompt, and for a model that cannot be used.
    """
    with ReplyCache(cache) if cache is not None else nullcontext() as replies, RowWriter(out) as writer:
        models = open_models(run.scorers, run.judges, replies)
        metrics = open_metrics(run.scorers, run.cases, run.sources, run.judges, models)
        checker = models.checker if CheckedClaims.name in run.scorers else None
        for metric in metrics:
            if metric.parts and metric.made_by["trial"] == 0:
                for line in metric.parts.lines(metric.label, len(metric.examples)):
                    print(line, file=sys.stderr)
        _retry(run, metrics, checker, writer, spending)
        left: dict[str, Callable[[], Row]] = {}

        def scored(metric: Metric) -> list[str]:
            unscored, unjudged = score_rows(metric, writer, progress, spending)
            left.update({metric.row_id(one.id): partial(_shown, metric, one) for one in unjudged})
            return unscored

        with Progress() as progress:
            for metric in metrics:
                unscored = scored(metric)
                if again := _to_ask_again(metric, unscored, writer, spending):
                    print(f"retrying {len(again)} failed rows", file=sys.stderr)
                    _forget_replies(metric, [metric.examples[id_] for id_ in again])
                    take_out(writer, list(map(metric.row_id, again)))
                    scored(metric)
            if checker is not None and not spending.unasked:
                checked = list(_of_claims(run, metrics, checker, writer.done))
                for metric in checked:
                    _update([metric], writer)
                    take_out(writer, _checked_again(metric, writer.done))
                    scored(metric)
                metrics += checked
        ids = (metric.row_id(key) for metric in metrics for key in metric.examples)
        yield ResultRows(writer.done, [id_ for id_ in ids if id_ in writer.done or id_ in left], left)


def _shown(metric: Metric, scored: Scored) -> Row:
    """Return a row as a file would hold it."""
    return parse_row(json_line(metric.row(scored)))


def stopped(max_cost: float, spending: Spending, kept: bool = True) -> str:
    """Return a line that says what a limit in dollars left out, and how to go on. kept: whether a file has the rows."""
    again = "Run again with a larger value to resume" if kept else "Without `out`, the next call pays for all again"
    return f"stopped at --max-cost {max_cost}: {unjudged(spending)}. {again}"


def unjudged(spending: Spending) -> str:
    """Return in words how many rows a limit in dollars left out."""
    rows = counted(spending.unasked, "row")
    return f"{rows} {'is' if spending.unasked == 1 else 'are'} not judged, or not completely"


def _retry(
    run: EvaluationRun, metrics: Sequence[Metric], checker: Checker | None, writer: RowWriter, spending: Spending
) -> None:
    """Count what the rows of the file have cost. Delete those without a score, so that they are retried.

    Cached replies that could not be read are deleted too. If the budget is spent, nothing is deleted.
    """
    failed = _failed_rows(run, metrics, checker, writer)
    _update(metrics, writer)
    for row in writer.done.values():
        spending.add(row)
    spending.earlier_calls, spending.earlier_dollars = spending.calls, spending.dollars or 0.0
    account = run.judges.account
    if account is not None:
        if spending.unpriced:
            names = " and ".join(spending.unpriced)
            raise InputError(
                f"--max-cost counts all rows of {writer.path}, but --prices has no price for {names}, which judged "
                "some: add it, or choose another --out"
            )
        account.budget.spent += spending.earlier_dollars
    again = rows_to_retry(failed, spending, account.budget if account else None)
    if again:
        print(f"retrying {len(again)} failed rows", file=sys.stderr)
    for metric in metrics:
        _forget_replies(metric, [example for of, example in (failed[id_] for id_ in again) if of is metric])
    take_out(writer, again)


def _update(metrics: Sequence[Metric], writer: RowWriter) -> None:
    """Rewrite the rows whose case has another slice, system's name or the like by now. Their scores stay."""
    places = {metric.row_id(key): (metric, key) for metric in metrics for key in metric.examples}
    updated, names = {}, set()
    for row in writer.done.values():
        if row["id"] in places:
            metric, key = places[row["id"]]
            now = case_fields(metric.cases[key], metric.scorer)
            if _differing(row, now):
                now = parse_row(json_line(now))  # as a file holds them
            if differing := _differing(row, now):
                updated[row["id"]] = now
                names.update(differing)
    if updated:
        print(f"updating {len(updated)} rows: their input has other {', '.join(sorted(names))}", file=sys.stderr)
        writer.settle(updated, ({**writer.done[id_], **now} for id_, now in updated.items()))


def _differing(row: Row, now: Row) -> list[str]:
    before = {"nothing_retrieved": False, **row}  # rows of older versions may lack it
    return [name for name, value in now.items() if before.get(name) != value]


def _to_ask_again(metric: Metric, unscored: Sequence[str], writer: RowWriter, spending: Spending) -> list[str]:
    """Return the ids of examples without a score that the run judges again, because the next reply may be readable.

    Empty if many failed: then it is not by chance, and a retry would only cost money. Empty if the budget is spent, if
    no judge is asked, and for a scorer that scores examples in groups.
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
    """Delete the cached replies about those of these examples that have no score although no reply is missing.

    If one is missing, the others are good: only the missing one is asked for again.
    """
    if metric.cached is not None and examples:
        metric.cached.stored_only = True
        scored = list(metric.scorer.score(examples))
        unread = [metric.examples[one.id] for one in scored if one.final and None in one.values]
        metric.cached.forgets = True
        list(metric.scorer.score(unread))
        metric.cached.stored_only = metric.cached.forgets = False


def _failed_rows(
    run: EvaluationRun, metrics: Sequence[Metric], checker: Checker | None, writer: RowWriter
) -> dict[str, tuple[Metric, Example]]:
    """Return the metric and example of each row without a score that a retry may give one, by row id.

    A retry may give one if no readable reply came, or if the texts of the case have changed since.

    Raises InputError if a row of the file does not belong to this run, if it holds a score that this run would write
    with another id, or if two rows would have the same id.
    """
    failed = {}
    places = {metric.row_id(key): (metric, of) for metric in metrics for key, of in metric.examples.items()}
    if len(places) < len(metrics) * len(run.cases.keys):
        raise InputError("with --trials or several scorers, ids like 'x' and 'x|rag_zeval#1' collide: rename them")
    scores = {score for metric, example in places.values() for score in _scores_of(metric, example)}
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
                if not _is_of_these_texts(row, metric, example) or _may_score(row, metric.scorer.lacking(example)):
                    failed[row["id"]] = metric, example
            elif any((row["case"], row["metric"], row["trial"], system) in scores for system in row["systems"]):
                raise InputError(f"row {row['id']!r} scores an answer of this run, but its run had other input files")
            elif checker is not None and row["metric"].partition("@")[0] == CheckedClaims.name:
                _check_checker(row, checker)
        except InputError as error:
            raise InputError(f"{writer.path}:{number}: {error}; choose another --out") from error
    return failed


def _scores_of(metric: Metric, example: Example) -> Iterator[tuple[str, str, int, str]]:
    """Yield `(case, metric, trial, system)` for each score of an example."""
    case = metric.cases[example.id]
    for system in case.answers:
        yield case.id, metric.made_by["metric"], metric.made_by["trial"], system


def _may_score(row: Row, lacking: Sequence[str | None]) -> bool:
    """Whether a retry may give a score to an answer of this row.

    True if an answer failed although it lacks nothing, because no readable reply came. An answer that failed with a
    readable reply makes no claims.
    """
    trajectory = row["trajectory"] or [None] * len(lacking)
    return any(
        str(status).startswith("failed") and not why and read is None
        for status, why, read in zip(row["statuses"], lacking, trajectory, strict=False)
    )


def _is_of_these_texts(row: Row, metric: Metric, example: Example) -> bool:
    """Whether the row is of the question, answers and reference that the example has. If not, it holds no score.

    So an answer that was missing is judged once the file has it. Raises InputError if the row holds a score of other
    texts, or was made in another way.
    """
    now = {**metric.made_by, "input_sha256": input_sha256(example, metric.scorer.lacking(example))}
    if row.get("identity") in metric.scorer.identities:  # some belong to rows judged in parts
        now["identity"] = row["identity"]
    now.pop("model")  # only a name; `identity` says which model it is
    differing = first_difference({name: row.get(name) for name in now}, now)  # the texts are compared last
    if differing == "input_sha256" and all(score is None for score in row["scores"]):
        return False
    if differing:
        where = difference(row.get("identity"), now["identity"]) if differing == "identity" else ""
        what = "question, answer or reference" if differing == "input_sha256" else differing
        raise InputError(f"row {row['id']!r} was made with a different {what}{where}")
    return True


def _checked_again(metric: Metric, rows: Mapping[str, Row]) -> list[str]:
    """Return the ids of rows of `checked_claims` without a score. The judge may have written their claims since."""
    there = ((rows.get(metric.row_id(key)), example) for key, example in metric.examples.items())
    return [row["id"] for row, example in there if row and _may_score(row, metric.scorer.lacking(example))]


def _check_checker(row: Row, checker: Checker) -> None:
    before = str(row.get("identity")).partition(" claims ")[0]
    if before != checker.identity:
        where = difference(before, checker.identity)
        raise InputError(f"row {row['id']!r} was made with a different claim checker{where}")


def _of_claims(
    run: EvaluationRun, metrics: Sequence[Metric], checker: Checker, rows: Mapping[str, Row]
) -> Iterator[Metric]:
    """Yield the metrics of `checked_claims`, for the trajectories that the judge wrote in its first trial."""
    for metric in metrics:
        if metric.scorer.name == JUDGE and metric.made_by["trial"] == 0:
            there = ((key, rows.get(metric.row_id(key))) for key in metric.examples)
            judged = {
                key: Scored(key, (), {"trajectory": row["trajectory"], "status": row["status"]})
                for key, row in there
                if row
            }
            scorer = CheckedClaims(checker, judged, run.judges.model or "")
            name = metric_name(scorer.name, metric.against)
            made_by = {"metric": name, "trial": 0, "model": None, "identity": scorer.identity}
            yield replace(metric, label=name, scorer=scorer, made_by=made_by, cached=None, parts=None)
