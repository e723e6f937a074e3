import itertools
import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from scripted_backend import ScriptedBackend

from eval_benchmarks.bench import failure_notes
from eval_benchmarks.bench_settings import BenchSettings
from eval_benchmarks.datasets.nano_eval import NanoEval
from eval_benchmarks.jobs import ScoringJob
from rag_zeval.errors import InputError
from rag_zeval.files import flat
from rag_zeval.judge.prompt import find_variant
from rag_zeval.literal_judge import literal_reply
from rag_zeval.models.folder import model_sha256
from rag_zeval.models.language_model import Sampling
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.score import Score, Scored
from rag_zeval.stages.config import check_settings, load_config

NO_LIMITS = ("0", "-1", "nan", ".inf", "much")


def test_judges_stand_side_by_side_with_paired_differences(judge_server: Any, nano: Any) -> None:
    yes, perfect = judge_server.spec("yes"), judge_server.spec("perfect")
    assert nano("scorers=[rag_zeval,rouge_l]", judge_server.models("yes", "perfect")) == 0
    rows = nano.summary()

    def value(model: str, metric: str) -> float:
        return rows["rag_zeval", model, metric]["value"]

    for metric in ("ranking_accuracy", "verdict_accuracy", "verdict_tpr", "verdict_tnr", "format_rate"):
        assert value(perfect, metric) == 1
    assert [value(perfect, f"pairwise_{name}") for name in ("best", "middle", "worst")] == [1, 1, 1]
    assert [value(yes, f"pairwise_{name}") for name in ("best", "middle", "worst")] == [1, 0.5, 0]
    assert (value(yes, "ranking_accuracy"), value(yes, "verdict_tpr"), value(yes, "verdict_tnr")) == (0, 1, 0)
    difference = rows["rag_zeval", f"{perfect} minus {yes}", "verdict_accuracy"]
    assert difference["value"] == pytest.approx(1 - value(yes, "verdict_accuracy"))
    assert 0 < difference["ci_low"] < difference["value"] < difference["ci_high"] < 1
    assert (difference["n"], difference["coverage"], difference["calls"]) == (12, 1, None)
    assert {row["minus"] for row in rows.values() if row["model"] in (None, yes, perfect)} == {None}
    assert {row["minus"] for row in rows.values() if row["model"] not in (None, yes, perfect)} == {yes}
    cost = rows["rag_zeval", perfect, "ranking_accuracy"]
    assert (cost["calls"], cost["prompt_tokens"], cost["completion_tokens"]) == (24, 168, 120)
    assert ("rouge_l", None, "verdict_accuracy") not in rows
    manifest = json.loads((nano.out / "manifest.json").read_text())
    assert manifest["data"]["nano_eval"]["examples"] == 24
    prompts = {entry["scorer"]: entry["prompt_hash"] for entry in manifest["rows"]}
    assert prompts == {"rouge_l": None, "rag_zeval": find_variant("compact").prompt_hash}
    assert all((nano.out / entry["file"]).is_file() for entry in manifest["rows"])


def test_the_schema_reaches_the_judge_and_makes_rows_of_their_own(judge_server: Any, nano: Any) -> None:
    words = ["scorers=[rag_zeval]", judge_server.models("perfect")]
    requests = judge_server.server.requests
    assert nano(*words) == 0
    asked, files = len(requests), set((nano.out / "rows").iterdir())
    assert not any("response_format" in request for request in requests)
    assert nano(*words, "judge.structured=true") == 0
    assert len(requests) == 2 * asked
    assert {request["response_format"]["type"] for request in requests[asked:]} == {"json_schema"}
    assert len(set((nano.out / "rows").iterdir()) - files) == len(files)


