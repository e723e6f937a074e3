"""`rag-zeval evaluate` as a user meets it. Kills and races of it: tests/hostile/test_killer.py."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_zeval import __version__
from rag_zeval.cases.case import CaseSet
from rag_zeval.cases.reading import read_cases
from rag_zeval.errors import InputError
from rag_zeval.evaluation.metrics import Judges, open_metrics
from rag_zeval.files import read_jsonl
from rag_zeval.judge.parser import response_schema
from rag_zeval.literal_judge import read_prompt
from rag_zeval.results import result_row, row_id
from rag_zeval.rows import RowWriter
from rag_zeval.scorers.score import Score, Scored
from rag_zeval.streams import exit_status

Run = Callable[..., "subprocess.CompletedProcess[str]"]
DOWN = "http://127.0.0.1:9/v1"


def row(n: int, **more: Any) -> dict[str, Any]:
    return {"id": f"r{n}", "question": f"question {n}", "reference": "It is so.", "answers": ["yes", "no"], **more}


def write_rows(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def number(request: dict[str, Any]) -> int:
    """The N of the "question N" that a request is about."""
    return int(read_prompt(request["messages"][0]["content"])[1]["question"].split()[1])


@pytest.fixture
def evaluate(run: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> Run:
    """Judges in.jsonl (one row, unless the test writes others) into o.jsonl, by an endpoint that supports all."""
    endpoint.replies = reply_text(2)
    write_rows(tmp_path / "in.jsonl", [row(0)])
    return lambda *more, **environment: run(
        "evaluate", "in.jsonl", "--model", endpoint.spec(), "--out", "o.jsonl", *more, **environment
    )


def test_rows_are_judged_written_and_summed_up(evaluate: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies = lambda request: "sorry" if number(request) == 3 else reply_text(2, number(request) % 2 == 0)
    write_rows(tmp_path / "in.jsonl", [row(n) for n in range(4)])
    done = evaluate("--html", "o.html")
    assert done.returncode == 0, done.stderr
    found = {each["case"]: each for each in read_jsonl(tmp_path / "o.jsonl")}
    assert {id_: each["scores"] for id_, each in found.items()} == {
        "r0": [1.0, 1.0], "r1": [0.0, 0.0], "r2": [1.0, 1.0], "r3": [None, None]
    }  # fmt: skip
    assert found["r3"]["status"].startswith("failed: format") and found["r3"]["reply"] == "sorry"
    assert found["r0"]["trajectory"][0]["atomic_claims"][0]["grounding_evidence"] == ["It is so."]
    assert found["r0"]["variant"] == "paper" and found["r0"]["prompt_hash"] and found["r0"]["identity"]
    for text in ("3 of 4 (75.0%)", "0.667", "failed: format", "28 in, 20 out"):
        assert text in done.stdout
    assert (tmp_path / "o.html").read_text().count('\n{"case":"r') == 4


def test_bad_rows_stop_the_run_before_any_call(run: Run, endpoint: Any, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "in.jsonl", [row(0), {"question": "q"}])
    assert run("evaluate", path).stderr.startswith("error: no judge: add")
    done = run("evaluate", path, "--model", endpoint.spec())
    told = f"error: {path}:2: column 'answers' is empty: fill it in, or remove the row\n"
    assert (done.returncode, done.stderr) == (2, told)
    assert not endpoint.requests and not list(tmp_path.glob("*.results.jsonl"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "openai:MODEL@http://host:port/v1 or, for OpenAI itself, openai:MODEL, for example --model"),
        (["--model", "transformers:folder", "--structured"], "folder cannot be forced into a JSON schema"),
        (["--model", f"openai:m@{DOWN}"], f"cannot reach {DOWN}: connection refused"),
        (["--model", f"openai:m@{DOWN}", "--variant", "papre"], "unknown prompt variant 'papre'"),
        (["--model", f"openai:m@{DOWN}", "--temperature", "nan"], "--temperature is nan"),
        (["--model", f"openai:m@{DOWN}", "--timeout", "nan"], "timeout is nan, must be a number above 0"),
        (["--model", f"openai:m@{DOWN}", "--connect-timeout", "0"], "connect_timeout is 0, must be"),
        (["--model", f"openai:m@{DOWN}", "--max-body-mib", "inf"], "max_body_mib is inf, must be"),
        (["--model", f"openai:m@{DOWN}", "--api-key-env", "NO_KEY"], "NO_KEY is not set"),
        (["--model", f"openai:m@{DOWN}", "--cache", "notes"], "notes: cannot be used as a reply cache"),
        (["--model", f"openai:m@{DOWN}", "--out", "in.jsonl"], "--out in.jsonl is the same file as INPUT"),
    ],
)
def test_other_bad_input_is_one_line(run: Run, tmp_path: Path, arguments: list[str], message: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(row(0)))  # a last line without its end is not torn by us
    (tmp_path / "notes").write_text("some notes, as long as a header" * 20)
    done = run("evaluate", "in.jsonl", *arguments)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 2 and len(errors) == 1 and message in errors[0]
    assert path.read_text() == json.dumps(row(0))
    assert "nowhere.jsonl: cannot be read" in run("evaluate", "nowhere.jsonl", "--model", f"openai:m@{DOWN}").stderr


@pytest.mark.parametrize(
    ("stop", "status", "said"),
    [
        (None, 5, ""),
        (InputError("in.jsonl:2: field 'x': bad"), 2, "error: in.jsonl:2: field 'x': bad\n"),
        (OSError(28, "No space left on device", "two\nlines"), 2, "error: [Errno 28] No space left on device: "),
        (InputError("two\nlines"), 2, "error: two lines\n"),
        (KeyboardInterrupt(), 130, "interrupted: run the same command again to resume\n"),
    ],
)
def test_a_stage_ends_with_a_status_and_one_line(
    capsys: pytest.CaptureFixture[str], stop: BaseException | None, status: int, said: str
) -> None:
    def stage() -> int:
        if stop is not None:
            raise stop
        return 5

    assert exit_status(stage) == status
    shown = capsys.readouterr()
    assert shown.err.startswith(said) and shown.err.count("\n") == (stop is not None) and not shown.out


def test_a_bug_is_no_failed_gate(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(lambda: 1 // 0) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback") and shown.endswith("ZeroDivisionError: integer division or modulo by zero\n")


def test_an_interrupted_run_says_that_it_goes_on(evaluate: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # `pytest &` ignores the signal
    write_rows(tmp_path / "in.jsonl", [row(n) for n in range(50)])
    endpoint.replies = lambda request: os.kill(os.getpid(), signal.SIGINT) if number(request) == 9 else reply_text(2)
    done = evaluate("--concurrency", 1)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False)
    assert done.stderr.splitlines()[-1] == "interrupted: run the same command again to resume"
    assert 0 < len(read_jsonl(tmp_path / "o.jsonl")) < 50


def test_sampling_reaches_the_model_and_the_rows(evaluate: Run, endpoint: Any, tmp_path: Path) -> None:
    assert evaluate("--out", "default.jsonl").returncode == 0
    assert evaluate("--max-tokens", 77, "--temperature", 0.5).returncode == 0
    assert [(sent["max_tokens"], sent["temperature"]) for sent in endpoint.requests] == [(8192, 0.1), (77, 0.5)]
    (noted,) = read_jsonl(tmp_path / "o.jsonl")
    assert (noted["sampling"]["max_tokens"], noted["sampling"]["temperature"]) == (77, 0.5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((text, "o.jsonl: is not a file") for text in ("5", '"an example"', '["example"]', "notes", '{"other": 1}')),
        (json.dumps(row(0)), "o.jsonl:1: field 'case' is missing; choose another --out"),
        (json.dumps(row(0)) + '\n{"id": "torn', "o.jsonl:1: field 'case' is missing; choose another --out"),
        ("some\nnotes\n", "o.jsonl:1: not valid JSON"),
    ],
)
def test_a_file_that_is_not_ours_is_left_alone(
    evaluate: Run, endpoint: Any, tmp_path: Path, content: str, message: str
) -> None:
    out = tmp_path / "o.jsonl"
    out.write_text(content)
    os.utime(out, (1, 1))
    refused = evaluate()
    assert refused.returncode == 2 and f"\nerror: {message}" in refused.stderr
    assert out.read_text() == content and out.stat().st_mtime == 1
    assert not endpoint.requests and {path.name for path in tmp_path.iterdir()} == {"in.jsonl", "o.jsonl"}


@pytest.mark.parametrize(
    "options",
    [
        ["--html", "in.jsonl"],
        ["--html", "./sub/../in.jsonl"],
        ["--html", "link"],
        ["--html", "hard"],
        ["--html", "in.results.jsonl"],
        ["--out", "o.jsonl", "--html", "sub/../o.jsonl"],
        ["--out", "o.jsonl", "--cache", "o.jsonl"],
        ["--out", "dangling", "--html", "target"],
    ],
)
def test_one_file_for_two_things_is_refused(run: Run, endpoint: Any, tmp_path: Path, options: list[str]) -> None:
    rows = write_rows(tmp_path / "in.jsonl", [row(0)])
    before = rows.read_bytes()
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("in.jsonl")
    (tmp_path / "hard").hardlink_to(rows)
    (tmp_path / "dangling").symlink_to("target")
    names = {path.name for path in tmp_path.iterdir()}
    refused = run("evaluate", "in.jsonl", "--model", endpoint.spec(), *options)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert f"{options[-2]} {options[-1].removeprefix('./')} is the same file as " in refused.stderr
    assert not endpoint.requests and rows.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.parametrize("option", ["--out", "--html", "--cache"])
@pytest.mark.parametrize("place", ["pipe", "folder", "device"])
def test_only_regular_files_are_written(evaluate: Run, endpoint: Any, tmp_path: Path, option: str, place: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/full")  # which a rename would put away
    refused = evaluate(option, place)
    assert (refused.returncode, refused.stderr) == (2, f"error: {place}: is not a regular file; choose another\n")
    assert not endpoint.requests


def test_half_a_surrogate_is_a_good_id_and_text(evaluate: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    good = reply_text(2).replace("Clear.", "\\ud800 \\u0000")
    endpoint.replies = lambda request: None if number(request) == 3 else good
    ids = ["\ud83d", "\ud83e", "a\udc00b", "?"]
    odd = {"reference": "half \ud83d", "answers": ["\ud83d", "a\x00"]}
    write_rows(tmp_path / "in.jsonl", [row(n, id=id_, **odd) for n, id_ in enumerate(ids)])
    done = evaluate("--trials", 2, "--html", "o.html")
    assert done.returncode == 0, done.stderr
    rows = {each["id"]: each for each in read_jsonl(tmp_path / "o.jsonl")}
    suffixes = ("|rag_zeval", "|rag_zeval#1")
    assert {(id_, each["case"]) for id_, each in rows.items()} == {(i + t, i) for i in ids for t in suffixes}
    assert rows["\ud83d|rag_zeval"]["scores"] == [1.0, 1.0]
    assert evaluate("--trials", 2, "--html", "o.html").returncode == 0
    assert len(endpoint.requests) == 2 * 4 + 2  # the failed rows alone


def test_the_end_of_a_long_run_does_not_hold_its_rows(run_measured: Any, endpoint: Any, tmp_path: Path) -> None:
    count, length = 3_000, 30_000
    rows, out = write_rows(tmp_path / "in.jsonl", [row(n) for n in range(count)]), tmp_path / "o.jsonl"
    cases = CaseSet(read_cases(rows).cases)
    (metric,) = open_metrics(["rag_zeval"], ["reference"], Judges(endpoint.spec()), None)
    with RowWriter(out) as writer:
        for at, key in enumerate(cases.keys):
            parts = {"trajectory": [], "reply": "x" * length}
            scored = Scored(key, (Score(1.0), Score(None, "failed: no claims")), parts, calls=1)
            example = cases.example(at, "reference")
            id_ = row_id(key, metric.name, 0)
            made_by = {"metric": metric.name, "trial": 0, **metric.made_by}
            writer.append(result_row(id_, cases.cases[at], example, metric.scorer, scored, made_by))
    shown, mib = run_measured("evaluate", rows, "--model", endpoint.spec(), "--out", out)
    assert f"{count} of {count} (100.0%)" in shown and f"0 of {count} (0.0%)" in shown and not endpoint.requests
    assert mib < out.stat().st_size / 2**20 + 80


def test_an_unreadable_reply_is_asked_again_also_with_a_cache(
    evaluate: Run, endpoint: Any, reply_text: Any, tmp_path: Path
) -> None:
    endpoint.replies = lambda request: "sorry" if number(request) == 1 else reply_text(2)
    write_rows(tmp_path / "in.jsonl", [row(0), row(1)])
    options = ["--cache", "c.sqlite", "--trials", 2]
    assert "2 of 4 (50.0%)" in evaluate(*options).stdout
    endpoint.replies = reply_text(2)
    again = evaluate(*options)
    assert "retrying 2 failed rows" in again.stderr and "4 of 4 (100.0%)" in again.stdout
    assert "42 in, 30 out" in again.stdout  # 6 replies: those that nobody could read were paid for too
    assert [number(sent) for sent in endpoint.requests[4:]] == [1, 1]
    (tmp_path / "o.jsonl").unlink()
    assert "4 of 4" in evaluate(*options).stdout and len(endpoint.requests) == 6  # and the good reply is kept


def test_a_result_file_holds_one_run_only(evaluate: Run, endpoint: Any, tmp_path: Path) -> None:
    assert evaluate().returncode == 0
    rows = (tmp_path / "o.jsonl").read_bytes()
    refusals = {
        "identity": evaluate("--model", endpoint.spec("other")),
        "variant": evaluate("--variant", "verdict-last"),
        "sampling.temperature": evaluate("--temperature", 0.5),
        "structured": evaluate("--structured"),
    }
    write_rows(tmp_path / "in.jsonl", [row(0, reference="It is not so.")])
    refusals["input_sha256"] = evaluate()
    for name, refused in refusals.items():
        assert refused.returncode == 2 and f"made with a different {name}; choose another --out" in refused.stderr
    assert (tmp_path / "o.jsonl").read_bytes() == rows


def test_trials_are_samples_of_their_own_and_cached_ones_cost_nothing(
    evaluate: Run, endpoint: Any, reply_text: Any, tmp_path: Path
) -> None:
    endpoint.replies = lambda request: reply_text(2, request["seed"] % 2 == 0)
    write_rows(tmp_path / "in.jsonl", [row(n) for n in range(3)])
    first = evaluate("--trials", 3, "--cache", "replies.sqlite")
    assert first.returncode == 0 and "SD over trials" in first.stdout and len(endpoint.requests) == 9
    assert len({request["seed"] for request in endpoint.requests}) == 9
    scores = {each["id"]: each["scores"] for each in read_jsonl(tmp_path / "o.jsonl")}
    assert set(scores) == {f"r{n}|rag_zeval{t}" for n in range(3) for t in ("", "#1", "#2")}
    again = evaluate("--trials", 3, "--cache", "replies.sqlite", "--out", "two.jsonl")
    assert len(endpoint.requests) == 9 and "0 (9 from the cache)" in again.stdout
    assert {each["id"]: each["scores"] for each in read_jsonl(tmp_path / "two.jsonl")} == scores


def test_structured_rows_are_their_own(evaluate: Run, endpoint: Any, tmp_path: Path) -> None:
    assert evaluate().returncode == 0
    assert evaluate("--structured", "--out", "s.jsonl").returncode == 0
    json_schema = {"name": "reply", "schema": response_schema(2, "paper"), "strict": True}
    assert endpoint.requests[1]["response_format"] == {"type": "json_schema", "json_schema": json_schema}
    assert read_jsonl(tmp_path / "s.jsonl")[0]["structured"] is True


def test_when_nothing_could_be_scored_the_run_fails(evaluate: Run, endpoint: Any) -> None:
    endpoint.replies = "\ud800 no"
    done = evaluate()
    assert done.returncode == 1 and "no answer could be scored" in done.stderr and "0 of 1" in done.stdout


@pytest.mark.parametrize("columns", ["40", "60", "80"])
def test_no_name_is_cut_in_a_narrow_terminal(run: Run, tmp_path: Path, columns: str) -> None:
    systems = [f"the system with the long name that ends in {at}" for at in (1, 2)]
    tag = "Fragen zur Rückerstattung im Ausland (neu)"
    rows = [
        row(at, slice_tag=f"{tag} {at % 2}", reference=None, contexts=["It is so."], truth="yes") for at in range(4)
    ]
    for at, name in enumerate(systems):
        write_rows(tmp_path / f"{name}.jsonl", [{**one, "answers": None, "answer": "yes"[at:]} for one in rows])
    files = [f"{name}.jsonl" for name in systems]
    done = run("evaluate", *files, "--scorers", "word_rule,bleu", "--out", "o.jsonl", COLUMNS=columns)
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines() if "│" in line) <= int(columns)
    pieces = [re.split("[│┃]", line)[1:-1] for line in done.stdout.splitlines()]
    columns_read = ["".join(piece[at].strip() for piece in pieces if len(piece) > at) for at in range(3)]
    for name in (*systems, f"{tag} 0", f"{tag} 1", "word_rule@contexts"):
        assert any(name.replace(" ", "") in of.replace(" ", "") for of in columns_read), name


def test_bad_usage_and_version_have_their_statuses(run: Run) -> None:
    assert run("evaluate", "in.jsonl", "--trials", "0").returncode == 2
    assert (run("--version").stdout, run("--version").returncode) == (f"{__version__}\n", 0)
    assert run("version").returncode == 2
