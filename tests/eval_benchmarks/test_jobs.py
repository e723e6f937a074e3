"""What a run scores: trials are samples of their own, and limits reach those that ask."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_backend import ScriptedBackend

from eval_benchmarks.__main__ import main
from eval_benchmarks.bench_settings import BenchSettings
from eval_benchmarks.datasets.registry import load_benchmarks
from eval_benchmarks.expected_calls import NO_CALLS, expected_calls
from eval_benchmarks.jobs import CODE
from eval_benchmarks.plan import plan_run
from rag_zeval.files import file_sha256
from rag_zeval.literal_judge import count_tokens, literal_reply
from rag_zeval.scorers import is_correct, overlap, ragas
from rag_zeval.scripted_judge import ScriptedJudge
from rag_zeval.stages.config import check_settings, load_config

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


@pytest.mark.parametrize("name", ["bleu", "ccrs_ir", "rag_zeval"])
def test_a_scorer_whose_code_changed_scores_again_if_that_is_free(
    name: str, literal_judge: Any, literal: Any, out: Path, monkeypatch: Any
) -> None:
    """Somebody who edits a scorer must not get the scores of the code before. Rows that were paid for are kept."""
    run, words = literal(3), [f"scorers=[{name}]"]
    assert run(*words) == 0
    asked, files = len(literal_judge.requests), {*(out / "rows").glob(f"*{name}*")}
    monkeypatch.setattr("eval_benchmarks.jobs.CODE", {one: code + "edited" for one, code in CODE.items()})
    assert run(*words) == 0 and len(literal_judge.requests) == asked
    (*another,) = {*(out / "rows").glob(f"*{name}*")} - files
    assert len(files) == 1 and len(another) == (name != "rag_zeval")
    monkeypatch.undo()
    assert run(*words) == 0 and {*(out / "rows").glob(f"*{name}*")} == {*files, *another}


def test_the_code_of_a_scorer_is_its_own_module() -> None:
    for name, module in (("bleu", overlap), ("ragas_faithfulness", ragas), ("is_correct", is_correct)):
        assert CODE[name] == file_sha256(Path(str(module.__file__)))
    assert not CODE.keys() & {"rag_zeval", "bert_score", "hhem", "checked_claims", "checked_sentences"}


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
    line = f"{literal_judge.spec()}: no cost in dollars, because {other.removeprefix('prices=')} has no price for it"
    assert line in (out / "tables.md").read_text()


def test_a_limit_stops_the_run_and_a_larger_one_goes_on(
    literal_judge: Any, literal: Any, write_prices: Any, out: Path, capsys: Any
) -> None:
    """What servers may do to a limit is in tests/hostile/money.py."""
    literal_judge.faults = ["no text"] * 3
    run, words = literal(12), ["scorers=[bleu,rag_zeval,is_correct]", write_prices("judge"), "judge.max_tokens=50"]
    assert run(*words, "max_cost=0.5") == 1  # five calls of $0.107
    said, asked = capsys.readouterr().err, len(literal_judge.requests)
    rows = run.rows("rag_zeval")
    assert asked == len(rows) == 5 and [row["final"] for row in rows].count(False) == 3
    assert "stopped at max_cost=0.5: 7 rows of ragchecker_meta rag_zeval " in said
    assert "spent: at most $0.5350, of max_cost=0.5" in said and not (out / "summary.json").exists()
    assert run(*words, "max_cost=0.5") == 1 and len(literal_judge.requests) == asked and run.rows("rag_zeval") == rows
    assert run(*words, "max_cost=100") == 0 and len(literal_judge.requests) == 3 + 12 + 24
    costs = {row["scorer"]: row["dollars"] for row in json.loads((out / "summary.json").read_text()) if row["model"]}
    assert costs["rag_zeval"] == pytest.approx(15 * 0.107)  # with those that brought no text
    assert "spent: at most $4.1730, of max_cost=100" in (out / "tables.md").read_text()


def test_dollars_of_calls_that_told_no_tokens_are_an_upper_bound_and_a_note_says_so(
    literal_judge: Any, literal: Any, write_prices: Any, out: Path
) -> None:
    literal_judge.faults = [{"status": 200, "body": {"choices": []}}]
    assert literal(3)("scorers=[is_correct]", write_prices("judge"), "judge.max_tokens=50") == 0
    (dollars,) = {row["dollars"] for row in json.loads((out / "summary.json").read_text()) if row["model"]}
    assert dollars > 2 * 0.107 + 50 * 0.02
    note = f"{literal_judge.spec()}: dollars are an upper bound: 1 calls did not report their tokens"
    assert note in (out / "tables.md").read_text()


def test_a_limit_needs_the_price_of_every_judge_that_is_paid(
    literal_judge: Any, literal: Any, write_prices: Any, capsys: Any
) -> None:
    for words in ([write_prices("jugde")], []):
        assert literal(2)("scorers=[rag_zeval]", "max_cost=1", *words) == 2
        line = f"error: max_cost needs the price of {literal_judge.spec()}: add prices=FILE with it\n"
        assert capsys.readouterr().err == line and not literal_judge.requests


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
    line = "left out: wikieval, citation_f1: the benchmark has no answers that cite chunks"
    assert run("scorers=[bleu,citation_f1]", f"models=['{literal_judge.spec()}']") == 0
    assert (line in capsys.readouterr().out) == (not asked)
    assert len(literal_judge.requests) == asked


def _judge_of_three_sentences(folder: Path, reply: Callable[[Any], str], monkeypatch: Any) -> str:
    """The folder of a judge whose card limits answers to three sentences, and which replies so."""
    return _judge_with_card({"variant": "compact", "answer_sentences": 3}, folder, reply, monkeypatch)


def _judge_with_card(card: dict[str, Any], folder: Path, reply: Callable[[Any], str], monkeypatch: Any) -> str:
    """The folder of a judge that replies so."""
    folder.mkdir()
    (folder / "rag_zeval.json").write_text(json.dumps(card))
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").touch()
    monkeypatch.setattr("eval_benchmarks.jobs.open_backend", lambda spec, **settings: ScriptedBackend(reply, card=card))
    return f"models=[{folder}]"


def _literally(request: Any) -> str:
    return literal_reply({"messages": request.messages}) or ""


def test_a_judge_whose_card_limits_answers_is_asked_in_windows_and_the_plan_counts_them(
    wikieval: Any, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """By an answer of four sentences and two short ones: two windows and two answers alone, and a prompt of two."""
    run = wikieval({"answer": "It rains. It pours. It snows. It hails.", "context_v1": ["It rains. It hails."]}, {})
    words = ["scorers=[rag_zeval]", _judge_of_three_sentences(tmp_path / "judge", _literally, monkeypatch)]
    assert run(*words, "dry_run=true") == 0
    (planned,) = [line.split() for line in capsys.readouterr().out.splitlines() if "rag_zeval" in line]
    assert run(*words, "judge.swapped=true") == 0
    rows = run.rows("wikieval__rag_zeval")
    assert [row["scores"][0]["value"] for row in rows[:2]] == [0.5, 0.5]
    assert [len(row["parts"].get("windows", ())) for row in rows] == [2, 2, 0, 0]
    assert int(planned[5]) == sum(row["calls"] for row in rows) == 3 + 3 + 1 + 1
    assert {row["id"] for row in run.rows("both_orders")} == {f"{row['id']}-exchanged" for row in rows}


def test_a_sentence_that_cannot_be_read_is_asked_about_in_pieces_of_the_reference(
    wikieval: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    def reply(request: Any) -> str:
        return "I am lost." if len(request.messages[0]["content"].split()) > 200 else _literally(request)

    passage = " ".join(["It rains. It hails.", *["It is cold."] * 70])
    run = wikieval({"answer": "It rains. It pours. It snows. It hails.", "context_v1": [passage]}, {})
    assert run("scorers=[rag_zeval]", _judge_of_three_sentences(tmp_path / "judge", reply, monkeypatch)) == 0
    values = {row["id"]: row["scores"][0]["value"] for row in run.rows("wikieval__rag_zeval")}
    assert values["0-poor_answer"] == 0.5


def test_a_ranker_is_planned_as_it_is_asked(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    write_wice(tmp_path, 3)
    card, out = {"variant": "ranking-only"}, tmp_path / "out"
    model = _judge_with_card(card, tmp_path / "ranker", lambda _: '["B", "A"]', monkeypatch)
    words = ["benchmarks=[nano_meta,wice]", "nano_eval.n=4", "judge.swapped=true", "bootstrap.draws=20", model]
    words += [f"data_dir={tmp_path}", f"out_dir={out}", "scorers=[rag_zeval]"]
    shown = []
    for dry_run in ("true", "false"):
        assert main([*words, f"dry_run={dry_run}"]) == 0
        shown.append(capsys.readouterr().out)
    plan, ran = shown
    left_out = f"left out: wice, rag_zeval by {tmp_path / 'ranker'}: a ranker does not say what is supported"
    assert left_out in plan and left_out in ran
    (planned,) = [line.split() for line in plan.splitlines() if line.startswith(" nano_meta")]
    rows = [json.loads(line) for path in (out / "rows").iterdir() for line in path.read_text().splitlines()]
    assert planned[1] == "sft_ranker" and int(planned[5]) == sum(row["calls"] for row in rows) == 8
    assert int(planned[7]) == 8 * count_tokens('["B", "A"]')


def test_a_plan_counts_the_pieces_of_references_that_are_too_long(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    write_wice(tmp_path, 3)
    model = _judge_with_card({"variant": "compact"}, tmp_path / "judge", _literally, monkeypatch)
    words = [
        "dry_run=true",
        "benchmarks=[wice]",
        f"data_dir={tmp_path}",
        "scorers=[answered,ares_context_relevance]",
        model,
    ]
    calls = []
    for words_in_window in (1000, 32):  # a page has 6 words and its three claims 12; they may take half of the window
        monkeypatch.setattr(
            "eval_benchmarks.expected_calls.open_window",
            lambda _, window=words_in_window: ScriptedBackend([], max_context=window),
        )
        assert main(words) == 0
        calls.append([line.split()[5] for line in capsys.readouterr().out.splitlines() if line.startswith(" wice")])
    assert calls == [["3", "1"], ["3", "2"]]  # `answered` reads no reference


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
    [judged] = [line.split() for line in shown.splitlines() if "vllm:runs/train/paper/model  " in line]
    assert judged[:2] == ["wice", "rag_zeval"] and judged[3:6] == ["30", "1", "10"]  # three claims a page, a call each
    assert float(judged[6].replace(",", "")) > 0 and float(judged[8]) >= 0
    for name, rows in (("aggrefact", "29,320"), ("ragtruth", "2,700"), ("faithbench", "800")):
        assert any(line.split()[:4] == [name, "-", "-", rows] for line in shown.splitlines())
        assert f"missing: {name}" in shown
    assert "vllm:runs/train/paper/model: no model there yet, so a run leaves it out" in shown
    assert "`make data` gets it" in shown and "accept its terms" in shown
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["benchmarks=[wice]"],
        # greedy trials are not repeated, and this prompt is only for other benchmarks
        ["benchmarks=[nano_meta]", "nano_eval.n=4", "judge.trials=2", "judge.swapped=true", "judge.variant=compact"],
    ],
    ids=["once", "trials-and-both-orders"],
)
def test_the_plan_counts_what_a_run_then_asks(words: list[str], tmp_path: Path, scripted_judge: ScriptedJudge) -> None:
    write_wice(tmp_path, 12)
    scripted_judge.replies, scripted_judge.count = literal_reply, count_tokens
    scorers = "scorers=[bleu,rag_zeval,ragas_faithfulness,answered]"
    words = [*words, scorers, f"models=['{scripted_judge.spec()}']", f"data_dir={tmp_path}"]
    settings = check_settings(BenchSettings, load_config("bench", words))
    plan, _ = plan_run(settings, load_benchmarks(settings)[0])
    planned = {one.planned.scorer: one for one in expected_calls(settings, plan)}
    assert main([*words, f"out_dir={tmp_path / 'out'}", "bootstrap.draws=20"]) == 0
    rows = json.loads((tmp_path / "out/summary.json").read_text())
    costs = ("calls", "prompt_tokens", "completion_tokens")
    runs = {(row["benchmark"], row["scorer"]): [row[cost] for cost in costs] for row in rows if row["calls"]}
    for name in ("rag_zeval", "ragas_faithfulness", "answered"):
        expected = planned[name].asked
        assert expected is not None
        counts = (expected.calls, expected.prompt_tokens, expected.completion_tokens)
        of_runs = [amounts for (_, scorer), amounts in runs.items() if scorer == name]
        assert counts == pytest.approx([sum(amounts) for amounts in zip(*of_runs, strict=True)])
    assert planned["bleu"].asked == NO_CALLS


def test_the_plan_leaves_out_texts_that_a_judge_does_not_know(tmp_path: Path, capsys: Any) -> None:
    write_wice(tmp_path, 12)
    judge, scorers = "checkpoints/nano-judge", "scorers=[rag_zeval,answered]"
    words = ["dry_run=true", "benchmarks=[wice,nano_meta]", "nano_eval.n=2", scorers, f"models=[{judge}]"]
    assert main([*words, f"data_dir={tmp_path}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines if judge in line and "left out" not in line] == [
        ["nano_meta", "rag_zeval"]
    ]
    assert [line for line in lines if "left out" in line] == [
        f"left out: wice, rag_zeval by {judge}: this judge knows only its own world (nano)",
        f"left out: wice, answered by {judge}: this judge knows only its own prompt",
        f"left out: nano_meta, answered by {judge}: this judge knows only its own prompt",
    ]
