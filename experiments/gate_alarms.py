"""`python -m experiments.gate_alarms`: how often does `rag-zeval gate` find a worse slice, or raise a false alarm?

It simulates releases on a set of 60 questions in 5 slices. A judge with random errors scores both versions. Either
nothing changes, or one slice of 12 questions gets worse. Where nothing changes, one slice may also have more noise than
the others, or all of it. It prints how often `gate` fails a release, by default and with --strict.
docs/compare-and-gate.md has this table.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer

from rag_zeval.decisions.comparison import compare_sides
from rag_zeval.decisions.gate import GateCheck, Limits, decide, in_order, passed, strictly
from rag_zeval.decisions.sides import Side
from rag_zeval.results import Judged
from rag_zeval.statistics.weighted_correlations import Floats
from rag_zeval.streams import command_line

QUESTIONS, SLICES, IN_SLICE = 60, 5, 12
DAMAGED = slice(0, IN_SLICE)  # the questions of the slice that gets worse
SDS = (0.05, 0.1, 0.2)  # standard deviations of a score over the judge's trials
CLAIMS = (3, 9)  # of an answer: from 3 to 8, each number equally likely
SUPPORTED = 0.8  # share of the claims
FLIPPED = 0.1  # share of verdicts that a trial of the judge gets wrong
POOL = 1_000  # answers that the judge scored twice
DRAWS = 200  # resamples for the intervals, which decide nothing here
METRIC = "rag_zeval"

Worse = Callable[[Floats], Floats]  # old scores (questions,) -> new ones, both without the judge's errors


@dataclass(frozen=True)
class Release:
    """How the new version differs from the old one.

    cases: number of questions in the first slice; the others share the rest. noise: standard deviation of the judge's
    errors in the first slice and in the others, as multiples of that of the row.
    """

    name: str
    worse: Worse
    cases: int = IN_SLICE
    noise: tuple[float, float] = (1.0, 1.0)


def a_third_lower(scores: Floats) -> Floats:
    """Lower every score of the first slice by a third of its value."""
    lower = scores.copy()
    lower[DAMAGED] *= 2 / 3
    return lower


def four_lost(scores: Floats) -> Floats:
    """Set four scores of the first slice to 0."""
    lower = scores.copy()
    lower[:4] = 0.0
    return lower


RELEASES = (
    Release("every score of the slice falls by a third", a_third_lower),
    Release("4 of its 12 scores fall to 0", four_lost),
    Release("nothing changes", np.copy),
    Release("nothing changes, the slice is twice as noisy", np.copy, noise=(2.0, 1.0)),
    *(Release(f"nothing changes, noise only in a slice of {n}", np.copy, n, (1.0, 0.0)) for n in (12, 5, 3)),
)


def errors(random: np.random.Generator) -> Floats:
    """Simulate two trials of a judge on each answer, and return the errors, (2 * POOL,).

    An error is the difference of one trial from the other, divided by the standard deviation of all errors.
    """
    claims = random.integers(*CLAIMS, POOL)
    held = random.binomial(claims, SUPPORTED)
    trials = [(random.binomial(held, 1 - FLIPPED) + random.binomial(claims - held, FLIPPED)) / claims for _ in range(2)]
    apart = trials[0] - trials[1]
    both = np.concatenate([apart, -apart])
    return both / both.std()


def versions(release: Release, sd: float, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Simulate the judge's scores of the old and the new version, each (questions,)."""
    claims = random.integers(*CLAIMS, QUESTIONS)
    true = random.binomial(claims, SUPPORTED) / claims
    noise = sd * np.repeat(release.noise, (release.cases, QUESTIONS - release.cases))
    pool = errors(random)
    old, new = (np.clip(of + noise * random.choice(pool, QUESTIONS), 0, 1) for of in (true, release.worse(true)))
    return old, new


def side(scores: Floats, cases: int) -> Side:
    """Return scores as a side of a comparison. The first slice has so many cases, and the others about as many each."""
    others = np.arange(QUESTIONS - cases) * (SLICES - 1) // (QUESTIONS - cases) + 1
    judged = {
        str(at): Judged(str(at), "?", f"slice {number}", "s", METRIC, "", "", float(score), "ok", None)
        for at, (score, number) in enumerate(zip(scores, [0] * cases + others.tolist(), strict=True))
    }
    return Side("", {METRIC: judged})


def checks(release: Release, sd: float, releases: int) -> Iterator[list[GateCheck]]:
    """Yield the checks of each simulated release, in the order in which `gate` prints them."""
    random = np.random.default_rng(0)
    for _ in range(releases):
        old, new = (side(scores, release.cases) for scores in versions(release, sd, random))
        yield in_order(decide([compare_sides(old, new, METRIC, draws=DRAWS)], Limits()))


def gate_alarms(
    releases: Annotated[int, typer.Argument(min=1, help="How many releases to simulate for each row.")] = 500,
) -> None:
    print("| what changes | SD of the judge | fails | fails with --strict | the slice is named first |")
    print("|---|---:|---:|---:|---:|")
    for release in RELEASES:
        for sd in SDS:
            found = list(checks(release, sd, releases))
            shares = (
                sum(not passed(one) for one in found),
                sum(not passed(strictly(one)) for one in found),
                sum(one[0].name == "slice: slice 0" and one[0].outcome != "passed" for one in found),
            )
            print(
                f"| {release.name} | {sd} | {' | '.join(f'{count / releases:.3f}' for count in shares)} |", flush=True
            )


main = command_line(gate_alarms, "experiments.gate_alarms", __doc__)

if __name__ == "__main__":
    sys.exit(main())
