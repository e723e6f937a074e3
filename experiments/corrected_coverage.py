"""`python -m experiments.corrected_coverage`: how often do intervals of `rag-zeval audit` contain the true mean?

It simulates judges with known sensitivity and specificity, and people who label a few of 2,000 claims, drawn as
`rag-zeval sample` draws them. It prints the five simulated tables of docs/audit-accuracy.md:

1. How often the 95% interval of the corrected mean, of the labels alone and of the judge alone contains the true mean.
   The table also has the mean width of the first two.

2. The same for the corrected mean and the labels alone if people grade answers from 1 to 5.

3. The same for the mean that the judge's error rates imply.

4. How often two systems are called different if they are equally good and the judge favours one, and if one is better
   by eight points. For the second case also how often `sample --width` promises to find the difference.

5. How wide the intervals are whose width was planned by `sample --width`.

With --picture it only draws twenty audits of one judge.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from eval_benchmarks.output.figure import png, style
from rag_zeval.audit.agreement import Statistic
from rag_zeval.audit.corrected_mean import (
    LabelledSample,
    by_error_rates,
    corrected_difference,
    corrected_mean,
    labelled_sample,
    labels_alone,
)
from rag_zeval.audit.planning import Guess, by_agreement, by_pilot, chance_to_find, expected_width, rows_needed
from rag_zeval.audit.sheet import BANDS, CLAIM, Item, Label, draw
from rag_zeval.cases.case import NO_SLICE
from rag_zeval.files import write_bytes
from rag_zeval.statistics.allocation import allocate
from rag_zeval.statistics.weighted_correlations import Floats
from rag_zeval.streams import command_line

ROWS = 2_000  # claims
MOST_CLAIMS = 6  # of an answer; each number from 1 on is equally likely
ALIKE = 0.2  # share of an answer's later claims that are true exactly if its first one is
RATES = (0.7, 0.8, 0.9, 0.95)  # of sensitivity and specificity
TRUE_SHARES = (0.1, 0.5, 0.9)
LABELS = (25, 50, 100, 200)
GRADES = {
    "mostly 5": (0.02, 0.01, 0.02, 0.05, 0.9),
    "mostly 3": (0.05, 0.2, 0.5, 0.2, 0.05),
    "1 or 5": (0.45, 0.03, 0.04, 0.03, 0.45),
    "each as often": (0.2,) * 5,
    "5, seldom 1": (0.03, 0.0, 0.0, 0.0, 0.97),
    "3, seldom 1": (0.05, 0.0, 0.95, 0.0, 0.0),
}
ERRORS = (0.1, 0.2, 0.3)
GAIN, TASTE = 0.08, 0.15
WIDTHS, PILOT, PLANS = (0.1, 0.15), 50, 20  # planned widths; labels of a first sheet; number of such sheets
DRAWN = 20  # audits in the picture


@dataclass(frozen=True)
class Setting:
    """A judge, and the share of true claims."""

    sensitivity: float
    specificity: float
    true_share: float

    def sample(self, labels: int, random: np.random.Generator, taste: float = 0.0) -> LabelledSample:
        """Simulate `claims`, and people's labels of some of them."""
        made = claims(self, random, taste)
        scores, said = made.verdicts.astype(float), made.true.astype(float)
        return _sampled(scores, said, made.shares, made.answers, labels, random)


SETTINGS = [Setting(*rates) for rates in itertools.product(RATES, RATES, TRUE_SHARES)]


@dataclass(frozen=True)
class Claims:
    """About ROWS claims. Each field is (claims,).

    true: whether the claim is true. verdicts: whether the judge calls it supported. answers: the number of its answer.
    """

    true: NDArray[np.bool_]
    verdicts: NDArray[np.bool_]
    answers: NDArray[np.intp]

    @property
    def shares(self) -> Floats:
        """The share of its answer's score that each claim decides, (claims,)."""
        return np.asarray(1 / np.bincount(self.answers)[self.answers])

    def items(self) -> list[Item]:
        """Return the claims as `rag-zeval sample` reads them from a result file."""
        return [
            Item(f"r{at}", str(answer), NO_SLICE, "", (), "", "", float(verdict), "", float(share))
            for at, (answer, verdict, share) in enumerate(zip(self.answers, self.verdicts, self.shares, strict=True))
        ]

    def labels(self, drawn: Iterable[tuple[Item, float]]) -> dict[str, Label]:
        """Return people's labels of items that were drawn with these probabilities. People are always right."""
        return {item.id: Label(float(self.true[int(item.id[1:])]), "", "", 1 / p) for item, p in drawn}


