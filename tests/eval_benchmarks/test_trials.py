from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from eval_benchmarks.datasets.ragchecker_meta import RagcheckerMeta
from eval_benchmarks.output.summary import KEYS, summary_rows
from eval_benchmarks.trials import BenchResults, Trial, group_trials
from rag_zeval.files import Row
from rag_zeval.statistics.bootstrap import multiplicities


def rows_of(trials: list[Trial], metric: str, draws: int = 200) -> list[Row]:
    rows = summary_rows(BenchResults(group_trials(trials), draws, 7))
    assert all(list(row) == KEYS for row in rows)
    return [row for row in rows if row["metric"] == metric and row["scorer"] == "judge"]


@pytest.fixture(scope="session")
def trial(score_by: Any, make_trial: Any) -> Any:
    """A trial in which example number i has the scores 0 and value(i)."""

    def make(benchmark: Any, number: int, value: Callable[[int], float | None], **names: Any) -> Trial:
        costs = {"calls": 2, "retries": 1, "failures": 1, "cached": 3, "seconds": 0.5}
        return make_trial(benchmark, score_by(benchmark, lambda i: (0.0, value(i)), **costs), number=number, **names)

    return make


values = st.lists(st.sampled_from([None, 1.0, -1.0, 0.0]), min_size=6, max_size=6).filter(any)


@settings(max_examples=20, deadline=None)
@given(scores=st.lists(values, min_size=2, max_size=3))
def test_trials_are_one_row_whose_draws_take_the_same_instances_for_all(pairs: Any, trial: Any, scores: Any) -> None:
    """Against a loop: the mean over trials of the mean of what each scored, instances drawn once for all."""
    (row,) = rows_of([trial(pairs(6), number, own.__getitem__) for number, own in enumerate(scores)], "second")
    table = np.array(scores, float).T
    means = np.nanmean(table, axis=0)
    assert row["value"] == pytest.approx(means.mean())
    assert row["sd"] == pytest.approx(means.std(ddof=1))
    assert row["coverage"] == pytest.approx((~np.isnan(table)).mean())
    there = table[~np.isnan(table).all(1)]
    assert (row["n"], row["trials"]) == (len(there), len(scores))
    loop = []
    for times in multiplicities(len(there), 200, 7).astype(int):
        sample = np.repeat(there, times, axis=0)
        if not np.isnan(sample).all(0).any():
            loop.append(np.nanmean(sample, axis=0).mean())
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(np.percentile(loop, [2.5, 97.5])))


def test_a_difference_is_taken_on_what_both_judges_scored(pairs: Any, trial: Any) -> None:
    scores = {"A": {0: 1.0, 1: 0.0, 2: 1.0}, "B": {1: 1.0, 2: 1.0, 3: 0.0}}
    rows = rows_of([trial(pairs(4), 0, own.get, model=model) for model, own in scores.items()], "second")
    assert [(row["model"], row["value"], row["n"], row["coverage"]) for row in rows] == [
        ("A", pytest.approx(2 / 3), 3, 0.75),
        ("B", pytest.approx(2 / 3), 3, 0.75),
        ("B minus A", 0.5, 2, 0.5),
    ]


def test_a_trial_without_a_value_is_no_part_of_the_mean(write_ragchecker: Any, trial: Any) -> None:
    benchmark = RagcheckerMeta(write_ragchecker())
    scored, constant, silent = (
        trial(benchmark, number, value) for number, value in enumerate([float, lambda i: 1.0, lambda i: None])
    )
    (alone,) = rows_of([scored], "pearson")
    (row,) = rows_of([scored, constant, silent], "pearson")
    assert (row["value"], row["sd"], row["trials"]) == (alone["value"], None, 3)
    assert row["coverage"] == pytest.approx(2 / 3)
    (none,) = rows_of([constant, silent], "pearson")
    assert (none["value"], none["ci_low"], none["sd"]) == (None, None, None)


def test_a_row_carries_what_it_cost_and_where_it_comes_from(write_ragchecker: Any, trial: Any) -> None:
    benchmark = RagcheckerMeta(write_ragchecker())
    (row,) = rows_of([trial(benchmark, number, float) for number in (1, 0)], "pearson")
    costs = [row[name] for name in ("calls", "cached", "retries", "failures", "seconds")]
    assert costs == [48, 72, 24, 24, 12.0]
    assert (row["prompt_hash"], row["data_hash"]) == ("hash", benchmark.data_hash)
    assert row["files"] == ["rows/judge-M-0.jsonl", "rows/judge-M-1.jsonl"]
    other = trial(benchmark, 0, lambda i: -float(i), model="N")
    first, second, difference = rows_of([trial(benchmark, 0, float), other], "pearson")
    assert difference["files"] == [*first["files"], *second["files"]]
    assert difference["files"] == ["rows/judge-M-0.jsonl", "rows/judge-N-0.jsonl"]
    assert (difference["calls"], difference["sd"], difference["trials"]) == (None, None, None)


def test_trials_of_models_that_come_between_others_stay_together(write_ragchecker: Any, trial: Any) -> None:
    benchmark = RagcheckerMeta(write_ragchecker())
    names = [("judge", "M", 0), ("other", "M", 0), ("judge", "N", 0), ("judge", "M", 1)]
    trials = [trial(benchmark, number, float, scorer=scorer, model=model) for scorer, model, number in names]
    grouped = {one.name: len(one.trials) for one in group_trials(trials)}
    assert [*grouped.items()] == [("judge by M", 2), ("other by M", 1), ("judge by N", 1)]


def test_annotators_are_a_row_of_their_own(write_ragchecker: Any, trial: Any) -> None:
    benchmark = RagcheckerMeta(write_ragchecker())
    rows = summary_rows(BenchResults(group_trials([trial(benchmark, 0, float)]), 50, 0))
    (row,) = [row for row in rows if (row["scorer"], row["metric"]) == ("human", "spearman")]
    assert row["value"] == pytest.approx(stats.spearmanr(*benchmark.labels.T).statistic)
    assert (row["model"], row["n"], row["coverage"], row["calls"], row["files"]) == (None, 12, 1, None, [])
