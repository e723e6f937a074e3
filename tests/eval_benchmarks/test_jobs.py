"""What a run scores: trials are samples of their own, and limits reach those that ask."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from eval_benchmarks.__main__ import main
from rag_zeval.literal_judge import literal_reply
from rag_zeval.models.scripted import ScriptedBackend


def row_files(out: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        path.name: [json.loads(line) for line in path.read_text().splitlines()] for path in (out / "rows").iterdir()
    }


def test_trials_are_different_samples_and_none_is_a_cached_reply(
    literal_judge: Any, write_ragchecker: Any, tmp_path: Path
) -> None:
    words = [
        f"data_dir={write_ragchecker(instances=5)}",
        "benchmarks=[ragchecker_meta]",
        "scorers=[bleu,ccrs_ir]",
        f"models=['{literal_judge.spec()}']",
        f"out_dir={tmp_path / 'out'}",
    ]
    assert main([*words, "judge.trials=3", "judge.seed=7"]) == 0
    files = row_files(tmp_path / "out")
    judged = {name: rows for name, rows in files.items() if "ccrs_ir" in name}
    assert len(judged) == 3 and len([name for name in files if "bleu" in name]) == 1
    assert all(len(rows) == 5 and not any(row["cached"] for row in rows) for rows in judged.values())
    seeds = [body["seed"] for body in literal_judge.requests]
    assert len(seeds) == 3 * 5 * 2 == len(set(seeds))
    rows = json.loads((tmp_path / "out" / "summary.json").read_text())
    trials = {(row["scorer"], row["trials"], len(row["files"])) for row in rows if row["scorer"] in ("bleu", "ccrs_ir")}
    assert trials == {("bleu", 1, 1), ("ccrs_ir", 3, 3)}
    assert {row["calls"] for row in rows if row["scorer"] == "ccrs_ir"} == {30}
    assert main([*words, "judge.trials=4", "judge.seed=7"]) == 0  # those that are there are not asked again
    assert len(literal_judge.requests) == 4 * 5 * 2


def test_dollars_are_of_what_was_paid_also_by_a_run_before_and_a_price_list_without_the_judge_is_told(
    literal_judge: Any, write_ragchecker: Any, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "prices.json").write_text('{"judge": {"prompt": 1000, "completion": 20000}}')
    (tmp_path / "other.json").write_text('{"jugde": {"prompt": 1000, "completion": 20000}}')
    words = [
        f"data_dir={write_ragchecker(instances=4)}",
        "benchmarks=[ragchecker_meta]",
        "scorers=[ragchecker_precision,ragchecker_f1]",
        f"models=['{literal_judge.spec()}']",
        f"out_dir={tmp_path / 'out'}",
    ]
    for _ in range(2):  # the second time nothing is asked, and the same was paid
        assert main([*words, f"prices={tmp_path / 'prices.json'}"]) == 0
        summary = json.loads((tmp_path / "out" / "summary.json").read_text())
        dollars = {row["scorer"]: row["dollars"] for row in summary if row["model"]}
        assert sum(dollars.values()) == pytest.approx(len(literal_judge.requests) * 0.107)
        f1 = next(row for row in summary if row["scorer"] == "ragchecker_f1")
        assert f1["cached"] > 0 and dollars["ragchecker_f1"] == pytest.approx(f1["calls"] * 0.107)
        assert f"${dollars['ragchecker_f1']:.4f}" in capsys.readouterr().out
    assert main([*words, f"prices={tmp_path / 'other.json'}"]) == 0
    assert (
        f"{literal_judge.spec()}: no dollars, for {tmp_path / 'other.json'} does not name it"
        in (tmp_path / "out" / "tables.md").read_text()
    )


def test_rows_of_a_model_that_computes_many_together_do_not_run_out_of_time(
    tmp_path: Path, write_ragchecker: Any, monkeypatch: Any
) -> None:
    class Batched(ScriptedBackend):
        batched = True

    def reply(request: Any) -> str:
        time.sleep(0.01)
        return literal_reply({"messages": request.messages}) or ""

    monkeypatch.setattr("eval_benchmarks.jobs.open_backend", lambda spec, **settings: Batched(reply))
    words = [f"data_dir={write_ragchecker(instances=12)}", "benchmarks=[ragchecker_meta]", "scorers=[ragchecker_f1]"]
    words += ["models=['openai:any@http://host/v1']", f"out_dir={tmp_path / 'out'}", "judge.timeout=0.1"]
    assert main(words) == 0
    (rows,) = (rows for name, rows in row_files(tmp_path / "out").items() if "ragchecker_f1" in name)
    assert {score["status"] for row in rows for score in row["scores"]} == {"ok"}


def test_a_reply_has_so_long_and_the_price_of_tokens_is_shown_on_the_way(
    literal_judge: Any, write_ragchecker: Any, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "prices.json").write_text('{"judge": {"prompt": 1000, "completion": 20000}}')
    words = [
        f"data_dir={write_ragchecker(instances=4)}",
        "benchmarks=[ragchecker_meta]",
        "scorers=[ccrs_ir]",
        f"models=['{literal_judge.spec()}']",
        f"out_dir={tmp_path / 'out'}",
        "judge.timeout=1.5",
        f"prices={tmp_path / 'prices.json'}",
    ]
    literal_judge.faults.append("hang")
    started = time.monotonic()
    assert main(words) == 0
    assert time.monotonic() - started < 30
    (rows,) = (rows for name, rows in row_files(tmp_path / "out").items() if "ccrs_ir" in name)
    statuses = [score["status"] for row in rows for score in row["scores"]]
    assert sorted(statuses) == ["failed: no answer within 1.5 s"] + ["ok"] * 7
    shown = capsys.readouterr().out
    assert "$0.7490" in shown  # 7 replies of 7 and 5 tokens
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [row["dollars"] for row in summary if row["scorer"] == "ccrs_ir"] == [pytest.approx(0.749)] * 6
    assert "dollars" in shown and {row["dollars"] for row in summary if row["scorer"] != "ccrs_ir"} == {None}


def test_citations_are_not_judged_where_no_answer_cites(
    literal_judge: Any, write_wikieval: Any, tmp_path: Path, capsys: Any
) -> None:
    def words(answer: str, out: str) -> list[str]:
        row = {"question": "q", "answer": answer, "poor_answer": "It snows.", "ungrounded_answer": "It is hot."}
        data = write_wikieval({**row, "context_v1": ["It rains."]})
        judge = f"models=['{literal_judge.spec()}']"
        return [
            f"data_dir={data}",
            "benchmarks=[wikieval]",
            "scorers=[bleu,citation_f1]",
            judge,
            f"out_dir={tmp_path / out}",
        ]

    assert main(words("It rains.", "plain")) == 0
    assert "left out: wikieval, citation_f1: the benchmark has no answers that cite chunks" in capsys.readouterr().out
    assert literal_judge.requests == []
    assert main(words("It rains [1].", "citing")) == 0
    assert len(literal_judge.requests) == 1