def claims(setting: Setting, random: np.random.Generator, taste: float = 0.0) -> Claims:
    """Simulate claims and a judge's verdicts on them.

    taste: added to the probability that the judge calls a claim supported, for answers with more than MOST_CLAIMS / 2
    claims. These are half of the answers.
    """
    sizes = random.integers(1, MOST_CLAIMS + 1, 2 * ROWS // (1 + MOST_CLAIMS))
    of_claim = np.repeat(np.arange(len(sizes)), sizes)
    first = random.random(len(sizes))[of_claim]
    own = np.where(random.random(len(of_claim)) < ALIKE, first, random.random(len(of_claim)))
    true = own < setting.true_share
    passes = np.where(true, setting.sensitivity, 1 - setting.specificity)
    passes = np.where(sizes[of_claim] > MOST_CLAIMS // 2, np.minimum(passes + taste, 1), passes)
    return Claims(true, random.random(len(of_claim)) < passes, of_claim)


def _sampled(
    scores: Floats, said: Floats, shares: Floats, cases: NDArray[np.intp], labels: int, random: np.random.Generator
) -> LabelledSample:
    """Draw the rows to label as `rag-zeval sample` draws them, stratified by score band.

    said: (rows,) the label that people would give to each row.
    """
    bands = np.minimum((scores * BANDS).astype(int), BANDS - 1)
    strata = [np.flatnonzero(bands == band) for band in np.unique(bands)[::-1]]
    drawn, weights = [], []
    for rows, n in zip(strata, allocate([len(rows) for rows in strata], labels), strict=True):
        drawn.append(random.choice(rows, n, replace=False))
        weights.append(np.full(n, len(rows) / n))
    at = np.concatenate(drawn)
    return LabelledSample(scores, shares, cases.astype(str).tolist(), at, said[at], np.concatenate(weights))


@dataclass(frozen=True)
class Grades:
    """How people grade answers, and how far the judge's scores are off.

    shares: the share of each grade from 1 to 5. error: the standard deviation of the judge's score around the grade,
    both from 0 to 1. One score in ten is random instead.
    """

    shares: tuple[float, ...]
    error: float

    @property
    def true_share(self) -> float:
        """The mean grade, from 0 to 1."""
        return float(np.array(self.shares) @ np.linspace(0, 1, len(self.shares)))

    def sample(self, labels: int, random: np.random.Generator) -> LabelledSample:
        """Simulate a judge's scores of ROWS answers, one for each case, and people's grades of some of them."""
        said = random.choice(np.linspace(0, 1, len(self.shares)), ROWS, p=self.shares)
        scores = np.clip(said + random.normal(0, self.error, ROWS), 0, 1)
        scores = np.where(random.random(ROWS) < 0.1, random.random(ROWS), scores).round(2)
        return _sampled(scores, said, np.ones(ROWS), np.arange(ROWS), labels, random)


def judge_alone(sample: LabelledSample) -> Statistic:
    """Return the judge's mean, with an interval that assumes that every verdict is right."""
    return labels_alone(_judge_as_people(sample))


def _judge_as_people(sample: LabelledSample) -> LabelledSample:
    """Return the sample as if people had labelled every row as the judge scored it."""
    n = len(sample.scores)
    return LabelledSample(sample.scores, sample.shares, sample.cases, np.arange(n), sample.scores, np.ones(n))


def error_rates(sample: LabelledSample) -> Statistic:
    """Return the mean that the judge's error rates imply; if they imply none, no value and the interval 0 to 1."""
    found = by_error_rates(sample)
    return found.mean if found else Statistic(None, (0.0, 1.0), len(sample.labels))


Estimates = Mapping[str, Callable[[LabelledSample], Statistic]]
ESTIMATES: Estimates = {"judge alone": judge_alone, "labels alone": labels_alone, "corrected": corrected_mean}


def coverage(
    setting: Setting | Grades, labels: int, runs: int, seed: int, estimates: Estimates = ESTIMATES
) -> dict[str, tuple[float, float]]:
    """Return for each estimate the share of intervals that contain the true mean, and their mean width."""
    random = np.random.default_rng(seed)
    bounds: dict[str, list[tuple[float, float]]] = {name: [] for name in estimates}
    for _ in range(runs):
        sample = setting.sample(labels, random)
        for name, estimate in estimates.items():
            interval = estimate(sample).interval
            assert interval is not None, "there are more labels than one"
            bounds[name].append(interval)
    found = {}
    for name, pairs in bounds.items():
        low, high = np.array(pairs).T
        held = (low <= setting.true_share) & (setting.true_share <= high)
        found[name] = float(held.mean()), float((high - low).mean())
    return found


COMPARED = Setting(0.9, 0.9, 0.7)  # the judge, and system A; A and B answered different questions


def called_different(gain: float, taste: float, labels: int, runs: int) -> tuple[float, float]:
    """Simulate comparisons of two systems, A and B, and return how often they are called different at the 5% level.

    The first share is by the judge's scores alone, the second by the corrected means. gain: B's share of true claims
    minus A's. taste: as in `claims`, for B only. labels: the number for each system.
    """
    random = np.random.default_rng(0)
    by_judge = by_people = 0
    for _ in range(runs):
        first = COMPARED.sample(labels, random)
        second = replace(COMPARED, true_share=COMPARED.true_share + gain).sample(labels, random, taste)
        apart = corrected_difference(first, second)
        trusted = corrected_difference(*map(_judge_as_people, (first, second)))
        assert apart and trusted, "there are labels, and every claim has a verdict"
        by_people += apart[1] <= 0.05
        by_judge += trusted[1] <= 0.05
    return by_judge / runs, by_people / runs


def by_first_sheet(made: Claims, items: Sequence[Item], seed: int) -> Guess:
    """Return a plan's guess of people's labels, based on PILOT labels of a first sheet."""
    return by_pilot(CLAIM, items, made.labels(draw(items, PILOT, seed)))


def promised(labels: int) -> float:
    """Return the chance to find GAIN with so many labels for each system, as plans expect it.

    It is the mean over PLANS plans for each of the two systems.
    """
    chances = []
    for gain in (0.0, GAIN):
        made = claims(replace(COMPARED, true_share=COMPARED.true_share + gain), np.random.default_rng(0))
        items = made.items()
        widths = [expected_width(items, by_first_sheet(made, items, seed), labels) for seed in range(PLANS)]
        chances += [chance_to_find(GAIN, width) for width in widths]
    return float(np.mean(chances))


def planned_widths(setting: Setting, width: float, plans: int, audits: int) -> tuple[list[int], Floats]:
    """Plan audits for an interval of this width, and simulate them.

    Returns the number of labels that each plan asks for, and the interval widths of all audits with so many labels.
    plans: the number of plans, each based on another first sheet. 0: one plan, based on the true share of right
    verdicts. audits: the number of simulated audits over all plans.
    """
    made = claims(setting, np.random.default_rng(0))
    items = made.items()
    agreement = float((made.true == made.verdicts).mean())
    guesses = [by_first_sheet(made, items, seed) for seed in range(plans)] or [by_agreement(CLAIM, agreement)]
    rows, widths = [], []
    for guess in guesses:
        needed = rows_needed(items, guess, width).rows
        assert needed is not None, "all rows are enough"
        rows.append(needed)
        for seed in range(audits // len(guesses)):
            sample = labelled_sample(items, made.labels(draw(items, needed, PLANS + seed)))
            assert sample is not None, "there are labels"
            low, high = corrected_mean(sample).interval or (0.0, 1.0)
            widths.append(high - low)
    return rows, np.array(widths)


def picture() -> bytes:
    """Draw the intervals of DRAWN simulated audits around the true mean as PNG, with a panel for each estimate."""
    from matplotlib.figure import Figure

    setting, random = Setting(0.95, 0.7, 0.6), np.random.default_rng(0)
    samples = [setting.sample(100, random) for _ in range(DRAWN)]
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for ax, (name, estimate) in zip(figure.subplots(1, len(ESTIMATES), sharex=True), ESTIMATES.items(), strict=True):
        for at, sample in enumerate(samples):
            found = estimate(sample)
            assert found.value is not None and found.interval is not None, "there are labels"
            colour = "#0b5cad" if found.interval[0] <= setting.true_share <= found.interval[1] else "#d9730d"
            ax.plot(found.interval, [at, at], color=colour, linewidth=1.6)
            ax.plot(found.value, at, color=colour, marker="o", markersize=3)
        ax.axvline(setting.true_share, color="#57606a", linestyle="--", linewidth=1)
        style(ax, "mean score")
        ax.set_title(name)
        ax.set_yticks([])
    return png(figure)


def columns(found: Sequence[Mapping[str, tuple[float, float]]], name: str) -> tuple[str, int, str]:
    """Return the range of an estimate's coverage over settings, how many are below 0.93, and the mean width."""
    covers, widths = zip(*(one[name] for one in found), strict=True)
    low = sum(value < 0.93 for value in covers)
    return f"{min(covers):.3f} to {max(covers):.3f}", low, f"{np.mean(widths):.3f}"


def print_coverage(runs: int) -> None:
    print(
        "| labels | settings | corrected: covers | below 0.93 | width | labels alone: covers | width "
        "| judge alone: covers |"
    )
    print("|---:|---:|---|---:|---:|---|---:|---|")
    for labels in LABELS:
        found = [coverage(setting, labels, runs, seed) for seed, setting in enumerate(SETTINGS)]
        covers, low, width = columns(found, "corrected")
        by_labels, _, width_by_labels = columns(found, "labels alone")
        by_judge, *_ = columns(found, "judge alone")
        cells = (labels, len(found), covers, low, width, by_labels, width_by_labels, by_judge)
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def print_grades(runs: int) -> None:
    print("\n| labels | kinds of grades | corrected: covers | width | labels alone: covers | width |")
    print("|---:|---:|---|---:|---|---:|")
    estimates = {name: ESTIMATES[name] for name in ("corrected", "labels alone")}
    kinds = [Grades(shares, error) for shares, error in itertools.product(GRADES.values(), ERRORS)]
    for labels in LABELS:
        found = [coverage(grades, labels, runs, seed, estimates) for seed, grades in enumerate(kinds)]
        cells = [f"{covers} | {width}" for covers, _, width in (columns(found, name) for name in estimates)]
        print(f"| {labels} | {len(kinds)} | {' | '.join(cells)} |", flush=True)


def print_error_rates(runs: int) -> None:
    print("\n| labels | by sensitivity and specificity: covers | below 0.93 | width |\n|---:|---|---:|---:|")
    for labels in LABELS:
        found = [coverage(setting, labels, runs, seed, {"": error_rates}) for seed, setting in enumerate(SETTINGS)]
        covers, low, width = columns(found, "")
        print(f"| {labels} | {covers} | {low} of {len(found)} | {width} |", flush=True)


def print_comparisons(runs: int) -> None:
    print("\n| B against A | labels of each | the judge: different | corrected: different | the plan promised |")
    print("|---|---:|---:|---:|---:|")
    for name, gain, taste in (("as good, favoured", 0.0, TASTE), (f"better by {GAIN}", GAIN, 0.0)):
        for labels in LABELS[2:]:
            by_judge, corrected = called_different(gain, taste, labels, runs)
            plan = f"{promised(labels):.3f}" if gain else "at most 0.050"
            print(f"| {name} | {labels} | {by_judge:.3f} | {corrected:.3f} | {plan} |", flush=True)


def print_plans(audits: int) -> None:
    print(
        "\n| sensitivity | specificity | true claims | planned width | plans | by | labels | mean width "
        "| audits within 20% |\n|---:|---:|---:|---:|---:|---|---:|---:|---:|"
    )
    for setting in (COMPARED, Setting(0.8, 0.95, 0.5), Setting(0.95, 0.7, 0.9)):
        judge = f"{setting.sensitivity} | {setting.specificity} | {setting.true_share}"
        for width, plans in itertools.product(WIDTHS, (0, PLANS)):
            rows, widths = planned_widths(setting, width, plans, audits)
            near = np.mean(np.abs(widths / width - 1) <= 0.2)
            by = f"{PILOT} labels each" if plans else "agreement"
            print(
                f"| {judge} | {width} | {len(rows)} | {by} | {np.mean(rows):.0f} | {widths.mean():.3f} | {near:.1%} |",
                flush=True,
            )


def corrected_coverage(
    runs: Annotated[int, typer.Argument(min=10, help="How many audits to simulate for each setting.")] = 2_000,
    picture_file: Annotated[
        Path | None, typer.Option("--picture", help="Only draw the picture, into this PNG file.")
    ] = None,
) -> None:
    if picture_file is not None:
        write_bytes(picture_file, picture())
        return
    print_coverage(runs)
    print_grades(runs // 4)
    print_error_rates(runs // 4)
    print_comparisons(runs // 4)
    print_plans(runs // 10)


main = command_line(corrected_coverage, "experiments.corrected_coverage", __doc__)

if __name__ == "__main__":
    sys.exit(main())
