"""Measures how steady a system is: how much the scores of its repeated answers to the same questions vary.

Runs are the repetitions of a question in one result file (open-rag-eval's `query_run`, or equal questions), or several
result files. The method follows open-rag-eval 0.3.0 (its evaluators/consistency_evaluator.py), which compares the
answers of three runs or more. We add the spread and the agreement of ranks, and leave out BERTScore between answers.
"""

import itertools
import random
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rag_zeval.decisions.sides import check_different, file_and_system, read_sides, shared_metrics
from rag_zeval.decisions.wording import edits
from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.results import Judged, read_judged
from rag_zeval.scorers.overlap import RougeL, plain_words
from rag_zeval.scorers.registry import highest_value
from rag_zeval.statistics.bootstrap import (
    DRAWS,
    Correlation,
    Mask,
    Statistic,
    consistency,
    interval,
    mean_interval,
    score_interval,
)
from rag_zeval.statistics.weighted_correlations import Floats

ANSWERS, ALL_FILES = "answers (ROUGE-L)", "all files"
MOST = 1_000  # most questions whose ranks are compared: the time grows with the square of their number
RESAMPLES = DRAWS // 5
ROUNDING = 1e-9  # a spread below this is none: NumPy finds one of 1e-17 for 0.1, 0.1, 0.1
Run = tuple[int, int]  # index of the file, and number of the answer among those to its question in it
Runs = Mapping[str, Mapping[Run, Judged]]  # by question
Scores = Mapping[str, Mapping[Run, float]]
Estimate = tuple[float, tuple[float, float] | None] | None  # a value and its 95% interval, if there is one


@dataclass(frozen=True)
class Steadiness:
    """How steady a system is by one metric over its runs. Only questions with two scores or more count.

    mean: of all scores. spread: standard deviation of a question's scores (divided by n), averaged over questions.
    index: `statistics.bootstrap.consistency`, averaged over questions with three scores or more. ranks: Kendall's tau-b
    of the questions' scores in two runs, averaged over pairs of runs; only questions with a score in every run count.
    widest: the questions with the largest spread above 0, and their scores. For ANSWERS, the scores of a question are
    the similarities of each two of its answers, and `ranks` is None. Two answers have one similarity, which counts in
    the mean but has no spread.
    """

    system: str
    metric: str
    runs: int
    questions: int
    mean: Estimate
    spread: Estimate
    index: Estimate
    ranks: Estimate
    widest: Sequence[tuple[str, Sequence[float]]]


@dataclass(frozen=True, eq=False)
class MeanCorrelation(Statistic):
    """The mean of several correlations over the same instances."""

    correlations: Sequence[Correlation]

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        mean: Floats = np.mean([one.draws(keep, weights) for one in self.correlations], axis=0)
        return mean


def steadiness(specs: Sequence[str], widest: int) -> Iterator[Steadiness]:
    """Yield the steadiness of each system: first of its answers, then by each metric.

    specs: one `FILE` with repeated questions, or several `FILE` or `FILE#SYSTEM` that are runs of one system. widest:
    number of questions to name. Prints a note that names edited questions, which are left out. Raises InputError as
    `read_sides` and `check_different` do, and if no question was answered twice.
    """
    check_different("consistency", specs)
    systems = _systems(specs)
    if not any(len(runs) > 1 for metrics in systems.values() for found in metrics.values() for runs in found.values()):
        raise InputError(
            f"{', '.join(specs)}: no question was answered twice by one system. Ask the system again, evaluate each "
            "run, and name all result files"
        )
    rouge = RougeL()
    for system, metrics in systems.items():
        first = next(iter(metrics.values()))
        runs = len({run for by_run in first.values() for run in by_run})
        texts = {
            question: next(iter(by_run.values())).question
            for by_question in metrics.values()
            for question, by_run in by_question.items()
        }
        alike: Scores = {question: _similarities(rouge, by_run.values()) for question, by_run in first.items()}
        yield _steadiness(system, ANSWERS, runs, alike, texts, widest)
        for metric, by_question in metrics.items():
            scores: Scores = {
                question: {run: one.score for run, one in by_run.items() if one.score is not None}
                for question, by_run in by_question.items()
            }
            yield _steadiness(system, metric, runs, scores, texts, widest)


