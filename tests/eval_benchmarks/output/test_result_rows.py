"""What trials say together: rows of summary.json, and the paired tests of comparisons.json."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from eval_benchmarks.benchmark import MeanOfMetrics, Metric, mean_metric
from eval_benchmarks.datasets.ragchecker_meta import RagcheckerMeta
from eval_benchmarks.output import comparisons, summary
from eval_benchmarks.output.bench_report import make_report
from eval_benchmarks.output.comparisons import PairedTest, comparison_rows, paired_test
from eval_benchmarks.output.summary import summary_rows
from eval_benchmarks.trials import BenchResults, Trial, group_trials
from rag_zeval.files import Row
from rag_zeval.statistics.bootstrap import Correlation, multiplicities

DRAWS = 200


def rows_of(trials: list[Trial], metric: str, draws: int = 200) -> list[Row]:
    rows = summary_rows(BenchResults(group_trials(trials), draws))
    assert all(list(row) == summary.KEYS for row in rows)
    return [row for row in rows if row["metric"] == metric and row["scorer"] == "judge"]


@pytest.fixture(scope="session")
def trial(score_by: Any, make_trial: Any) -> Any:
    """A trial in which example number i has the scores 0 and value(i)."""

    def make(benchmark: Any, number: int, value: Callable[[int], float | None], **names: Any) -> Trial:
        costs = {"calls": 2, "retries": 1, "failures": 1, "cached": 3, "seconds": 0.5}
        return make_trial(benchmark, score_by(benchmark, lambda i: (0.0, value(i)), **costs), number=number, **names)

    return make


trial_values = st.lists(st.sampled_from([None, 1.0, -1.0, 0.0]), min_size=6, max_size=6).filter(any)


@settings(max_examples=20, deadline=None)
@given(scores=st.lists(trial_values, min_size=2, max_size=3))
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
    for times in multiplicities(len(there), 200, seed=0).astype(int):
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
    rows = summary_rows(BenchResults(group_trials([trial(benchmark, 0, float)]), 50))
    (row,) = [row for row in rows if (row["scorer"], row["metric"]) == ("human", "spearman")]
    assert row["value"] == pytest.approx(stats.spearmanr(*benchmark.labels.T).statistic)
    assert (row["model"], row["n"], row["coverage"], row["calls"], row["files"]) == (None, 12, 1, None, [])


def textbook(n: int, first: Any, second: Any) -> tuple[float, list[float], float]:
    """Difference, its draws and the p-value, one resample at a time; `first` and `second` take a list of instances."""
    seen = first(np.arange(n)) - second(np.arange(n))
    draws = []
    for times in multiplicities(n, DRAWS, seed=0).astype(int):
        taken = np.repeat(np.arange(n), times)
        draws.append(first(taken) - second(taken))
    return seen, draws, (1 + sum(abs(draw - seen) > abs(seen) - 1e-9 for draw in draws)) / (1 + len(draws))


def check(test: PairedTest | None, seen: float, draws: list[float], p: float) -> None:
    assert test is not None and test.p == pytest.approx(p)
    assert test.difference == pytest.approx(seen)
    assert test.interval == pytest.approx(tuple(np.percentile(draws, [2.5, 97.5])))


@pytest.mark.parametrize("trials", [1, 2])
def test_a_mean_is_tested_by_all_ways_to_exchange_the_scorers(trials: int) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5, (trials, 7)) / 4, rng.integers(0, 4, (trials, 7)) / 4
    d = first.mean(0) - second.mean(0)
    exchanged = [abs(np.mean(d * signs)) for signs in itertools.product((1, -1), repeat=7)]
    ours, theirs = (
        Metric("m", MeanOfMetrics(tuple(mean_metric("m", one.tolist()) for one in each)), np.ones(7, dtype=bool))
        for each in (first, second)
    )
    test = paired_test(ours, theirs, DRAWS)
    seen, draws, _ = textbook(7, lambda taken: first[:, taken].mean(), lambda taken: second[:, taken].mean())
    check(test, seen, draws, np.mean([value >= abs(d.mean()) - 1e-12 for value in exchanged]))


def test_few_instances_say_nothing_of_a_correlation() -> None:
    labels = np.array([[-2.0, -1.0], [0.0, 1.0], [2.0, 2.0]])
    ours, theirs = (
        Metric("pearson", Correlation("pearson", np.array(x), labels), np.ones(3, dtype=bool))
        for x in ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0])
    )
    test = paired_test(ours, theirs, DRAWS)
    assert test and test.difference > 0 and test.p is None


def test_a_correlation_is_tested_as_by_a_textbook_loop_on_what_both_scored() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(-2, 3, size=(25, 2)).astype(float)
    first, second = (labels.mean(1) + rng.normal(size=25) * noise for noise in (0.5, 2))
    first[3] = second[7] = np.nan
    both = np.flatnonzero(~np.isnan(first + second))

    def kendall(x: Any, taken: Any) -> float:
        return float(stats.kendalltau(np.repeat(x[both[taken]], 2), labels[both[taken]].ravel()).statistic)

    ours, theirs = (Metric("kendall", Correlation("kendall", x, labels), ~np.isnan(x)) for x in (first, second))
    test = paired_test(ours, theirs, DRAWS)
    check(test, *textbook(23, lambda taken: kendall(first, taken), lambda taken: kendall(second, taken)))


scores = st.lists(st.none() | st.integers(0, 4).map(lambda i: i / 4), min_size=12, max_size=12)


@settings(max_examples=50, deadline=None)
@given(scores, scores)
def test_exchanging_the_scorers_negates_the_difference_and_keeps_p(first: Any, second: Any) -> None:
    one, other = mean_metric("m", first), mean_metric("m", second)
    test, back = paired_test(one, other, DRAWS), paired_test(other, one, DRAWS)
    if test is None:
        assert back is None and not (one.scored & other.scored).any()
        return
    assert back is not None
    assert back.difference == -test.difference
    if (one.scored & other.scored).sum() == 1:
        assert test.interval is back.interval is None and test.p == 1
    else:
        assert test.interval and back.interval == pytest.approx((-test.interval[1], -test.interval[0]))
    assert back.p == test.p
    assert test.p is not None and 1 / (DRAWS + 1) <= test.p <= 1


@pytest.fixture
def random_trial(score_by: Any, make_trial: Any) -> Any:
    """A trial with scores by chance, none without a seed."""

    def make(benchmark: RagcheckerMeta, scorer: str, model: str | None, seed: int | None) -> Trial:
        rng = np.random.default_rng(seed)
        scored = score_by(benchmark, lambda i: rng.random(2).tolist() if seed else None)
        return make_trial(benchmark, scored, scorer, model)

    return make


def test_each_scorer_is_tested_against_the_last_rag_zeval_as_one_family(
    write_ragchecker: Any, random_trial: Any
) -> None:
    """A model with which RAG-Zeval gave no score is not that last one."""
    benchmark = RagcheckerMeta(write_ragchecker(30))
    others = [("bleu", None, 1), ("rag_zeval", "base", 2), ("ragas", "M", 3), ("rag_zeval", "silent", None)]
    judge = random_trial(benchmark, "rag_zeval", "judge", 9)
    trials = [*(random_trial(benchmark, *names) for names in others[:3]), judge, random_trial(benchmark, *others[3])]
    rows = comparison_rows(BenchResults(group_trials(trials), DRAWS))
    assert all(list(row) == comparisons.KEYS for row in rows)
    for metric in ("pearson", "kendall_missing_as_median"):
        family = [row for row in rows if row["metric"] == metric]
        assert [(row["minus_scorer"], row["minus_model"]) for row in family] == [names[:2] for names in others]
        assert {(row["scorer"], row["model"]) for row in family} == {("rag_zeval", "judge")}
        silent = family.pop()
        assert (silent["difference"], silent["p"], silent["p_holm"], silent["n"]) == (None, None, None, 0)
        ps = sorted(row["p"] for row in family)
        stepped = np.maximum.accumulate([min(1, p * (3 - rank)) for rank, p in enumerate(ps)])
        assert sorted(row["p_holm"] for row in family) == pytest.approx(list(stepped))
    metrics = {m.name: m for m in benchmark.metrics(judge.scored)}
    bleu = {m.name: m for m in benchmark.metrics(trials[0].scored)}
    test = paired_test(metrics["spearman"], bleu["spearman"], DRAWS)
    (row,) = [row for row in rows if (row["metric"], row["minus_scorer"]) == ("spearman", "bleu")]
    assert test and test.interval
    assert (row["difference"], row["ci_low"], row["p"]) == (test.difference, test.interval[0], test.p)


def test_without_scores_of_rag_zeval_nothing_is_tested_and_a_note_says_so(
    write_ragchecker: Any, random_trial: Any
) -> None:
    benchmark = RagcheckerMeta(write_ragchecker())
    trials = [random_trial(benchmark, "bleu", None, 1), random_trial(benchmark, "rag_zeval", "silent", None)]
    report = make_report(BenchResults(group_trials(trials), DRAWS), [])
    assert report.comparisons == []
    assert report.notes[0] == "ragchecker_meta: no tests against RAG-Zeval, because it has no scores here"
