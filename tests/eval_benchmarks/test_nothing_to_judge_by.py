"""Examples of a benchmark that lack something: their answers have no score, cost nothing, and count in no metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_backend import ScriptedBackend

from eval_benchmarks.bench import score
from eval_benchmarks.benchmark import Benchmark, Metric, better_first, pairwise_metrics
from eval_benchmarks.jobs import ScoringJob
from rag_zeval.judge.example import Example
from rag_zeval.models.language_model import Sampling
from rag_zeval.progress import Progress
from rag_zeval.scorers.asking import AskingScorer
from rag_zeval.scorers.overlap import RougeL
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.registry import MEASURES
from rag_zeval.scorers.score import Scored, Scorer
from rag_zeval.scoring.estimate import mock_reply

WHOLE = Example(
    "whole", "Who has what?", "Ann has cats.", ("Ann has cats.", "Bob owns dogs."), chunks=("Ann has cats.",)
)


class Pairs(Benchmark):
    name, data_hash = "pairs", "none"
    examples = [  # noqa: RUF012
        WHOLE,
        replace(WHOLE, id="no reference", reference="\u200b", chunks=(" ",)),
        replace(WHOLE, id="no answer", answers=("Ann has cats.", "\u200b"), unanswered=("", "no answer")),
    ]

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        return pairwise_metrics([better_first(scored.get(example.id), True) for example in self.examples])


@pytest.mark.parametrize("name", ["rouge_l", "rag_zeval", "is_correct", "ragas_faithfulness"])
def test_there_is_no_score_and_no_second_try(name: str, tmp_path: Path) -> None:
    judge = ScriptedBackend(mock_reply)
    scorer: Scorer
    if name in MEASURES:
        scorer = AskingScorer(MEASURES[name], judge, Sampling())
    else:
        scorer = RougeL() if name == RougeL.name else RagZeval(judge, None, Sampling())

    def run() -> dict[str, Scored]:
        with Progress() as progress:
            return dict(score(ScoringJob(Pairs(), scorer), tmp_path / "rows.jsonl", progress))

    one, calls = run(), judge.calls
    values = {id_: scored.values for id_, scored in one.items()}
    assert values == {"whole": (1, 0), "no reference": (None, None), "no answer": (1, None)}
    assert run() == one and judge.calls == calls
    best, *_ = Pairs().metrics(one)
    assert (best.n, best.value) == (1, 1.0)
