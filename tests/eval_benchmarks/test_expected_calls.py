"""What a run would ask, without a model, a GPU or the network."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval_benchmarks.__main__ import main
from eval_benchmarks.bench_settings import BenchSettings
from eval_benchmarks.datasets.registry import load_benchmarks
from eval_benchmarks.expected_calls import expected_calls
from rag_zeval.literal_judge import count_tokens, literal_reply
from rag_zeval.scripted_judge import ScriptedJudge
from rag_zeval.stages.config import check_settings, load_config

LABELLED = "benchmarks=[aggrefact,ragtruth,faithbench,wice]"


def write_wice(data: Path, claims: int) -> None:
    (data / "wice").mkdir(parents=True)
    rows = [
        {"label": "supported", "claim": f"Fact {at} is so.", "evidence": [f"Page {at // 3}.", "Fact 1 is so."]}
        for at in range(claims)
    ]
    (data / "wice/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_rows_calls_tokens_and_hours_and_what_is_not_there(tmp_path: Path, capsys: Any) -> None:
    write_wice(tmp_path, 30)
    words = ["profile=paper", "dry_run=true", LABELLED, f"data_dir={tmp_path}", f"out_dir={tmp_path / 'out'}"]
    assert main([*words, "scorers=[bleu,bert_score,hhem,rag_zeval]"]) == 0
    shown = capsys.readouterr().out
    left_out = [line for line in shown.splitlines() if "bert_score" in line or "hhem" in line]
    assert left_out == [
        "left out: hhem: claim_checker.model is not a folder with a model",
        "left out: bert_score: bert_score.model is not a folder with a model",
    ]
    [judged] = [line.split() for line in shown.splitlines() if "vllm:runs/train/paper/model" in line]
    assert judged[:2] == ["wice", "rag_zeval"] and judged[3:6] == ["30", "1", "10"]  # three claims a page, a call each
    assert float(judged[6].replace(",", "")) > 0 and float(judged[8]) >= 0
    for name, rows in (("aggrefact", "29,320"), ("ragtruth", "2,700"), ("faithbench", "800")):
        assert any(line.split()[:4] == [name, "-", "-", rows] for line in shown.splitlines())
        assert f"missing: {name}" in shown
    assert "`make data` gets it" in shown and "accept its terms" in shown
    assert not (tmp_path / "out").exists()


def test_the_plan_counts_what_a_run_then_asks(tmp_path: Path, scripted_judge: ScriptedJudge) -> None:
    write_wice(tmp_path, 12)
    scripted_judge.replies, scripted_judge.count = literal_reply, count_tokens
    scorers = "scorers=[bleu,rag_zeval,ragas_faithfulness,answered]"
    words = ["benchmarks=[wice]", scorers, f"models=['{scripted_judge.spec()}']", f"data_dir={tmp_path}"]
    settings = check_settings(BenchSettings, load_config("bench", words))
    planned = {one.scorer: one for one in expected_calls(settings, load_benchmarks(settings)[0])}
    assert main([*words, f"out_dir={tmp_path / 'out'}", "bootstrap.draws=20"]) == 0
    rows = json.loads((tmp_path / "out/summary.json").read_text())
    asked = {row["scorer"]: (row["calls"], row["prompt_tokens"], row["completion_tokens"]) for row in rows}
    for name in ("rag_zeval", "ragas_faithfulness", "answered"):
        expected = planned[name].asked
        assert expected is not None
        counts = (expected.calls, expected.prompt_tokens, expected.completion_tokens)
        assert counts == pytest.approx(asked[name])
    assert planned["bleu"].model is None and planned["bleu"].asked is not None and planned["bleu"].asked.calls == 0
