"""Whether the differences in Tables 3 to 5 are significant: the trained judge minus each arm, here and in the paper."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from eval_benchmarks.output.comparisons import paired_test
from eval_benchmarks.output.table import NONE, Table
from experiments.paper.cells import Cell, Line
from experiments.paper.methods import ARM_TABLES, TRAINED
from rag_zeval.text import with_interval

RAGCHECKER_INSTANCES = 280  # pairs of answers in RAGChecker's meta-evaluation
LEVEL = 0.05
STEP = 0.001
HEADS = ("method", "metric", "minus it, here", "p", "minus it, paper", "scores must correlate above")
TITLE = "Tables 3 to 5: is it a difference? The trained judge minus each arm"
EXPLAINED = (
    "Tables 3 to 5: 'here' has the paired difference with its 95% interval over instances, and over seeds if there are "
    f"several. A difference of the paper, over {RAGCHECKER_INSTANCES} instances, has p < {LEVEL} only if the scores of "
    "the two judges correlate more than the last column says (Williams' test, Steiger 1980; for Pearson). The paper "
    "does not say how much they do"
)


def differences_table(lines: Mapping[int, Sequence[Line]]) -> Table | None:
    """Return a table with a line for each arm and metric of Tables 3 to 5; None if none of them was chosen."""
    found: list[tuple[str, ...]] = []
    for number in ARM_TABLES:
        of_table = lines.get(number, ())
        for reference in (line for line in of_table if line.row.arm == TRAINED):
            for arm in (line for line in of_table if line.row.arm != TRAINED):
                pairs = zip(reference.cells, arm.cells, strict=True)
                found += [_compared(reference, arm, one, other) for one, other in pairs]
    return Table(TITLE, HEADS, found) if found else None


def _compared(reference: Line, arm: Line, one: Cell, other: Cell) -> tuple[str, ...]:
    here, p = NONE, NONE
    if reference.scorer and arm.scorer and reference.bootstrap and one.open is None and other.open is None:
        own, minus = reference.scorer.metrics[one.metric], arm.scorer.metrics[other.metric]
        if test := paired_test(own, minus, reference.bootstrap.draws, reference.bootstrap.seed):
            low, high = test.interval or (None, None)
            here = with_interval(test.difference, low, high, "+.3f")
            p = NONE if test.p is None else f"{test.p:.4f}"
    assert one.printed is not None and other.printed is not None
    needed = correlation_needed(one.printed, other.printed, RAGCHECKER_INSTANCES) if one.metric == "pearson" else None
    printed = f"{one.printed - other.printed:+.3f}"
    return arm.row.name, one.metric, here, p, printed, NONE if needed is None else f"{needed:.3f}"


def correlation_needed(first: float, second: float, n: int) -> float | None:
    """Return how strongly two scorers must correlate for the difference of their correlations to have p < LEVEL.

    Both correlations are with the same labels.

    Args:
        first: Pearson's r of one scorer with the labels.
        second: Pearson's r of the other scorer with the labels.
        n: Number of instances.

    Returns:
        The smallest correlation between the two scorers' values, in steps of STEP, at which Williams' t (Steiger 1980,
        Psychological Bulletin 87, equation 7) is significant, two-sided. None if there is no such correlation.
    """
    from scipy import stats

    least = stats.t.ppf(1 - LEVEL / 2, n - 3)
    highest = first * second + math.sqrt((1 - first**2) * (1 - second**2))  # no three variables can correlate more
    for between in np.arange(0.0, highest, STEP):
        determinant = 1 - first**2 - second**2 - between**2 + 2 * first * second * between
        noise = 2 * (n - 1) / (n - 3) * determinant + ((first + second) / 2) ** 2 * (1 - between) ** 3
        if abs(first - second) * math.sqrt((n - 1) * (1 + between) / noise) > least:
            return float(between)
    return None
