"""What stands in a cell: a number measured here with its interval, or what it needs; beside it the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eval_benchmarks.bench_manifest import read_run
from eval_benchmarks.bench_settings import RunSettings
from eval_benchmarks.output.comparisons import holm, paired_test
from eval_benchmarks.trials import ScorerTrials, group_trials
from experiments.paper.methods import PaperRow
from experiments.paper.runs import BenchRun, source
from rag_zeval.statistics.bootstrap import interval

LEVEL = 0.01  # of the dagger, in the paper and here


@dataclass(frozen=True)
class Cell:
    """One number of a table. value: None where it is not measured, and `open` says why; printed: the paper's.

    significant: RAG-Zeval's row is better here than every other row measured, by the paired tests at LEVEL after
    Holm's correction; None where that cannot be told.
    """

    metric: str
    printed: float
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    trials: int = 0
    significant: bool | None = None
    open: str | None = None


@dataclass(frozen=True)
class Line:
    """A row of a table: what it is called, which scorer it is read from (the best, where there are several), cells."""

    row: PaperRow
    scorer: ScorerTrials | None
    cells: tuple[Cell, ...]


class FinishedRuns:
    """The bench's runs, read once each."""

    def __init__(self, runs: Sequence[BenchRun]):
        self._runs = {run.name: run for run in runs}
        self._read: dict[str, tuple[RunSettings, list[ScorerTrials]]] = {}

    def settings(self, row: PaperRow) -> RunSettings:
        return self._of(row)[0]

    def scorers(self, row: PaperRow) -> list[ScorerTrials]:
        """Those that measure the row; empty where no run has them."""
        if source(row) not in self._runs:
            return []
        return [one for one in self._of(row)[1] if one.benchmark.name == row.benchmark and _measures(row, one)]

    def _of(self, row: PaperRow) -> tuple[RunSettings, list[ScorerTrials]]:
        name = source(row)
        if name not in self._read:
            settings, trials = read_run(self._runs[name].folder)
            self._read[name] = settings, group_trials(trials)
        return self._read[name]


def _measures(row: PaperRow, one: ScorerTrials) -> bool:
    ranker = row.printed.method == "SFT"
    return one.scorer in (("sft_ranker",) if ranker else row.scorers)


def fill(row: PaperRow, finished: FinishedRuns, reason: str | None) -> Line:
    """The line of a row; `reason`: what it needs, None if it was run."""
    scorers = finished.scorers(row) if reason is None else []
    best = max(scorers, key=lambda one: _value(row, one), default=None)
    if best is None:
        why = f"needs {reason}" if reason else "no scores: see the run's notes"
        return Line(row, None, tuple(Cell(name, value, open=why) for name, value in row.printed.values.items()))
    settings = finished.settings(row)
    return Line(row, best, tuple(_cell(row, best, name, value, settings) for name, value in row.printed.values.items()))


def _value(row: PaperRow, one: ScorerTrials) -> float:
    """By the table's first metric, as the paper chooses among a framework's own (A.4)."""
    metric = one.metrics.get(row.metric(next(iter(row.printed.values))))
    return metric.value if metric and metric.values else float("-inf")


def _cell(row: PaperRow, one: ScorerTrials, name: str, printed: float, settings: RunSettings) -> Cell:
    metric = one.metrics.get(row.metric(name))
    if metric is None or not metric.values:
        return Cell(name, printed, open="not defined on what was scored")
    draws, seed = settings.bootstrap.draws, settings.bootstrap.seed
    low, high = interval(metric.statistic, metric.scored, draws, seed) or (None, None)
    return Cell(name, printed, metric.value, low, high, metric.n, len(one.trials))


def mark(lines: Sequence[Line], finished: FinishedRuns, ours: str = "RAG-Zeval") -> list[Line]:
    """The lines with `significant` said in those of RAG-Zeval, trained or not, against the rows of other methods."""
    rivals = [line for line in lines if not line.row.printed.method.startswith(ours) and line.scorer]
    return [
        Line(line.row, line.scorer, tuple(_marked(line, cell, rivals, finished) for cell in line.cells))
        if line.row.printed.method.startswith(ours) and line.scorer and rivals
        else line
        for line in lines
    ]


def _marked(line: Line, cell: Cell, rivals: Sequence[Line], finished: FinishedRuns) -> Cell:
    bootstrap, name = finished.settings(line.row).bootstrap, line.row.metric(cell.metric)
    assert line.scorer is not None
    tests = [
        paired_test(line.scorer.metrics[name], rival.scorer.metrics[name], bootstrap.draws, bootstrap.seed)
        for rival in rivals
        if rival.scorer and name in rival.scorer.metrics and name in line.scorer.metrics
    ]
    known = [test for test in tests if test is not None and test.p is not None]
    if not known or len(known) < len(rivals):
        return cell
    ps = holm([test.p for test in known if test.p is not None])
    better = all(test.difference > 0 and p < LEVEL for test, p in zip(known, ps, strict=True))
    return Cell(**{**vars(cell), "significant": better})


def count(lines: Mapping[int, Sequence[Line]]) -> dict[str, int]:
    """How many cells are filled, and how many are open for each reason."""
    counts: dict[str, int] = {"filled": 0}
    for cell in (cell for of_table in lines.values() for line in of_table for cell in line.cells):
        reason = cell.open or "filled"
        counts[reason] = counts.get(reason, 0) + 1
    return counts
