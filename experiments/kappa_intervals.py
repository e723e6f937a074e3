"""`python -m experiments.kappa_intervals`: how wide are the intervals of `rag-zeval audit` around Cohen's kappa?

It simulates annotators with a known kappa, for several numbers of labelled rows. It prints the mean width of the 95%
interval, and its coverage: the share of intervals that contain the true kappa. docs/judge-audit.md has this table.
"""

import sys
from typing import Annotated

import numpy as np
import typer

from rag_zeval.audit.agreement import Ratings, estimate, kappa
from rag_zeval.statistics.weighted_correlations import Floats
from rag_zeval.streams import command_line

KAPPAS = (0.5, 0.7, 0.9)
SUPPORTED = 0.8  # share of rows that each rater supports
PER_CASE = 2
COPIED = 0.2  # share of a case's later rows with the ratings of its first one: claims of an answer are alike


def simulated(true: float, rows: int, random: np.random.Generator, oversampled: float = 1.0) -> Ratings:
    """Simulate two raters whose kappa in the population is `true`. An odd last row is left out.

    oversampled: how many times as often a row is drawn if the first rater does not support it.
    """
    both = SUPPORTED**2 + true * SUPPORTED * (1 - SUPPORTED)
    cells = np.array([1 - 2 * SUPPORTED + both, SUPPORTED - both, SUPPORTED - both, both])  # 2 * first + second
    rate = np.array([oversampled, oversampled, 1, 1])
    drawn = random.choice(4, size=(rows // PER_CASE, PER_CASE), p=cells * rate / (cells @ rate))
    drawn = np.where(random.random(drawn.shape) < COPIED, drawn[:, :1], drawn)
    cell, cases = drawn.ravel(), np.repeat(np.arange(rows // PER_CASE), PER_CASE)
    return Ratings((cell // 2).astype(float), (cell % 2).astype(float), 1 / rate[cell], cases.astype(str).tolist())


def intervals(true: float, rows: int, simulations: int, oversampled: float = 1.0) -> Floats:
    """Return the interval bounds of simulated audits, (simulations, 2); NaN where an interval is undefined."""
    random = np.random.default_rng(0)
    audits = (simulated(true, rows, random, oversampled) for _ in range(simulations))
    return np.array([estimate(kappa, ratings).interval or (np.nan, np.nan) for ratings in audits])


def width_and_coverage(bounds: Floats, true: float) -> tuple[float, float]:
    """Return the mean width of the defined intervals, and the share of all intervals that contain the true value."""
    low, high = bounds.T
    return float(np.nanmean(high - low)), float(np.mean((low <= true) & (true <= high)))


def kappa_intervals(
    simulations: Annotated[int, typer.Argument(min=1, help="How many audits to simulate for each cell.")] = 1_000,
) -> None:
    print("| rows |" + "".join(f" kappa {true} |" for true in KAPPAS))
    print("|---:|" + "---:|" * len(KAPPAS))
    for rows in (25, 50, 100, 200, 400):
        cells = [width_and_coverage(intervals(true, rows, simulations), true) for true in KAPPAS]
        print(f"| {rows} | {' | '.join(f'{width:.2f} ({share:.1%})' for width, share in cells)} |", flush=True)


main = command_line(kappa_intervals, "experiments.kappa_intervals", __doc__)

if __name__ == "__main__":
    sys.exit(main())
