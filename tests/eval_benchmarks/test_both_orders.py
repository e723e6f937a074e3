import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_benchmarks.both_orders import BothOrders, has_pairs
from eval_benchmarks.datasets.nano_eval import NanoEval

score = st.none() | st.integers(0, 3).map(lambda i: i / 3)
pair = st.tuples(score, score)


@pytest.fixture(scope="session")
def metrics_of(pairs: Any, score_by: Any) -> Any:
    """Value and n of each metric; `exchanged` are the scores in the order shown."""

    def measure(original: Any, exchanged: Any) -> dict[str, tuple[float, int]]:
        benchmark = pairs(len(original))
        both = BothOrders(benchmark, score_by(benchmark, original.__getitem__))
        assert [e.answers for e in both.examples] == [e.answers[::-1] for e in benchmark.examples]
        metrics = both.metrics(score_by(both, exchanged.__getitem__))
        return {m.name: (m.value, m.n) for m in metrics if m.scored.any()}

    return measure


def test_a_flip_is_another_decision_and_a_tie_is_a_decision(metrics_of: Any) -> None:
    original = [(1.0, 0.0), (1.0, 0.0), (0.5, 0.5), (0.5, 0.5), (None, 1.0)]
    exchanged = [(0.0, 1.0), (1.0, 0.0), (0.5, 0.5), (1.0, 0.5), (1.0, 0.0)]
    metrics = metrics_of(original, exchanged)
    assert metrics["flip_rate"] == (0.5, 4)  # the second and the fourth
    assert metrics["first_minus_second"] == (pytest.approx((0 + 1 + 0 + 0.25) / 4), 4)
    assert metrics["first"] == (pytest.approx((1 + 0.5 + 0.5 + 0.5) / 4), 4)


@given(values=st.lists(pair, min_size=1, max_size=8))
def test_a_judge_that_does_not_see_the_place_has_no_bias(metrics_of: Any, values: Any) -> None:
    metrics = metrics_of(values, [both[::-1] for both in values])
    whole = [both for both in values if None not in both]
    if not whole:
        assert metrics == {}
        return
    assert metrics["flip_rate"] == metrics["first_minus_second"] == (0, len(whole))
    assert metrics["first"] == (pytest.approx(np.mean([first for first, _ in whole])), len(whole))


@given(values=st.lists(st.tuples(pair, pair), min_size=1, max_size=8))
def test_which_order_came_first_does_not_matter(metrics_of: Any, values: Any) -> None:
    original, exchanged = ([both[i] for both in values] for i in (0, 1))
    one, other = metrics_of(original, exchanged), metrics_of(exchanged, original)
    assert one.keys() == other.keys()
    for name in ("flip_rate", "first_minus_second"):
        if name in one:
            assert one[name] == pytest.approx(other[name])


def test_a_benchmark_of_more_than_two_answers_is_not_exchanged(pairs: Any) -> None:
    assert has_pairs(pairs(2)) and not has_pairs(NanoEval(1, 1, 1))


def test_judges_are_asked_in_both_orders_on_request_only(first_is_right: Any, wikieval: Any, out: Path) -> None:
    run = wikieval(*[{}] * 4)
    words = ["scorers=[bleu,rag_zeval]", f"models=['{first_is_right.spec()}']", "judge.variant=paper"]

    def rows() -> dict[Any, Any]:
        summary = json.loads((out / "summary.json").read_text())
        return {(row["benchmark"], row["scorer"], row["metric"]): row for row in summary}

    assert run(*words) == 0
    assert len(first_is_right.requests) == 8 and {name for name, _, _ in rows()} == {"wikieval"}
    assert run(*words, "judge.swapped=true") == 0
    assert len(first_is_right.requests) == 16  # the first eight are there already
    both = rows()
    assert {scorer for name, scorer, _ in both if name == "wikieval_both_orders"} == {"rag_zeval"}
    bias = [both["wikieval_both_orders", "rag_zeval", metric] for metric in ("flip_rate", "first_minus_second")]
    assert [(row["value"], row["n"], row["calls"]) for row in bias] == [(1, 8, 8)] * 2
    assert both["wikieval", "rag_zeval", "poor_answer/pairwise_middle"]["value"] == 0.5  # the good one first in half
    assert both["wikieval_both_orders", "rag_zeval", "poor_answer/pairwise_best"]["value"] == 1  # ties, all of them
    files = bias[0]["files"]
    assert files != both["wikieval", "rag_zeval", "poor_answer/pairwise_best"]["files"]
    assert [(out / file).is_file() for file in files] == [True]
