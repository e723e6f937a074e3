"""`python -m experiments.kappa_intervals`: how wide are the intervals of `rag-zeval audit` around Cohen's kappa?

It simulates annotators with a known kappa, for several numbers of labelled rows. It prints the mean width of the 95%
interval, and its coverage: the share of intervals that contain the true kappa. docs/judge-audit.md has this table.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import typer

from rag_zeval.audit.agreement import Estimate, Ratings, estimate, kappa
from rag_zeval.streams import exit_status, run_command

ROWS = (25, 50, 100, 200, 400)
KAPPAS = (0.5, 0.7, 0.9)
SUPPORTED = 0.8  # of rows, by each rater
PER_CASE = 2
COPIED = 0.2  # of a case's further rows: their raters do as on its first, for rows of a case are alike


def simulated(true: float, rows: int, random: np.random.Generator, oversampled: float = 1.0) -> Ratings:
    """Rows, an even number, on which two raters have this kappa in the population.

    oversampled: how many times as often a row is drawn that the first rater does not support.
    """
    both = SUPPORTED**2 + true * SUPPORTED * (1 - SUPPORTED)
    cells = np.array([1 - 2 * SUPPORTED + both, SUPPORTED - both, SUPPORTED - both, both])  # 2 * first + second
    rate = np.array([oversampled, oversampled, 1, 1])
    drawn = random.choice(4, size=(rows // PER_CASE, PER_CASE), p=cells * rate / (cells @ rate))
    drawn = np.where(random.random(drawn.shape) < COPIED, drawn[:, :1], drawn)
    cell, cases = drawn.ravel(), np.repeat(np.arange(rows // PER_CASE), PER_CASE)
    return Ratings((cell // 2).astype(float), (cell % 2).astype(float), 1 / rate[cell], cases.astype(str).tolist())


def estimates(true: float, rows: int, simulations: int, oversampled: float = 1.0) -> list[Estimate]:
    """The kappa of as many simulated audits."""
    random = np.random.default_rng(0)
    return [estimate(kappa, simulated(true, rows, random, oversampled)) for _ in range(simulations)]


def holds(found: Estimate, true: float) -> bool:
    """Whether the interval holds the true value; an undefined one does not."""
    return found.interval is not None and found.interval[0] <= true <= found.interval[1]


Simulations = Annotated[int, typer.Argument(min=1, help="How many audits to simulate for each cell.")]


def print_table(simulations: Simulations = 1_000) -> None:
    print("| rows |" + "".join(f" kappa {true} |" for true in KAPPAS))
    print("|---:|" + "---:|" * len(KAPPAS))
    for rows in ROWS:
        cells = []
        for true in KAPPAS:
            found = estimates(true, rows - rows % PER_CASE, simulations)
            widths = [one.interval[1] - one.interval[0] for one in found if one.interval]
            cells.append(f"{np.mean(widths):.2f} ({np.mean([holds(one, true) for one in found]):.1%})")
        print(f"| {rows} | {' | '.join(cells)} |", flush=True)


def main(argv: Sequence[str]) -> int:
    return run_command(print_table, argv, "experiments.kappa_intervals", __doc__)


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
