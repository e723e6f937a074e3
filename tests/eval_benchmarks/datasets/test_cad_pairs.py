"""Pairs of real answers: drawn once and for all, with the truth that alpha and gold answers give."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval_benchmarks.datasets.cad_pairs import CadPairs, draw_pair
from rag_zeval.errors import InputError
from rag_zeval.scorers.score import Score, Scored

ALPHAS = (0.0, -0.5, -1.4)


def row(at: int, texts: tuple[str, ...] = ("It is A1.", "It is B.", "Who knows?"), **fields: Any) -> dict[str, Any]:
    responses = [{"alpha": alpha, "text": text} for alpha, text in zip(ALPHAS, texts, strict=True)]
    passage = f"In number {at} it is A1."
    return {"id": f"q{at}", "status": "ok", "question": "Q?", "passage": passage, "responses": responses, **fields}


@pytest.fixture
def benchmark(tmp_path: Path) -> Any:
    def write(*rows: dict[str, Any]) -> CadPairs:
        (tmp_path / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return CadPairs("cad_pairs", tmp_path / "responses.jsonl")

    return write


def test_a_pair_is_two_different_answers_in_either_order_and_always_the_same() -> None:
    pairs = [draw_pair(row(at)) for at in range(200)]
    assert pairs == [draw_pair(row(at)) for at in range(200)]
    drawn = [pair.alphas for pair in pairs if pair is not None]
    assert len(drawn) == 200 and len(set(drawn)) == 6
    assert all(20 < drawn.count(alphas) < 50 for alphas in set(drawn))
    same = draw_pair(row(0, ("It is A1.", "It  is A1.", " ")))
    assert same is None


def test_metrics_by_alpha_and_by_gold_answer(benchmark: Any, score_by: Any) -> None:
    rows = [row(at, gold_answers=["a1"]) if at % 2 else row(at) for at in range(40)]
    pairs = benchmark(*rows, {"id": "late", "status": "failed: too long", "responses": []})
    assert len(pairs.examples) == 40
    by_alpha = {pair.example.id: pair.alphas for pair in pairs.pairs}
    metrics = {m.name: m for m in pairs.metrics(score_by(pairs, lambda at: list(by_alpha[pairs.examples[at].id])))}
    assert {m.value for m in metrics.values()} == {1.0} and set(metrics) == {
        f"{prefix}pairwise_{ties}" for prefix in ("", "gold/") for ties in ("best", "middle", "worst")
    }
    told = [p for p in pairs.pairs if p.gold and p.gold[0] != p.gold[1]]
    assert metrics["gold/pairwise_best"].n == len(told) and 0 < len(told) < 20
    assert all(("It is A1." in pair.example.answers) for pair in told)


def test_what_a_judge_writes_is_measured_and_a_reply_that_is_none_is_missing(benchmark: Any) -> None:
    looping = tuple(f"{at} as it is as it is as it is as it is" for at in range(3))
    pairs = benchmark(row(0), row(1), row(2, looping))

    def scored(id_: str, at: int) -> Scored:
        claims = [
            {"claim": "c", "is_supported": True, "grounding_evidence": [f"number {at} it is"], "analysis": "one two"},
            {"claim": "c", "is_supported": False, "grounding_evidence": ["never said"], "analysis": ""},
        ]
        trajectory: list[Any] = [{"id": letter, "atomic_claims": claims} for letter in "AB"]
        if at == 1:
            trajectory[0] = None  # one answer of two was read, judged alone
        return Scored(id_, (Score(1.0), Score(0.0)), {"trajectory": trajectory, "strict": True})

    broken = Scored("q2", (Score(None, "failed: format"),) * 2, {"trajectory": None, "strict": False})
    metrics = {m.name: m for m in pairs.metrics({"q0": scored("q0", 0), "q1": scored("q1", 1), "q2": broken})}
    values = {name: (metrics[name].value, metrics[name].n) for name in metrics if "/" not in name}
    assert values["format_rate"] == (pytest.approx(2 / 3), 3)
    assert (metrics["no_loop/format_rate"].value, metrics["no_loop/format_rate"].n) == (1, 2)
    assert values["verbatim"] == (0.5, 2) and values["claims"] == (2, 2)
    assert values["supported"] == (0.5, 2) and values["analysis_words"] == (1, 2)
    assert values["pairwise_best"][1] == 2


def test_a_bad_row_is_named_and_nothing_to_compare_is_an_error(benchmark: Any) -> None:
    with pytest.raises(InputError, match=r"responses.jsonl:2: field 'passage' is missing"):
        benchmark(row(0), {"id": "x", "status": "ok", "question": "q", "responses": []})
    with pytest.raises(InputError, match=r"responses.jsonl:2: field 'gold_answers' must be list"):
        benchmark(row(0), {**row(1), "gold_answers": "Paris"})
    with pytest.raises(InputError, match="has no question with two different answers"):
        benchmark(row(0, ("A", "A", "A")))