def test_replies_that_cannot_be_read_are_missing_and_never_zero(judge_server: Any, nano: Any, capfd: Any) -> None:
    fenced, prose = judge_server.spec("fenced"), judge_server.spec("prose")
    assert nano("scorers=[rag_zeval]", judge_server.models("fenced", "prose")) == 1
    rows = nano.summary()
    read = rows["rag_zeval", fenced, "format_rate"], rows["rag_zeval", fenced, "verdict_accuracy"]
    assert [(row["value"], row["coverage"]) for row in read] == [(0, 1), (1, 1)]
    unread = rows["rag_zeval", prose, "ranking_accuracy"], rows["rag_zeval", f"{prose} minus {fenced}", "verdict_tpr"]
    assert [(row["value"], row["ci_low"], row["n"], row["coverage"]) for row in unread] == [(None, None, 0, 0)] * 2
    assert (rows["rag_zeval", prose, "format_rate"]["value"], rows["rag_zeval", prose, "format_rate"]["n"]) == (0, 12)
    shown = capfd.readouterr()
    (line,) = [line for line in shown.out.splitlines() if line.endswith(" (and 71 more like it)")]
    assert line.startswith(f"nano_eval, rag_zeval by {prose}: an answer without a score: failed: format: ")
    assert shown.err.startswith(f"error: nothing has a score: nano_eval, rag_zeval by {prose}: failed: format: ")
    assert shown.err.count("\n") == 1 and fenced not in shown.err
    assert shown.err.endswith("to ask again, choose another out_dir\n")
    assert (nano.out / "manifest.json").is_file()  # all is written all the same


def test_reasons_that_differ_in_numbers_count_as_one_and_the_first_is_shown(make_trial: Any) -> None:
    def lines(statuses: list[str]) -> list[str]:
        scored = {str(i): Scored(str(i), (Score(None, status), Score(1.0))) for i, status in enumerate(statuses)}
        return list(failure_notes(make_trial(NanoEval(1, 1, 1), scored, "rag_zeval")))

    who = "nano_eval, rag_zeval by M: "
    assert lines(["failed: no claims", "failed: cut at 9", "failed: cut at 10", "failed: cut at 9"]) == [
        f"{who}an answer without a score: failed: cut at 9 (and 2 more like it)",
        f"{who}an answer without a score: failed: no claims",
    ]
    rest = "2 more answers without a score, for other reasons: see rows/rag_zeval-M-0.jsonl"
    assert lines([*"abcdefg"])[5:] == [f"{who}{rest}"]


def test_the_key_and_the_number_of_open_requests_reach_the_endpoint(
    judge_server: Any, nano: Any, monkeypatch: Any
) -> None:
    judge_server.server.delay = 0.02
    words = ["scorers=[rag_zeval]", judge_server.models("perfect")]
    words += ["judge.api_key_env=BENCH_TEST_KEY", "judge.concurrency=1"]
    monkeypatch.setenv("BENCH_TEST_KEY", "secret-of-the-test")
    assert nano(*words) == 0
    assert {headers["authorization"] for headers in judge_server.server.headers} == {"Bearer secret-of-the-test"}
    assert judge_server.server.open_most == 1


@pytest.mark.parametrize(
    ("mode", "line"),
    [("an endless body", "the answer is longer than 0.5 MiB"), ("hangs", "no answer within 1 s")],
)
def test_limits_reach_the_endpoint(mode: str, line: str, hostile: Any, wikieval: Any, capfd: Any) -> None:
    """What else servers may do to the bench is in tests/hostile/test_http.py."""
    hostile.honest = literal_reply
    hostile.mix(dict.fromkeys((1, 2), mode))
    run = wikieval(*({"question": f"question {n}"} for n in range(4)))
    words = ["scorers=[rag_zeval,is_correct]", f"models=['openai:judge@{hostile.url}']"]
    assert run(*words, "judge.timeout=1", "judge.max_body_mib=0.5") == 0
    assert line in capfd.readouterr().out


def test_only_questions_without_a_reply_are_asked_again(judge_server: Any, nano: Any) -> None:
    words = ["scorers=[rag_zeval]", judge_server.models("refusing", "prose")]
    assert nano(*words) == 1
    assert judge_server.asked == {"refusing": 24, "prose": 24}
    row = nano.summary()["rag_zeval", judge_server.spec("refusing"), "format_rate"]
    assert (row["value"], row["coverage"], row["prompt_tokens"]) == (None, 0, None)
    files = {rows.name for rows in (nano.out / "rows").iterdir()}
    judge_server.as_perfect.add("refusing")
    for _ in range(2):  # the second time nothing is asked
        assert nano(*words) == 1
        assert judge_server.asked == {"refusing": 48, "prose": 24}
        assert nano.summary()["rag_zeval", judge_server.spec("refusing"), "ranking_accuracy"]["value"] == 1
    assert files == {rows.name for rows in (nano.out / "rows").iterdir()}
    assert [row["final"] for row in nano.rows("refusing")] == [True] * 24


