"""The cells of the paper's tables: a measured number with its interval or what is missing, and the paper's value."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from eval_benchmarks.bench_manifest import read_bench
from eval_benchmarks.output.comparisons import paired_test
from eval_benchmarks.trials import ScorerTrials, group_trials, over_seeds
from experiments.paper.bench_runs import BenchRun
from experiments.paper.methods import PaperRow
from rag_zeval.statistics.bootstrap import interval
from rag_zeval.statistics.discriminative_power import holm

LEVEL = 0.01  # significance level of the dagger, in the paper and here


@dataclass(frozen=True)
class Cell:
    """One number of a table.

    metric: its name in the bench. printed: the paper's value, None if it has none. value: None if it was not measured;
    `open` then says why. significant: whether RAG-Zeval's row is better here than every other method that was measured,
    by paired tests at LEVEL after Holm's correction. It is None for other methods, and if a test is not possible.
    """

    metric: str
    printed: float | None
    value: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int = 0
    trials: int = 0
    significant: bool | None = None
    open: str | None = None


@dataclass(frozen=True)
class Line:
    """A row of a table with its cells.

    scorer: the one that the cells are read from, the best if several measure the row; None if nothing was measured.
    draws: of the bootstrap in its intervals and tests.
    """

    row: PaperRow
    scorer: ScorerTrials | None
    cells: tuple[Cell, ...]
    draws: int = 0


FinishedRuns = Mapping[str, tuple[int, list[ScorerTrials]]]  # by name, as in `sources`: draws of the bootstrap, scores


def read_finished(runs: Iterable[BenchRun]) -> FinishedRuns:
    """Read runs of the bench, once each."""
    read = {run.folder.name: read_bench(run.folder) for run in runs}
    return {name: (settings.bootstrap.draws, group_trials(trials)) for name, (settings, trials) in read.items()}


def fill(row: PaperRow, sources: Sequence[str], finished: FinishedRuns, reason: str | None) -> Line:
    """Return the line of a row, read from its sources.

    reason: what the row needs, None if it was run.
    """
    runs = [] if reason else [finished[name] for name in sources if name in finished]
    measuring: dict[str, list[ScorerTrials]] = {}  # by scorer: one for each seed
    for one in (one for _, scorers in runs for one in scorers):
        if one.benchmark.name == row.benchmark and one.scorer in row.measured_by:
            measuring.setdefault(one.scorer, []).append(one)
    best = max(map(over_seeds, measuring.values()), key=lambda one: _value(row, one), default=None)
    if best is None:
        why = f"needs {reason}" if reason else "no scores: see the run's notes"
        return Line(row, None, tuple(Cell(name, value, open=why) for name, value in row.metrics.items()))
    draws = runs[0][0]
    cells = [_cell(best, name, value, draws) for name, value in row.metrics.items()]
    return Line(row, best, tuple(cells), draws)


def _value(row: PaperRow, one: ScorerTrials) -> float:
    """Return the value of the table's first metric, by which the paper chooses among a framework's metrics (A.4).

    It is -inf without a value.
    """
    metric = one.metrics.get(next(iter(row.metrics)))
    return metric.value if metric and metric.values else float("-inf")


def _cell(one: ScorerTrials, name: str, printed: float | None, draws: int) -> Cell:
    metric = one.metrics.get(name)
    if metric is None or not metric.values:
        return Cell(name, printed, open="not defined: no pair has scores, or all differences are the same")
    low, high = interval(metric.statistic, metric.scored, draws, seed=0) or (None, None)
    return Cell(name, printed, metric.value, low, high, metric.n, len(one.trials))


def mark(lines: Sequence[Line]) -> list[Line]:
    """Return the lines, with `significant` set in those of RAG-Zeval, trained or not.

    They are compared with the rows of the other methods.
    """
    rivals = [line.scorer for line in lines if line.scorer and not line.row.is_ours]
    return [
        replace(line, cells=tuple(_marked(line, cell, rivals) for cell in line.cells)) if line.row.is_ours else line
        for line in lines
    ]


def _marked(line: Line, cell: Cell, rivals: Sequence[ScorerTrials]) -> Cell:
    name = cell.metric
    if line.scorer is None or name not in line.scorer.metrics:
        return cell
    own = line.scorer.metrics[name]
    measured = [rival.metrics[name] for rival in rivals if name in rival.metrics]
    tests = [paired_test(own, metric, line.draws) for metric in measured]
    known = [(test.difference, test.p) for test in tests if test is not None and test.p is not None]
    if not known or len(known) < len(rivals):
        return cell
    ps = holm([p for _, p in known])
    better = all(difference > 0 and p < LEVEL for (difference, _), p in zip(known, ps, strict=True))
    return replace(cell, significant=better)


def count(lines: Mapping[int, Sequence[Line]]) -> Counter[str]:
    """Count the cells for which the paper has a value: how many are filled, and how many are open for each reason."""
    counts = Counter(filled=0)  # first in the output, even if it stays 0
    cells = (cell for of_table in lines.values() for line in of_table for cell in line.cells)
    counts.update(cell.open or "filled" for cell in cells if cell.printed is not None)
    return counts
