"""What a run scores: trials are samples of their own, and limits reach those that ask."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.literal_judge import literal_reply
from rag_zeval.models.scripted import ScriptedBackend

PRICES = {"prompt": 1000, "completion": 20000}  # a reply of 7 and 5 tokens is 0.107 dollars


@pytest.fixture
def write_prices(tmp_path: Path) -> Any:
    """Writes a price list of one model; the command line word that names it."""

    def write(model: str) -> str:
        path = tmp_path / f"{model}.json"
        path.write_text(json.dumps({model: PRICES}))
        return f"prices={path}"

    return write


def test_trials_are_different_samples_and_none_is_a_cached_reply(literal_judge: Any, literal: Any, out: Path) -> None:
    run, words = literal(5), ["scorers=[bleu,ccrs_ir]", "judge.seed=7"]
    assert run(*words, "judge.trials=3") == 0
    files = {path.name: path.read_text().splitlines() for path in (out / "rows").iterdir()}
    trials = [[json.loads(line) for line in lines] for name, lines in files.items() if "ccrs_ir" in name]
    assert len(trials) == 3 and len([name for name in files if "bleu" in name]) == 1
    assert all(len(rows) == 5 and not any(row["cached"] for row in rows) for rows in trials)
    seeds = [body["seed"] for body in literal_judge.requests]
    assert len(seeds) == 3 * 5 * 2 == len(set(seeds))
    rows = json.loads((out / "summary.json").read_text())
    counts = {(row["scorer"], row["trials"], len(row["files"])) for row in rows if row["scorer"] in ("bleu", "ccrs_ir")}
    assert counts == {("bleu", 1, 1), ("ccrs_ir", 3, 3)}
    assert {row["calls"] for row in rows if row["scorer"] == "ccrs_ir"} == {30}
    assert run(*words, "judge.trials=4") == 0  # those that are there are not asked again
    assert len(literal_judge.requests) == 4 * 5 * 2


def test_dollars_are_of_what_was_paid_also_by_a_run_before_and_a_price_list_without_the_judge_is_told(
    literal_judge: Any, literal: Any, write_prices: Any, out: Path, capsys: Any
) -> None:
    run, scorers = literal(4), "scorers=[ragchecker_precision,ragchecker_f1]"
    for _ in range(2):  # the second time nothing is asked, and the same was paid
        assert run(scorers, write_prices("judge")) == 0
        summary = json.loads((out / "summary.json").read_text())
        assert {row["dollars"] for row in summary if not row["model"]} == {None}
        rows = {row["scorer"]: row for row in summary if row["model"]}
        assert sum(row["dollars"] for row in rows.values()) == pytest.approx(len(literal_judge.requests) * 0.107)
        f1 = rows["ragchecker_f1"]
        assert f1["cached"] > 0 and f1["dollars"] == pytest.approx(f1["calls"] * 0.107)
        assert f"${f1['dollars']:.4f}" in capsys.readouterr().out  # on the way
    other = write_prices("jugde")
    assert run(scorers, other) == 0
    line = f"{literal_judge.spec()}: no dollars, for {other.removeprefix('prices=')} does not name it"
    assert line in (out / "tables.md").read_text()


def test_rows_of_a_model_that_computes_many_together_do_not_run_out_of_time(literal: Any, monkeypatch: Any) -> None:
    class Batched(ScriptedBackend):
        batched = True

    def reply(request: Any) -> str:
        time.sleep(0.01)
        return literal_reply({"messages": request.messages}) or ""

    monkeypatch.setattr("eval_benchmarks.jobs.open_backend", lambda spec, **settings: Batched(reply))
    run = literal(12)
    assert run("scorers=[ragchecker_f1]", "judge.timeout=0.1") == 0
    assert {score["status"] for row in run.rows("ragchecker_f1") for score in row["scores"]} == {"ok"}


@pytest.mark.parametrize(("answer", "asked"), [("It rains.", 0), ("It rains [1].", 1)])
def test_citations_are_judged_only_where_an_answer_cites(
    answer: str, asked: int, literal_judge: Any, wikieval: Any, capsys: Any
) -> None:
    run = wikieval({"question": "q", "answer": answer, "context_v1": ["It rains."]})
    assert run("scorers=[bleu,citation_f1]", f"models=['{literal_judge.spec()}']") == 0
    line = "left out: wikieval, citation_f1: the benchmark has no answers that cite chunks"
    assert (line in capsys.readouterr().out) == (not asked)
    assert len(literal_judge.requests) == asked