def test_another_model_at_the_same_place_gets_rows_of_its_own(nano: Any, tmp_path: Path) -> None:
    """The row file's name follows the weights: here those of two folders that stand at one path in turn."""
    folder, names = tmp_path / "model", set()
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    for weights in (b"old", b"new"):
        (folder / "model.safetensors").write_bytes(weights)
        backend = ScriptedBackend([], name=f"weights {model_sha256(folder)}")
        samplings, benchmarks = (Sampling(), Sampling(temperature=0)), (NanoEval(1, 1, 1), NanoEval(1, 2, 1))
        for sampling, variant, benchmark in itertools.product(samplings, ("paper", "compact"), benchmarks):
            names.add(ScoringJob(benchmark, RagZeval(backend, variant, sampling), str(folder)).file)
    assert len(names) == 16


def test_ctrl_c_is_one_line_and_the_same_command_resumes(judge_server: Any, nano: Any, capfd: Any) -> None:
    """What SIGKILL leaves is in tests/hostile/test_killer.py."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # `pytest &` ignores the signal
    server, words = judge_server.server, ["scorers=[rag_zeval]", judge_server.models("perfect"), "judge.concurrency=1"]
    server.replies = lambda body: (
        os.kill(os.getpid(), signal.SIGINT) if len(server.requests) == 9 else judge_server.reply(body)
    )
    assert nano(*words) == 130
    assert capfd.readouterr().err.splitlines()[-1].startswith("interrupted")
    assert 0 < len(nano.rows("rag_zeval")) < 24
    assert not (nano.out / "summary.json").exists() and not (nano.out / "manifest.json").exists()
    assert nano(*words) == 0
    assert len(nano.rows("rag_zeval")) == 24 and len(server.requests) <= 26


def test_a_model_that_is_not_trained_yet_is_left_out_with_a_line(nano: Any, capsys: Any) -> None:
    words = ["models=[runs/no-such-run/model]"]
    assert nano(*words, "scorers=[bleu,rag_zeval,is_correct]") == 0
    line = "rag_zeval, is_correct by runs/no-such-run/model: no model there yet, so a run leaves it out"
    assert line in capsys.readouterr().out
    assert nano(*words, "scorers=[rag_zeval]") == 2
    assert "nothing could be scored" in capsys.readouterr().err


def test_without_data_it_says_what_is_left_out_and_how_to_get_it(nano: Any, tmp_path: Path, capfd: Any) -> None:
    words = ["scorers=[bleu]", f"data_dir={tmp_path / 'none'}"]
    assert nano(*words, "benchmarks=[ragchecker_meta,wikieval,nano_eval]") == 0
    shown, written = capfd.readouterr().out, (nano.out / "tables.md").read_text()
    for name in ("ragchecker_meta (Table 2", "wikieval (Table 1"):
        (line,) = [line for line in written.splitlines() if name in line]
        assert line.startswith("- left out: ") and line.endswith("`make data` gets it")
        assert line.removeprefix("- ") in shown.splitlines()
    assert {row["benchmark"] for row in nano.summary().values()} == {"nano_eval"}
    for name in ("nano_eval: no tests against RAG-Zeval", "densities.png is not drawn", "cases.html is not written"):
        assert f"- {name}" in written and name in shown
    assert nano(*words, "benchmarks=[wikieval]") == 2
    assert "no benchmark can run: wikieval" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scorers=[blue]"], "scorers: unknown name 'blue' (did you mean 'bleu'?)"),
        (["benchmarks=[nano]"], "benchmarks: unknown name 'nano'"),
        (["bert_score.model=no/such"], "bert_score.model: no/such: no model in this folder (config.json is missing)"),
        (["scorers=[rag_zeval]", "models=[gpt-4o]"], "models: model 'gpt-4o': no such folder; name a model as trans"),
        (["scorers=[rag_zeval]", "models=[transformers:no/such]"], "model 'transformers:no/such': no such folder"),
        (["scorers=[rag_zeval]", "models=[docs]"], "models: docs: no model in this folder (config.json is missing)"),
        (["scorers=[rag_zeval]", "models=[]"], "models: a judge needs at least one"),
        (["scorers=[rag_zeval]", "models=[openai:m@http://h/v1,openai:m@http://h/v1]"], "is listed 2 times"),
        (["judge.api_key_env=NO_SUCH_KEY"], "judge.api_key_env: environment variable NO_SUCH_KEY is not set"),
        (
            ["scorers=[rag_zeval]", "models=['openai:m@http://h/v1']"],
            "variable OPENAI_API_KEY does not hold an API key: an HTTP",
        ),
        (
            ["scorers=[embedding_similarity]", "embeddings.model='openai:m@http://h/v1'"],
            "environment variable OPENAI_API_KEY does not hold an API key",
        ),
        (
            ["models='openai:m@http://me:secret@h/v1'"],
            "models: must be a list of names, such as models=[checkpoints/nano-base]",
        ),
        (["models=['openai:m@http://me:secret@h/v1']"], "without user, password or query"),
        (
            ["scorers=[ragas_answer_similarity]"],
            "embeddings.model: ragas_answer_similarity needs one: a folder, or open",
        ),
        (["embeddings.model=no/such"], "embeddings.model: no/such: no model in this folder (config.json is missing)"),
        (["embeddings.model='openai:m@http://me:secret@h/v1'"], "without user, password or query"),
        (
            ["judge.extra_body={{think: false}}", "scorers=[rag_zeval]"],
            "judge.extra_body: checkpoints/nano-base gets no requests",
        ),
        (["judge.extra_body=low"], "judge.extra_body: must be "),
        (["judge.variant=papre"], "unknown prompt variant 'papre'"),
        *((["max_cost=" + limit], "max_cost: must be a number from 0.001 to 1e+06, found ") for limit in NO_LIMITS),
        (["out_dir=null"], "out_dir: must be a folder, found null"),
        (["out_dir={folder}/file/out"], "directory"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_2(
    words: list[str], message: str, run: Any, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\r\nX: y")
    (tmp_path / "file").write_text("")
    words = [word.format(folder=tmp_path) for word in words]
    assert run("benchmarks=[nano_eval]", "scorers=[bleu]", *words) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error: ") and message in shown.err and shown.err.count("\n") == 1
    assert shown.out == "" and not run.out.exists() and "secret" not in shown.err
    if message != "directory":  # a dry run writes nothing
        assert run("benchmarks=[nano_eval]", "scorers=[bleu]", "nano_eval.n=2", *words, "dry_run=true") in (0, 2)
        shown = capsys.readouterr()
        assert message in shown.err or re.search(rf"a run would be refused: .*{re.escape(message)}", shown.out)
        assert "secret" not in shown.out + shown.err and not run.out.exists()


def test_every_setting_is_checked() -> None:
    """None is a list of lists, and no number is below 0."""
    for key, value in flat(OmegaConf.to_container(load_config("bench", []), resolve=True)).items():
        if key != "profile" and not key.startswith("download."):
            for wrong in ["[[]]"] + ["-1"] * (type(value) in (int, float)):
                with pytest.raises(InputError, match=rf"^{key}: must be "):
                    check_settings(BenchSettings, load_config("bench", [f"{key}={wrong}"]))


def test_bad_data_stop_it_before_any_model_is_loaded(
    write_ragchecker: Any, tmp_path: Path, run: Any, capsys: Any
) -> None:
    data_dir = write_ragchecker(change=lambda rows: rows[3].pop("correctness_label"))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("not even JSON")  # loading it would be another error
    words = ["benchmarks=[ragchecker_meta]", "scorers=[rag_zeval]", f"models=['{folder}']"]
    assert run(*words, f"data_dir={data_dir}") == 2
    assert capsys.readouterr().err.startswith(f"error: models: {folder}: no weights in this folder")
    (folder / "model.safetensors").touch()
    assert run(*words, f"data_dir={data_dir}") == 2 and not run.out.exists()
    where = data_dir / "ragchecker_meta" / "human_labeled_data.json"
    assert capsys.readouterr().err == f"error: {where}: row 3: field 'correctness_label' is missing\n"


def test_a_local_judge_that_was_killed_ends_as_an_undisturbed_one(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("rag_zeval.models.batched.BatchedModel.at_once", 4)
    base = "checkpoints/nano-base"
    words = ["benchmarks=[nano_eval]", "scorers=[rag_zeval]", f"models=[{base}]", "nano_eval.n=5"]
    assert run(*words, f"out_dir={tmp_path / 'whole'}") == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    (rows,) = (tmp_path / "killed" / "rows").iterdir()
    lines = rows.read_text().splitlines(keepends=True)
    rows.write_text("".join(lines[:6]) + lines[6][:40])  # in the middle of a group, in the middle of a row
    (tmp_path / "killed" / "summary.json").unlink()
    assert run(*words, f"out_dir={tmp_path / 'killed'}") == 0
    texts = ((tmp_path / run / "rows" / rows.name).read_text() for run in ("whole", "killed"))
    whole, killed = (re.sub('"seconds": [0-9.]+', "", text) for text in texts)
    assert killed == whole and len(lines) == 10
    assert run.summary(tmp_path / "killed") == run.summary(tmp_path / "whole")


def test_measures_are_scored_by_each_model_and_what_is_asked_twice_costs_once(
    literal_judge: Any, nano: Any, capsys: Any
) -> None:
    spec = literal_judge.spec()
    words = ["scorers=[bleu,ragas_faithfulness,ragchecker_precision]", f"models=['{spec}']"]
    assert nano(*words) == 0
    faithfulness = nano.summary()["ragas_faithfulness", spec, "ranking_accuracy"]
    assert faithfulness["coverage"] == 1
    asked = len(literal_judge.requests)
    assert faithfulness["calls"] == asked and faithfulness["prompt_tokens"] >= 7 * asked
    notes = json.loads((nano.out / "manifest.json").read_text())["notes"]
    assert "left out: nano_eval, ragchecker_precision: the benchmark has no ground truth" in notes
    assert "from cache" in capsys.readouterr().out
    (rows,) = (nano.out / "rows").glob("*ragas*")
    rows.unlink()
    assert nano(*words) == 0
    assert len(literal_judge.requests) == asked  # its replies stand in the cache
    assert len(nano.rows("ragas")) == 24


def test_vectors_come_from_their_own_model_with_its_own_key(literal_judge: Any, literal: Any, monkeypatch: Any) -> None:
    def one_truth(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["gt_answer"] = "word1. word2."

    judge, vectors = literal_judge.spec(), literal_judge.spec("small")
    monkeypatch.setenv("VECTOR_KEY", "secret-of-the-vectors")
    run = literal(4, change=one_truth)
    words = ["scorers=[ragas_answer_similarity,ragas_answer_correctness]", "embeddings.api_key_env=VECTOR_KEY"]
    words.append("judge.extra_body={reasoning: {effort: low}}")
    assert run(*words, f"embeddings.model='{vectors}'") == 0
    rows = run.summary()
    alone = rows["ragas_answer_similarity", vectors, "pearson"]  # no judge: once, by the model of sentences
    assert (alone["coverage"], alone["calls"], alone["cached"]) == (1, 9, 7)  # eight answers, and one truth of all
    both = rows["ragas_answer_correctness", judge, "pearson"]
    assert (both["coverage"], both["calls"], both["cached"]) == (1, 8 + 4 + 8, 4 + 16)  # vectors are all there already
    sent = zip(literal_judge.requests, literal_judge.headers, strict=True)
    keys = {(body["model"], headers["authorization"], "reasoning" in body) for body, headers in sent}
    assert keys == {("small", "Bearer secret-of-the-vectors", False), ("judge", "Bearer none", True)}
    assert {"effort": "low"} in [body.get("reasoning") for body in literal_judge.requests]
    assert "secret-of-the-vectors" not in "".join(path.read_text() for path in run.out.rglob("*.json*"))


@pytest.mark.parametrize("scorer", ["rouge_l", "rag_zeval", "is_correct", "ragas_faithfulness"])
def test_what_lacks_something_has_no_score_counts_in_no_metric_and_is_not_tried_again(
    scorer: str, literal_judge: Any, wikieval: Any
) -> None:
    run, asked = wikieval({}, {"context_v1": ["\u200b"]}, {"ungrounded_answer": "\u200b"}), []
    for _ in range(2):
        assert run(f"scorers=[{scorer}]", f"models=['{literal_judge.spec()}']") == 0
        asked.append(len(literal_judge.requests))
    assert asked[0] == asked[1]
    values = {row["id"]: [score["value"] for score in row["scores"]] for row in run.rows(scorer)}
    assert values["1-poor_answer"] == values["1-ungrounded_answer"] == [None, None]
    blank = 0 if scorer == "rouge_l" else None  # an empty text overlaps with nothing
    assert None not in values["0-poor_answer"] and values["2-ungrounded_answer"][1] == blank
    metrics = {metric: row["n"] for (_, _, metric), row in run.summary().items()}
    assert metrics["poor_answer/pairwise_best"] == 2
    assert metrics["ungrounded_answer/pairwise_best"] == (2 if scorer == "rouge_l" else 1)
