"""Finds which metrics are informative: what the scores of a metric show that other metrics do not.

It follows the analyses of CCRS (Muhamed 2025, arXiv:2506.20128): how many answers have the best value, how similarly
metrics rank the answers, and how many pairs of systems a metric tells apart.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from rag_zeval.decisions.comparison import DECIMALS
from rag_zeval.files import NONE, FieldTypes, Maybe, Row, check_fields, locate
from rag_zeval.results import READ, Judged, ResultFile, over_trials, read_judged
from rag_zeval.scorers.ccrs import CORRECTNESS, EXACT_MATCH_WEIGHT
from rag_zeval.scorers.registry import best_value, highest_value
from rag_zeval.statistics.bootstrap import (
    DRAWS,
    Clusters,
    Correlation,
    Mask,
    clusters_of,
    columns_of,
    grouped_share_interval,
    interval,
    mean_interval,
    score_interval,
)
from rag_zeval.statistics.discriminative_power import discriminative_power
from rag_zeval.statistics.weighted_correlations import Floats

MEAN, BEST, APART, TAU = "mean", "share at the best value", "pairs of systems told apart", "tau-b"
SAME, DIFFERENCE = "same score", "difference of means"
RECALL = "ccrs_ir"  # according to the paper, the metric closest to answer correctness
WEIGHTS = (0.0, 0.25, 0.5, EXACT_MATCH_WEIGHT, 1.0)  # of the exact match in `ccrs_ac`, for the ablation
MOST = 1_000  # most answers in a correlation: the time grows with the square of their number
RESAMPLES = DRAWS // 5
ROUNDING = 1e-9  # scores closer than this are the same
Key = tuple[str, str, str]  # case and question, system, and answer
Scores = Mapping[Key, float | None]
Texts = dict[tuple[str, str, str | None], tuple[object, ...]]  # of an answer, by metric, case and judge
OF_CORRECTNESS: FieldTypes = {"exact_match": bool, "judged": (int, float)}  # parts of an answer in `ccrs_ac`


@dataclass(frozen=True)
class Finding:
    """A number about one metric, about two metrics, or about two judges of one metric.

    other: the second metric or judge; "" if there is none. n: number of answers that it is computed from; for APART,
    number of pairs of systems. value: None if it is undefined. interval: the 95% interval, if there is one.
    """

    what: str
    metric: str
    other: str
    n: int
    value: float | None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class ScoreColumns:
    """The scores of each metric.

    If two files have different scores or judges of a metric for the same answer, the metric has one column for each
    file. judges: for each such metric, the names of its columns. If files hold several versions of a system, each
    version counts as a system of its own (see `_versions`).
    """

    scores: Mapping[str, Scores]
    judges: Mapping[str, Sequence[str]]


def read_columns(paths: Sequence[Path], weight: float | None = None) -> ScoreColumns:
    """Read the scores of result files.

    weight: the weight of the exact match with which to compute `ccrs_ac` again. None leaves its scores as they are.
    Raises InputError for a file that is no result file.
    """
    files = {str(path): read_judged(path) if weight is None else _weighed(path, weight) for path in paths}
    systems = _versions(files)
    by_metric: dict[str, dict[str, dict[Key, Judged]]] = defaultdict(dict)
    for file, of_file in files.items():
        for one in of_file:
            key = f"{one.case}: {one.question}", systems[file, one.system], one.answer
            by_metric[one.metric].setdefault(file, {})[key] = one
    columns: dict[str, Scores] = {}
    judges: dict[str, list[str]] = {}
    for metric, by_file in by_metric.items():
        together: dict[Key, Judged] = {}
        apart = False
        for judged in by_file.values():
            apart |= any(
                key in together and (one.score, one.judge) != (together[key].score, together[key].judge)
                for key, one in judged.items()
            )
            together |= judged
        parts = {f"{metric} ({file})": judged for file, judged in by_file.items()} if apart else {metric: together}
        columns |= {name: {key: one.score for key, one in judged.items()} for name, judged in parts.items()}
        if apart:
            judges[metric] = list(parts)
    return ScoreColumns(columns, judges)


def _versions(files: Mapping[str, Sequence[Judged]]) -> Mapping[tuple[str, str], str]:
    """Return the name of each file's systems.

    Two files may hold different versions of a system under one name: the same judge then judged other answers to a
    case, or by other texts. The name of a version is the system's, with that of the first file that holds it.
    """
    versions: dict[str, dict[str, Texts]] = defaultdict(dict)  # by system and first file
    first: dict[tuple[str, str], str] = {}
    for file, judged in files.items():
        texts: dict[str, Texts] = defaultdict(dict)
        for one in judged:
            texts[one.system][one.metric, one.case, one.judge] = (one.question, one.answer, *one.sources)
        for system, mine in texts.items():
            alike = {
                name: len({*theirs.values()} & {*mine.values()})
                for name, theirs in versions[system].items()
                if all(theirs[key] == mine[key] for key in theirs.keys() & mine.keys())
            }
            first[file, system] = name = max(alike, key=lambda name: alike[name], default=file)
            versions[system].setdefault(name, {}).update(mine)
    return {
        (file, system): f"{system} ({name})" if len(versions[system]) > 1 else system
        for (file, system), name in first.items()
    }


def _weighed(path: Path, weight: float) -> list[Judged]:
    """Read the answers of a file, and compute `ccrs_ac` with another weight of the exact match."""

    def rows() -> Iterator[Row]:
        for row in ResultFile(path, {**READ, "parts": {"answers": Maybe((list, NONE))}}):
            if row["metric"] == CORRECTNESS.name:
                made_of_each = row["parts"].get("answers") or []
                for at, score in enumerate(row["scores"]):
                    if score is not None:
                        with locate(f"{path}: row {row['id']!r}"):
                            made_of = check_fields([*made_of_each[at:], {}][0], OF_CORRECTNESS)
                        row["scores"][at] = weight * made_of["exact_match"] + (1 - weight) * made_of["judged"]
            yield row

    return over_trials(rows())


def of_metric(name: str, scores: Scores) -> list[Finding]:
    """Return a metric's mean, the share of answers with its best value, and the share of system pairs told apart."""
    known = {key: score for key, score in scores.items() if score is not None}
    n = len(known)
    if not n:
        return [Finding(what, name, "", 0, None) for what in (MEAN, BEST)]
    by_case: dict[str, list[float]] = defaultdict(list)
    for (case, _, _), score in known.items():
        by_case[case].append(score)
    best = best_value(name.partition(" ")[0])
    perfect = [[abs(score - best) < ROUNDING for score in of_case] for of_case in by_case.values()]
    bounds = score_interval([*by_case.values()], highest_value(name.partition(" ")[0]))
    found = [
        Finding(MEAN, name, "", n, sum(known.values()) / n, bounds),
        Finding(BEST, name, "", n, sum(map(sum, perfect)) / n, grouped_share_interval(perfect)),
    ]
    by_system: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (case, system, _), score in known.items():
        by_system[system][case].append(score)  # several if two files have other answers of one system
    if len(by_system) > 1:
        share, pairs = discriminative_power(
            {
                system: [round(fmean(of_case[case]), DECIMALS) if case in of_case else None for case in by_case]
                for system, of_case in by_system.items()
            }
        )
        found.append(Finding(APART, name, "", len(pairs), share))
    return found