def _steadiness(
    system: str, metric: str, runs: int, scores: Scores, texts: Mapping[str, str], widest: int
) -> Steadiness:
    least = 1 if metric == ANSWERS else 2
    repeated = {question: [*by_run.values()] for question, by_run in scores.items() if len(by_run) >= least}
    spreads = {question: float(np.std(values)) for question, values in repeated.items() if len(values) > 1}
    indices = [[index] for values in repeated.values() if (index := consistency(values)) is not None]
    varied = (question for question, spread in spreads.items() if spread > ROUNDING)
    ranked = sorted(varied, key=lambda question: (-spreads[question], question))[:widest]
    return Steadiness(
        system,
        metric,
        runs,
        len(repeated),
        _mean([*repeated.values()], partial(score_interval, highest=highest_value(metric))),
        _mean([[spread] for spread in spreads.values()]),
        _mean(indices),
        None if metric == ANSWERS else _ranks(scores),
        [(texts[question], repeated[question]) for question in ranked],
    )


def _systems(specs: Sequence[str]) -> Mapping[str, Mapping[str, Runs]]:
    """Return the runs of each system by metric. Several files are runs of one system, which is called ALL_FILES."""
    path, system = file_and_system(specs[0])
    if len(specs) == 1 and not system:
        judged: dict[str, dict[str, dict[str, Judged]]] = defaultdict(lambda: defaultdict(dict))
        for one in read_judged(path):
            judged[one.system][one.metric][one.case] = one
        return {
            name: {metric: _by_question([by_case]) for metric, by_case in metrics.items()}
            for name, metrics in judged.items()
        }
    sides = read_sides(specs)
    if said := edits(sides[0].edited, "the files"):
        print(f"note: {said}", file=sys.stderr)
    metrics = shared_metrics(sides)
    name = ALL_FILES if len(specs) > 1 else system
    return {name: {metric: _by_question([side.judged[metric] for side in sides]) for metric in metrics}}


def _by_question(files: Sequence[Mapping[str, Judged]]) -> Runs:
    found: dict[str, dict[Run, Judged]] = defaultdict(dict)
    for at, by_case in enumerate(files):
        for case, one in by_case.items():
            question, number = _repetition(case, by_case)
            found[question][at, number] = one
    return {question: dict(sorted(runs.items())) for question, runs in found.items()}  # files hold rows in any order


def _repetition(case: str, by_case: Mapping[str, Judged]) -> tuple[str, int]:
    """Split the id of a repeated question, such as "17#2", into the question's id and its number.

    Any other id is returned whole, with the number 1.
    """
    if numbered := re.fullmatch(r"(.+)#([1-9]\d*)", case):
        first = by_case.get(numbered[1]) or by_case.get(f"{numbered[1]}#1")
        if first is not None and first.question == by_case[case].question:
            return numbered[1], int(numbered[2])
    return case, 1


def _similarities(rouge: RougeL, runs: Iterable[Judged]) -> Mapping[Run, float]:
    """Return the ROUGE-L of each two answers to a question. Answers without a word are left out."""
    pairs = itertools.combinations(enumerate(one for one in runs if plain_words(one.answer)), 2)
    return {
        (i, j): rouge.value(Example(one.case, one.question, one.answer, (other.answer,)), other.answer)
        for (i, one), (j, other) in pairs
    }


def _mean(
    groups: Sequence[Sequence[float]],
    interval_of: Callable[[Sequence[Sequence[float]]], tuple[float, float] | None] = mean_interval,
) -> Estimate:
    values = [value for group in groups for value in group]
    if not values:
        return None
    return sum(values) / len(values), interval_of(groups)


def _ranks(scores: Scores) -> Estimate:
    runs = {run for by_run in scores.values() for run in by_run}
    complete = [question for question, by_run in scores.items() if by_run.keys() == runs]
    if len(complete) > MOST:
        complete = random.Random(0).sample(complete, MOST)
    columns = [np.array([scores[question][run] for question in complete]) for run in sorted(runs)]
    pairs = [Correlation("kendall", x, y[:, None]) for x, y in itertools.combinations(columns, 2)]
    if len(complete) < 2 or not pairs:
        return None
    statistic, everything = MeanCorrelation(pairs), np.ones(len(complete), dtype=bool)
    value = statistic.point(everything)
    return None if np.isnan(value) else (value, interval(statistic, everything, RESAMPLES, seed=0))
