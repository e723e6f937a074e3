"""Examples scored into a file of rows: a row is written as soon as it is there, and nothing is scored twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rag_zeval.budget import Budget
from rag_zeval.files import Row
from rag_zeval.judge.example import Example
from rag_zeval.models.as_finished import check_stopped
from rag_zeval.progress import Progress
from rag_zeval.results import SPENT
from rag_zeval.rows import RowWriter
from rag_zeval.scorers.score import Scored, Scorer
from rag_zeval.scoring.spending import Spending, spent_before


@dataclass(frozen=True)
class Work:
    """A scorer, and the examples that it is to score, by id and in order. label: what progress calls it."""

    label: str
    scorer: Scorer
    examples: Mapping[str, Example]

    def row_id(self, id_: str) -> str:
        """The id of the row of an example."""
        return id_

    def row(self, scored: Scored) -> Row:
        """The row of what was scored."""
        return scored.row()


def rows_to_retry(failed: Collection[str], spending: Spending, budget: Budget | None) -> Collection[str]:
    """The failed rows that are scored again: none if the budget is spent, and `spending` then counts them."""
    if budget is not None and budget.is_spent:
        spending.unasked += len(failed)
        return ()
    return failed


def take_out(writer: RowWriter, ids: Collection[str]) -> None:
    """Take these rows out of the file, to score them again. What they have cost stays in it."""
    writer.settle([*ids, SPENT] if ids else (), spent_before(writer.done, ids) if ids else None)


def score_rows(work: Work, writer: RowWriter, progress: Progress, spending: Spending) -> None:
    """Score the examples that the file has no row of.

    A group that a scorer computes together is computed whole again if one of its rows is missing: a run that was
    killed then writes what an undisturbed one does. An example that was not asked for, because the budget is spent,
    gets a row only if something was paid for it; `spending` counts it.
    """
    done = writer.done
    missing = [id_ for id_ in work.examples if work.row_id(id_) not in done]
    with progress.job(work.label, len(work.examples), len(work.examples) - len(missing), spending.shown) as job:
        for scored in _scored(work, missing):
            spending.unasked += bool(scored.unasked)
            if work.row_id(scored.id) not in done and (scored.calls or not scored.unasked):
                row = work.row(scored)
                writer.append(row)
                spending.add(row)
                job.advance(spending.shown)
            check_stopped()


def _scored(work: Work, missing: Sequence[str]) -> Iterator[Scored]:
    for group in _groups(work, missing):
        yield from work.scorer.score(map(work.examples.__getitem__, group))


def _groups(work: Work, missing: Sequence[str]) -> Iterable[Sequence[str]]:
    size, ids = work.scorer.group, list(work.examples)
    if not size:
        return [missing] if missing else []
    wanted = set(missing)
    groups = (ids[start : start + size] for start in range(0, len(ids), size))
    return (group for group in groups if not wanted.isdisjoint(group))
