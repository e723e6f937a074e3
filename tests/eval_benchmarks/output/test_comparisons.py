from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from eval_benchmarks.benchmark import MeanOfMetrics, Metric, mean_metric
from eval_benchmarks.datasets.ragchecker_meta import RagcheckerMeta
from eval_benchmarks.output.comparisons import KEYS, PairedTest, comparison_rows, paired_test
from eval_benchmarks.output.run_files import make_report
from eval_benchmarks.trials import BenchResults, Trial, group_trials
from rag_zeval.statistics.bootstrap import Correlation, multiplicities

DRAWS, SEED = 200, 3


def textbook(n: int, first: Any, second: Any) -> tuple[float, list[float], float]:
    """Difference, its draws and the p-value, one resample at a time; `first` and `second` take a list of instances."""
    seen = first(np.arange(n)) - second(np.arange(n))
    draws = []
    for times in multiplicities(n, DRAWS, SEED).astype(int):
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
    test = paired_test(ours, theirs, DRAWS, SEED)
    seen, draws, _ = textbook(7, lambda taken: first[:, taken].mean(), lambda taken: second[:, taken].mean())
    check(test, seen, draws, np.mean([value >= abs(d.mean()) - 1e-12 for value in exchanged]))


def test_few_instances_say_nothing_of_a_correlation() -> None:
    labels = np.array([[-2.0, -1.0], [0.0, 1.0], [2.0, 2.0]])
    ours, theirs = (
        Metric("pearson", Correlation("pearson", np.array(x), labels), np.ones(3, dtype=bool))
        for x in ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0])
    )
    test = paired_test(ours, theirs, DRAWS, SEED)
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
    test = paired_test(ours, theirs, DRAWS, SEED)
    check(test, *textbook(23, lambda taken: kendall(first, taken), lambda taken: kendall(second, taken)))


scores = st.lists(st.none() | st.integers(0, 4).map(lambda i: i / 4), min_size=12, max_size=12)


@settings(max_examples=50, deadline=None)
@given(scores, scores)
def test_exchanging_the_scorers_negates_the_difference_and_keeps_p(first: Any, second: Any) -> None:
    one, other = mean_metric("m", first), mean_metric("m", second)
    test, back = paired_test(one, other, DRAWS, SEED), paired_test(other, one, DRAWS, SEED)
    if test is None:
        assert back is None and not (one.scored & other.scored).any()
        return
    assert back is not None
    assert back.difference == -test.difference
    assert back.interval == pytest.approx((-test.interval[1], -test.interval[0]))
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
    benchmark = RagcheckerMeta(write_ragchecker(30))
    others = [("bleu", None, 1), ("rag_zeval", "base", 2), ("ragas", "M", 3), ("silent", "M", None)]
    trials = [random_trial(benchmark, *names) for names in (*others, ("rag_zeval", "judge", 9))]
    rows = comparison_rows(BenchResults(group_trials(trials), DRAWS, SEED))
    assert all(list(row) == KEYS for row in rows)
    for metric in ("pearson", "kendall_missing_as_median"):
        family = [row for row in rows if row["metric"] == metric]
        assert [(row["minus_scorer"], row["minus_model"]) for row in family] == [names[:2] for names in others]
        assert {(row["scorer"], row["model"]) for row in family} == {("rag_zeval", "judge")}
        silent = family.pop()
        assert (silent["difference"], silent["p"], silent["p_holm"], silent["n"]) == (None, None, None, 0)
        ps = sorted(row["p"] for row in family)
        stepped = np.maximum.accumulate([min(1, p * (3 - rank)) for rank, p in enumerate(ps)])
        assert sorted(row["p_holm"] for row in family) == pytest.approx(list(stepped))
    metrics = {m.name: m for m in benchmark.metrics(trials[-1].scored)}
    bleu = {m.name: m for m in benchmark.metrics(trials[0].scored)}
    test = paired_test(metrics["spearman"], bleu["spearman"], DRAWS, SEED)
    (row,) = [row for row in rows if (row["metric"], row["minus_scorer"]) == ("spearman", "bleu")]
    assert test and (row["difference"], row["ci_low"], row["p"]) == (test.difference, test.interval[0], test.p)


def test_without_rag_zeval_nothing_is_tested_and_a_note_says_so(write_ragchecker: Any, random_trial: Any) -> None:
    trial = random_trial(RagcheckerMeta(write_ragchecker()), "bleu", None, 1)
    report = make_report(BenchResults(group_trials([trial]), DRAWS, SEED), [])
    assert report.comparisons == []
    assert report.notes[0] == "ragchecker_meta: no tests against RAG-Zeval, because it has no scores here"