@dataclass(frozen=True, eq=False)
class ClusteredCorrelation(Correlation):
    """A correlation whose bootstrap resamples whole cases, each with all its answers."""

    clusters: Clusters

    def draws(self, keep: Mask, weights: Floats) -> Floats:
        return super().draws(keep, weights[:, columns_of(self, keep)])


def correlation(first: str, second: str, columns: Mapping[str, Scores]) -> Finding:
    """Return Kendall's tau-b of two metrics over the answers that both scored, with a bootstrap interval over cases.

    If there are more than MOST answers, it is computed from whole cases, drawn at random, with at most MOST answers.
    """
    keys = _some([key for key, _, _ in _both(first, second, columns)])
    x, y = (np.array([columns[name][key] for key in keys], dtype=float) for name in (first, second))
    _, cases = clusters_of([case for case, _, _ in keys])
    tau, everything = ClusteredCorrelation("kendall", x, y[:, None], cases), np.ones(len(keys), dtype=bool)
    value = tau.point(everything)
    if np.isnan(value):
        return Finding(TAU, first, second, len(keys), None)
    return Finding(TAU, first, second, len(keys), value, interval(tau, everything, RESAMPLES, seed=0))


def _both(first: str, second: str, columns: Mapping[str, Scores]) -> list[tuple[Key, float, float]]:
    """Return the answers that have both scores, with the two scores."""
    found = ((key, score, columns[second].get(key)) for key, score in columns[first].items())
    return [(key, one, other) for key, one, other in found if one is not None and other is not None]


def _some(keys: Sequence[Key]) -> Sequence[Key]:
    if len(keys) <= MOST:
        return keys
    by_case: dict[str, list[Key]] = defaultdict(list)
    for key in keys:
        by_case[key[0]].append(key)
    cases = list(by_case)
    random.Random(0).shuffle(cases)
    chosen: list[Key] = []
    for case in cases:
        if len(chosen) + len(by_case[case]) <= MOST:
            chosen += by_case[case]
    return chosen


def of_judges(first: str, second: str, columns: Mapping[str, Scores]) -> list[Finding]:
    """Return how far two judges of a metric agree: tau-b, the share of equal scores, and the mean of second - first.

    Empty if no answer has both scores.
    """
    both = _both(first, second, columns)
    if not both:
        return []
    by_case: dict[str, list[float]] = defaultdict(list)
    for (case, _, _), one, other in both:
        by_case[case].append(other - one)
    same = [[abs(apart) < ROUNDING for apart in of_case] for of_case in by_case.values()]
    apart = sum(other - one for _, one, other in both) / len(both)
    bounds = mean_interval([*by_case.values()])
    return [
        correlation(first, second, columns),
        Finding(SAME, first, second, len(both), sum(map(sum, same)) / len(both), grouped_share_interval(same)),
        Finding(DIFFERENCE, first, second, len(both), apart, bounds),
    ]


def weights_of_exact_match(paths: Sequence[Path]) -> Iterator[tuple[float, list[Finding]]]:
    """Yield each of WEIGHTS with the findings about `ccrs_ac` under this weight, its tau-b with RECALL among them.

    Nothing if `ccrs_ac` is not one column, and no weight under which it is not.
    """
    if CORRECTNESS.name not in read_columns(paths).scores:
        return
    for weight in WEIGHTS:
        columns = read_columns(paths, weight).scores
        if CORRECTNESS.name not in columns:  # files with the same scores may be made of other parts
            continue
        found = of_metric(CORRECTNESS.name, columns[CORRECTNESS.name])
        if RECALL in columns:
            found.append(correlation(CORRECTNESS.name, RECALL, columns))
        yield weight, found
