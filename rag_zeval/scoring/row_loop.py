"""Scores examples into a file of rows. Each row is written at once, and no example is scored twice."""

import gc
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

COLLECT_LESS = 20  # while rows are scored, the garbage collector runs this many times less often


@dataclass(frozen=True)
class Work:
    """A scorer, and the examples that it is to score, by id and in order. label: its name in the progress display."""

    label: str
    scorer: Scorer
    examples: Mapping[str, Example]

    def row_id(self, id_: str) -> str:
        """Return the id of an example's row."""
        return id_

    def row(self, scored: Scored) -> Row:
        """Return the row of a scored example."""
        return scored.row()


def rows_to_retry(failed: Collection[str], spending: Spending, budget: Budget | None) -> Collection[str]:
    """Return the failed rows to score again. If the budget is spent, return none and count them as not judged."""
    if budget is not None and budget.is_spent:
        spending.unasked += len(failed)
        return ()
    return failed


def take_out(writer: RowWriter, ids: Collection[str]) -> None:
    """Delete these rows from the file, so that they are scored again. The file's SPENT row keeps their costs."""
    writer.settle([*ids, SPENT] if ids else (), [spent_before(writer.done, ids)] if ids else ())


def score_rows(work: Work, writer: RowWriter, progress: Progress, spending: Spending) -> tuple[list[str], list[Scored]]:
    """Score the examples that have no row in the file.

    Return the ids of those that got a row in which an answer has no score, and what is known of those without a row.

    If a scorer computes examples in groups, and a row of a group is missing, it computes the whole group again. So a
    run that was killed writes the same rows as one that was not. An example that was not judged because the budget was
    spent gets a row only if something was paid for it. `spending` counts it in both cases.
    """
    done = writer.done
    missing = [id_ for id_ in work.examples if work.row_id(id_) not in done]
    total, kept = len(work.examples), len(work.examples) - len(missing)
    unscored, left = [], []
    with _COLLECTOR.less_often(), progress.job(work.label, total, kept, spending.shown) as job:

        def part_done(id_: str, share: float) -> None:
            if work.row_id(id_) not in done:
                job.part_done(id_, share)

        for scored in _scored(work, missing, part_done):
            spending.unasked += bool(scored.unasked)
            if work.row_id(scored.id) in done:
                pass
            elif scored.unasked and not scored.calls:
                left.append(scored)
            else:
                row = work.row(scored)
                writer.append(row)
                spending.add(row)
                job.advance(spending.shown, scored.id)
                if None in scored.values:
                    unscored.append(scored.id)
            check_stopped()
    return unscored, left


class _Collector:
    """The garbage collector. By default it runs after every few requests, and often searches all loaded modules.

    Its setting applies to the whole process. If runs overlap in several threads, the first one changes it and the last
    one restores it.
    """

    def __init__(self) -> None:
        self._lock, self._runs, self._usual = threading.Lock(), 0, gc.get_threshold()

    @contextmanager
    def less_often(self) -> Iterator[None]:
        with self._lock:
            if not self._runs:
                self._usual = gc.get_threshold()
                gc.set_threshold(COLLECT_LESS * self._usual[0], *self._usual[1:])  # 0, which means off, stays 0
            self._runs += 1
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1
                if not self._runs:
                    gc.set_threshold(*self._usual)


_COLLECTOR = _Collector()


def _scored(work: Work, missing: Sequence[str], part_done: Callable[[str, float], None]) -> Iterator[Scored]:
    work.scorer.part_done = part_done
    try:
        for group in _groups(work, missing):
            yield from work.scorer.score(map(work.examples.__getitem__, group))
    finally:
        work.scorer.part_done = None


def _groups(work: Work, missing: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the examples to score together. The groups depend on all examples, not on those that are missing."""
    size, wanted = work.scorer.group, set(missing)
    groups = [missing] if size is None else _within(size, work)
    return (group for group in groups if not wanted.isdisjoint(group))


def _within(size: int, work: Work) -> Iterator[list[str]]:
    """Yield neighbouring examples with at most `size` requests together. One example may have more."""
    group: list[str] = []
    room = size
    for id_, example in work.examples.items():
        requests = work.scorer.requests(example)
        if group and requests > room:
            yield group
            group, room = [], size
        group.append(id_)
        room -= requests
    yield group
