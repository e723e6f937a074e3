import json
from typing import Any

import pytest
from scripted_backend import ScriptedBackend

from eval_benchmarks.bench_settings import BenchSettings
from eval_benchmarks.datasets.nano_eval import NanoEval
from eval_benchmarks.plan import is_ranker, judge_asking
from rag_zeval.judge.example import Example
from rag_zeval.models.language_model import Reply, Sampling
from rag_zeval.scorers.score import Score, Scored
from rag_zeval.scorers.sft_ranker import SftRanker
from rag_zeval.stages import world
from rag_zeval.stages.config import check_settings, load_config

GREEDY = Sampling(temperature=0)
CARD = {"world": "nano", "variant": "ranking-only"}


@pytest.mark.parametrize(
    ("reply", "values", "strict", "status", "final"),
    [
        ('["C", "A", "B"]', (0.5, 0.0, 1.0), True, "ok", True),
        (Reply('["C", "A", "B"]', "truncated", calls=1), (0.5, 0.0, 1.0), True, "ok", True),
        ('["C", "A"]', (None,) * 3, False, "failed: format: letters are ['C', 'A'], expected each of", True),
        (Reply('["C", "A', "truncated", calls=1), (None,) * 3, False, "failed: reply cut off", True),
        ("", (None,) * 3, False, "failed: the reply is empty", True),
        (Reply(None, "failed: HTTP 500", calls=3), (None,) * 3, None, "failed: HTTP 500", False),
    ],
)
def test_scores_follow_the_ranks(reply: Any, values: Any, strict: Any, status: str, final: bool) -> None:
    (scored,) = SftRanker(ScriptedBackend([reply]), GREEDY).score([Example("1", "q", "r", ("a", "b", "c"))])
    assert (scored.values, scored.parts["strict"], scored.final) == (values, strict, final)
    assert all(score.status.startswith(status) for score in scored.scores)
    assert Scored.from_row(scored.row()) == scored


def test_one_answer_alone_is_not_asked_about() -> None:
    backend = ScriptedBackend(['["B", "A"]'])
    examples = [Example("1", "q", "r", ("a",)), Example("2", "q", "r", ("a", "b"))]
    alone, two = SftRanker(backend, GREEDY).score(examples)
    assert alone.scores == (Score(None, "failed: one answer alone has no rank"),)
    assert (two.values, backend.calls) == ((0.0, 1.0), 1)


def test_a_perfect_ranker_is_perfect_on_the_nano_world_and_has_no_verdicts() -> None:
    benchmark = NanoEval(5, 1, 2)
    examples = world.ranked_examples("test", 5, 4, 1) + world.ranked_examples("test", 5, 2, 2)
    orders = (sorted(range(len(one.answers)), key=lambda at: -one.true_support[at]) for one in examples)
    replies = [json.dumps(["ABCD"[at] for at in order]) for order in orders]
    scored = {s.id: s for s in SftRanker(ScriptedBackend(replies), GREEDY).score(benchmark.examples)}
    found = {m.name: m.statistic.point(m.scored) for m in benchmark.metrics(scored)}
    assert set(found.values()) == {1.0}
    assert list(found) == ["ranking_accuracy", "pairwise_best", "pairwise_middle", "pairwise_worst"]


@pytest.mark.parametrize("section", ["judge", "nano_eval"])
def test_the_card_says_that_a_model_is_a_ranker(section: str) -> None:
    def ranks(words: list[str], card: dict[str, str]) -> bool:
        settings = check_settings(BenchSettings, load_config("bench", words))
        benchmark = NanoEval(1, 1, 2)
        benchmark.world = "nano" if section == "nano_eval" else None
        return is_ranker(judge_asking(settings, benchmark), card)

    assert ranks([], CARD) and not ranks([], {"world": "nano", "variant": "compact"})
    assert not ranks([f"{section}.variant=compact"], CARD)  # what is asked for goes before the card
