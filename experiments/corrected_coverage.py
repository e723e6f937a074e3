"""`python -m experiments.corrected_coverage`: does the corrected mean of `rag-zeval audit` keep what its interval says?

It simulates judges with known sensitivity and specificity, and people who label a few of 2,000 claims, drawn as
`rag-zeval sample` draws them. It prints how often the 95% intervals of the corrected mean, of the labels alone and of
the judge alone hold the true mean, and how wide the first two are. Then two systems are compared: equally good ones of
which the judge favours one, and one that is better by eight points. docs/judge-audit.md has these tables.
"""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer

from rag_zeval.audit.agreement import Statistic
from rag_zeval.audit.corrected_mean import LabelledSample, corrected_difference, corrected_mean, labels_alone
from rag_zeval.statistics.allocation import allocate
from rag_zeval.streams import command_line

ROWS = 2_000  # claims
MOST_CLAIMS = 6  # of an answer; from 1 on, each number as often
ALIKE = 0.2  # share of an answer's further claims that are as true as its first one
RATES = (0.7, 0.8, 0.9, 0.95)  # of sensitivity and specificity
TRUE_SHARES = (0.1, 0.5, 0.9)
LABELS = (25, 50, 100, 200)


@dataclass(frozen=True)
class Setting:
    """A judge, and the share of true claims."""

    sensitivity: float
    specificity: float
    true_share: float


def simulated(setting: Setting, labels: int, random: np.random.Generator, taste: float = 0.0) -> LabelledSample:
    """A judge's verdicts on some ROWS claims, and the labels of a sample drawn by the plan of `rag-zeval sample`.

    taste: how much more often the judge passes a claim of an answer with more claims than half of the answers have.
    """
    sizes = random.integers(1, MOST_CLAIMS + 1, 2 * ROWS // (1 + MOST_CLAIMS))
    of_claim = np.repeat(np.arange(len(sizes)), sizes)
    first = random.random(len(sizes))[of_claim]
    own = np.where(random.random(len(of_claim)) < ALIKE, first, random.random(len(of_claim)))
    true = own < setting.true_share
    passes = np.where(true, setting.sensitivity, 1 - setting.specificity)
    passes = np.where(sizes[of_claim] > MOST_CLAIMS // 2, np.minimum(passes + taste, 1), passes)
    verdicts = random.random(len(of_claim)) < passes
    strata = [rows for rows in (np.flatnonzero(verdicts), np.flatnonzero(~verdicts)) if len(rows)]
    drawn, weights = [], []
    for rows, n in zip(strata, allocate([len(rows) for rows in strata], labels), strict=True):
        drawn.append(random.choice(rows, n, replace=False))
        weights.append(np.full(n, len(rows) / n))
    at = np.concatenate(drawn)
    shares = 1 / sizes[of_claim]
    cases = of_claim.astype(str).tolist()
    return LabelledSample(verdicts.astype(float), shares, cases, at, true[at].astype(float), np.concatenate(weights))


def judge_alone(sample: LabelledSample) -> Statistic:
    """The judge's mean with an interval that takes each verdict for the truth."""
    return labels_alone(_judge_as_people(sample))


def _judge_as_people(sample: LabelledSample) -> LabelledSample:
    """The sample of people who label every claim as the judge does."""
    n = len(sample.scores)
    return LabelledSample(sample.scores, sample.shares, sample.cases, np.arange(n), sample.scores, np.ones(n))


ESTIMATES = {"corrected": corrected_mean, "labels alone": labels_alone, "judge alone": judge_alone}


def coverage(setting: Setting, labels: int, runs: int, seed: int) -> dict[str, tuple[float, float]]:
    """By estimate: the share of intervals that hold the true mean, and their mean width."""
    random = np.random.default_rng(seed)
    bounds: dict[str, list[tuple[float, float]]] = {name: [] for name in ESTIMATES}
    for _ in range(runs):
        sample = simulated(setting, labels, random)
        for name, estimate in ESTIMATES.items():
            interval = estimate(sample).interval
            assert interval is not None, "there are more labels than one"
            bounds[name].append(interval)
    found = {}
    for name, pairs in bounds.items():
        low, high = np.array(pairs).T
        held = (low <= setting.true_share) & (setting.true_share <= high)
        found[name] = float(held.mean()), float((high - low).mean())
    return found


@dataclass(frozen=True)
class Called:
    """In which share of the comparisons B was called better than A at 5%, by the judge's scores and corrected."""

    judge: float
    corrected: float


def called_better(gain: float, taste: float, labels: int, runs: int, seed: int = 0) -> Called:
    """A judge of sensitivity and specificity 0.9 compares two systems on different answers; A has 70% true claims.

    gain: how many more true claims B has. taste: the judge's, for B's long answers only. labels: of each system.
    """
    random = np.random.default_rng(seed)
    by_judge = by_people = 0
    for _ in range(runs):
        first = simulated(Setting(0.9, 0.9, 0.7), labels, random)
        second = simulated(Setting(0.9, 0.9, 0.7 + gain), labels, random, taste)
        apart = corrected_difference(first, second)
        assert apart is not None, "there are labels"
        by_people += apart.p <= 0.05 and apart.value > 0
        trusted = corrected_difference(*map(_judge_as_people, (first, second)))
        assert trusted is not None, "every claim has a verdict"
        by_judge += trusted.p <= 0.05 and trusted.value > 0
    return Called(by_judge / runs, by_people / runs)


def settings() -> Iterator[Setting]:
    return itertools.starmap(Setting, itertools.product(RATES, RATES, TRUE_SHARES))


def corrected_coverage(
    runs: Annotated[int, typer.Argument(min=1, help="How many audits to simulate for each setting.")] = 2_000,
) -> None:
    print(
        "| labels | settings | corrected: covers | below 0.93 | width | labels alone: covers | width "
        "| judge alone: covers |"
    )
    print("|---:|---:|---|---:|---:|---|---:|---|")
    for labels in LABELS:
        found = [coverage(setting, labels, runs, seed) for seed, setting in enumerate(settings())]
        covers, widths = ({name: [one[name][at] for one in found] for name in ESTIMATES} for at in (0, 1))
        spans = {name: f"{min(values):.3f} to {max(values):.3f}" for name, values in covers.items()}
        mean_width = {name: f"{np.mean(values):.3f}" for name, values in widths.items()}
        low = sum(value < 0.93 for value in covers["corrected"])
        print(
            f"| {labels} | {len(found)} | {spans['corrected']} | {low} | {mean_width['corrected']} "
            f"| {spans['labels alone']} | {mean_width['labels alone']} | {spans['judge alone']} |",
            flush=True,
        )
    print("\n| B against A | labels of each | the judge calls B better | corrected |\n|---|---:|---:|---:|")
    for name, gain, taste in (("as good, favoured", 0.0, 0.15), ("better by 0.08", 0.08, 0.0)):
        for labels in LABELS[2:]:
            share = called_better(gain, taste, labels, max(1, runs // 4))
            print(f"| {name} | {labels} | {share.judge:.3f} | {share.corrected:.3f} |", flush=True)


main = command_line(corrected_coverage, "experiments.corrected_coverage", __doc__)

if __name__ == "__main__":
    sys.exit(main())
