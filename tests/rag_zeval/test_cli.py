from __future__ import annotations

import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile_server import shows_key

from rag_zeval.cli import main
from rag_zeval.errors import InputError, exit_status
from rag_zeval.inputs import read_examples
from rag_zeval.judge.evaluator import Evaluation, Evaluator, Example
from rag_zeval.judge.parser import response_schema
from rag_zeval.literal_judge import literal_reply
from rag_zeval.models.language_model import open_backend
from rag_zeval.models.scripted import ScriptedBackend
from rag_zeval.report import summary_lines
from rag_zeval.results import failed_rows, result_row, summarize
from rag_zeval.rows import RowWriter

# A command that says its peak memory in MiB. What the system tells the parent holds the parent's own memory as well.
PEAK = """
import re
from rag_zeval.cli import main
try:
    main()
finally:
    print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024)
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "rag_zeval", *map(str, arguments)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
        env = {**ENVIRONMENT, "COLUMNS": "200", **env}
        line = command(*arguments)
        return subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=60, check=False)

    return run


def write_rows(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def row(n: int, **more: Any) -> dict[str, Any]:
    return {"id": f"r{n}", "question": f"question {n}", "reference": "It is so.", "answers": ["yes", "no"], **more}


def number(request: dict[str, Any]) -> int:
    prompt = request["messages"][0]["content"]
    return int(json.JSONDecoder().raw_decode(prompt, prompt.index('{"question"'))[0]["question"].split()[1])


def test_rows_are_judged_written_and_summed_up(run: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies = lambda request: "sorry" if number(request) == 3 else reply_text(2, number(request) % 2 == 0)
    rows = write_rows(tmp_path / "in.jsonl", [row(n) for n in range(4)])
    done = run("evaluate", rows, "--model", endpoint.spec(), "--out", "o.jsonl", "--html", "o.html")
    assert done.returncode == 0, done.stderr
    found = {each["id"]: each for each in read_rows(tmp_path / "o.jsonl")}
    assert {id_: each["scores"] for id_, each in found.items()} == {
        "r0": [1.0, 1.0], "r1": [0.0, 0.0], "r2": [1.0, 1.0], "r3": [None, None]
    }  # fmt: skip
    assert found["r3"]["status"].startswith("failed: format") and found["r3"]["reply"] == "sorry"
    assert found["r0"]["trajectory"][0]["atomic_claims"][0]["grounding_evidence"] == ["It is so."]
    assert found["r0"]["variant"] == "paper" and found["r0"]["prompt_hash"] and found["r0"]["identity"]
    for text in ("6 of 8 (coverage 75.0%)", "0.667", "failed: format", "28 in, 20 out"):
        assert text in done.stdout
    assert (tmp_path / "o.html").read_text().count("<details") == 4


def test_one_answer_may_stand_alone_and_ids_may_be_left_out(run: Run, endpoint: Any, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "in.jsonl", [{"question": "q", "reference": "r", "answer": "a"}])
    done = run("evaluate", rows, "--model", endpoint.spec())
    assert done.returncode == 0, done.stderr
    assert [(each["id"], each["scores"]) for each in read_rows(tmp_path / "in.results.jsonl")] == [("1", [1.0])]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('{"id": "x"', ":2: not valid JSON"),
        ([], ":2: expected a JSON object, found list"),
        ({"question": "q", "answers": ["a"]}, ":2: field 'reference' is missing"),
        ({"question": 3, "reference": "r", "answers": ["a"]}, ":2: field 'question' must be str, found int"),
        ({"question": "q", "reference": "r"}, ":2: field 'answers' is missing"),
        ({"question": "q", "reference": "r", "answers": "a"}, ":2: field 'answers': must be a list of strings"),
        ({"question": "q", "reference": "r", "answers": [None]}, ":2: field 'answers': must be a list of strings"),
        ({"question": "q", "reference": "r", "answers": []}, ":2: field 'answers': has 0, must have 1 to 26"),
        ({"question": "q", "reference": "r", "answers": ["a"] * 27}, ":2: field 'answers': has 27"),
        ({"question": "q", "reference": "r", "answer": "a", "id": 1.5}, ":2: field 'id': must be a string"),
        ({"question": "q", "reference": "r", "answer": "a", "id": "r0"}, ":2: field 'id': 'r0' stands twice"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, bad: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_examples(write_rows(tmp_path / "in.jsonl", [row(0), bad]))
    assert str(error.value).startswith(f"{tmp_path}/in.jsonl{message}") and "\n" not in str(error.value)


def test_bad_rows_stop_the_run_before_any_call(run: Run, endpoint: Any, tmp_path: Path) -> None:
    done = run("evaluate", write_rows(tmp_path / "in.jsonl", [row(0), {"question": "q"}]), "--model", endpoint.spec())
    assert done.returncode == 2 and done.stderr == f"error: {tmp_path}/in.jsonl:2: field 'reference' is missing\n"
    assert not endpoint.requests and not list(tmp_path.glob("*.results.jsonl"))


def test_without_a_model_it_says_what_to_name(run: Run, tmp_path: Path) -> None:
    done = run("evaluate", write_rows(tmp_path / "in.jsonl", [row(0)]))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    for form in ("--model", "transformers:FOLDER", "openai:MODEL@http", "vllm:FOLDER"):
        assert form in done.stderr


DOWN = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.jsonl", "--model", f"openai:m@{DOWN}"], "nowhere.jsonl: cannot be read"),
        (["in.jsonl", "--model", "nowhere"], "model 'nowhere': no such folder"),
        (["in.jsonl", "--model", f"openai:m@{DOWN}"], f"cannot reach {DOWN}: connection refused"),
        (["in.jsonl", "--model", f"openai:m@{DOWN}", "--variant", "papre"], "'papre' does not exist"),
        (["in.jsonl", "--model", f"openai:m@{DOWN}", "--temperature", "nan"], "--temperature is nan"),
        (["in.jsonl", "--model", f"openai:m@{DOWN}", "--api-key-env", "NO_KEY"], "NO_KEY is not set"),
        (["in.jsonl", "--model", f"openai:m@{DOWN}", "--cache", "notes"], "notes: cannot be used as a reply cache"),
        (["in.jsonl", "--model", f"openai:m@{DOWN}", "--out", "in.jsonl"], "--out in.jsonl: is the file of INPUT"),
    ],
)
def test_other_bad_input_is_one_line(
    tmp_path: Path, monkeypatch: Any, capsys: Any, arguments: list[str], message: str
) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps(row(0)))  # a last line without its end is not torn by us
    (tmp_path / "notes").write_text("some notes")
    before = (tmp_path / "in.jsonl").read_bytes()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["rag-zeval", "evaluate", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert stop.value.code == 2 and len(errors) == 1 and message in errors[0]
    assert (tmp_path / "in.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("stop", "status", "said"),
    [
        (None, 5, ""),
        (InputError("in.jsonl:2: field 'x': bad"), 2, "error: in.jsonl:2: field 'x': bad\n"),
        (OSError(28, "No space left on device", "two\nlines"), 2, "error: [Errno 28] No space left on device: "),
        (InputError("two\nlines"), 2, "error: two lines\n"),
        (KeyboardInterrupt(), 130, "interrupted: the same command goes on from here\n"),
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


def test_a_bug_is_no_input_error() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_status(lambda: 1 // 0)


def test_an_interrupted_run_says_that_it_goes_on(endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies, endpoint.delay = reply_text(2), 0.2
    rows, out = write_rows(tmp_path / "in.jsonl", [row(n) for n in range(50)]), tmp_path / "out.jsonl"
    handled = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # `pytest &` ignores it
    line = [sys.executable, "-c", f"{handled}; from rag_zeval.cli import main; main()", *command()[3:]]
    line += ["evaluate", str(rows), "--model", endpoint.spec(), "--concurrency", "1", "--out", str(out)]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(line, env=ENVIRONMENT, **quiet) as process:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and (not out.exists() or not out.read_bytes()):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=30)[1]
    assert process.returncode == 130 and "Traceback" not in errors
    assert errors.splitlines()[-1] == "interrupted: the same command goes on from here"
    assert 0 < len(read_rows(out)) < 50


def test_a_cache_that_breaks_is_one_line(run: Run, endpoint: Any, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("CREATE TABLE replies (something TEXT)")
    rows = write_rows(tmp_path / "in.jsonl", [row(0)])
    done = run("evaluate", rows, "--model", endpoint.spec(), "--cache", "other.sqlite")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == "error: other.sqlite: the reply cache cannot be used: no such column: reply"


CANARY = "sk-canary+0123456789/abcdefghijklmnopqrstuvwxyz"


def test_a_key_with_the_end_of_its_line_works_and_a_broken_one_is_not_shown(
    run: Run, endpoint: Any, reply_text: Any, tmp_path: Path
) -> None:
    endpoint.replies = reply_text(2)
    rows = write_rows(tmp_path / "in.jsonl", [row(0)])
    done = run("evaluate", rows, "--model", endpoint.spec(), OPENAI_API_KEY=f"{CANARY}\r")
    assert done.returncode == 0, done.stderr
    assert endpoint.headers[0]["authorization"] == f"Bearer {CANARY}"
    for command in (["evaluate", rows], ["smoke"]):
        done = run(*command, "--model", endpoint.spec(), OPENAI_API_KEY=f"{CANARY}\r\nX: y")
        said = "error: environment variable OPENAI_API_KEY is no API key: no HTTP header can carry what it holds\n"
        assert (done.returncode, done.stderr, done.stdout) == (2, said, "")


def test_a_key_that_comes_back_stands_nowhere(run: Run, hostile: Any, tmp_path: Path) -> None:
    hostile.honest = literal_reply
    rows = write_rows(tmp_path / "in.jsonl", [row(n) for n in range(6)])
    judge = ["--model", f"openai:judge@{hostile.url}", "--html", "o.html", "--cache", "c.sqlite", "--timeout", 3]
    for mode in ("the key in an error", "the key in a reply", "the key escaped in a reply", "the key in a page"):
        hostile.mix(dict.fromkeys((1, 2, 3), mode))
        done = run("evaluate", rows, *judge, OPENAI_API_KEY=CANARY)
        assert done.returncode == 0, done.stderr
        shown = [done.stdout.encode(), done.stderr.encode(), *(path.read_bytes() for path in tmp_path.iterdir())]
        assert [shows_key(content, CANARY) for content in shown] == [[]] * len(shown)


def test_limits_reach_the_endpoint_and_are_said(run: Run, hostile: Any, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "in.jsonl", [{**row(0), "answers": ["yes"]}])
    judge = ["--model", f"openai:judge@{hostile.url}", "--out", "o.jsonl"]
    for mode, limit, said in (
        ("hangs", ["--timeout", 0.5], "no answer within 0.5 s"),
        ("an endless body", ["--max-body-mib", 0.5], "the answer is longer than 0.5 MiB"),
    ):
        hostile.set(mode)
        done = run("evaluate", rows, *judge, *limit)
        assert done.returncode == 1 and f"failed: {said}" in done.stdout
    hostile.set("hangs", on_models=True)
    done = run("evaluate", rows, *judge, "--connect-timeout", 0.5)
    assert done.returncode == 0
    assert f"note: {hostile.url}/models: no answer within 0.5 s; requests are sent all the same\n" in done.stderr
    done = run("evaluate", rows, *judge, "--timeout", "nan")
    assert (done.returncode, done.stderr) == (2, "error: timeout is nan, must be a number above 0\n")


def test_bad_usage_and_help_keep_their_statuses(run: Run) -> None:
    assert run("evaluate", "in.jsonl", "--trials", "0").returncode == 2
    assert run("evaluate", "--help").returncode == run("version").returncode == 0


def test_sampling_reaches_the_model_and_the_rows(run: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies = reply_text(2)
    rows = write_rows(tmp_path / "in.jsonl", [row(0)])
    assert run("evaluate", rows, "--model", endpoint.spec(), "--out", "default.jsonl").returncode == 0
    changed = ["evaluate", rows, "--model", endpoint.spec(), "--max-tokens", 77, "--temperature", 0.5]
    assert run(*changed, "--out", "o.jsonl").returncode == 0
    assert [(sent["max_tokens"], sent["temperature"]) for sent in endpoint.requests] == [(8192, 0.1), (77, 0.5)]
    (noted,) = read_rows(tmp_path / "o.jsonl")
    assert (noted["sampling"]["max_tokens"], noted["sampling"]["temperature"]) == (77, 0.5)
    assert "made with another sampling" in run(*changed, "--out", "default.jsonl").stderr


def test_a_killed_run_goes_on_and_ends_like_an_undisturbed_one(
    run: Run, endpoint: Any, reply_text: Any, tmp_path: Path
) -> None:
    endpoint.replies = lambda request: reply_text(2, number(request) % 2 == 0)
    endpoint.delay = 0.1
    rows = write_rows(tmp_path / "in.jsonl", [row(n) for n in range(12)])
    arguments = ["evaluate", rows, "--model", endpoint.spec(), "--concurrency", 1]
    out = tmp_path / "out.jsonl"
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command(*arguments, "--out", out), env=ENVIRONMENT, **quiet) as process:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and (not out.exists() or len(out.read_bytes().splitlines()) < 4):
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    before = out.read_bytes()
    assert 4 <= before.count(b"\n") < 12
    out.write_bytes(before + b'{"id": "r11", "sco')  # as if killed in mid-write
    endpoint.delay = 0
    calls = len(endpoint.requests)
    assert run(*arguments, "--out", out).returncode == 0
    assert len(endpoint.requests) - calls == 12 - before.count(b"\n")
    assert out.read_bytes().startswith(before)
    assert run(*arguments, "--out", "whole.jsonl").returncode == 0
    strip = {"seconds"}
    resumed, whole = (
        sorted(sorted((k, str(v)) for k, v in each.items() if k not in strip) for each in read_rows(path))
        for path in (out, tmp_path / "whole.jsonl")
    )
    assert resumed == whole and len(resumed) == 12
    done = run(*arguments, "--out", out)  # nothing left to do
    assert done.returncode == 0 and "24 of 24" in done.stdout
    assert len(endpoint.requests) == calls + 24 - before.count(b"\n")


def test_a_second_run_is_refused_and_changes_nothing(run: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies = lambda request: None if number(request) in (0, 7) else reply_text(2)  # None is HTTP 400
    endpoint.delay = 0.1
    rows, out = write_rows(tmp_path / "in.jsonl", [row(n) for n in range(30)]), tmp_path / "o.jsonl"
    arguments = ["evaluate", rows, "--model", endpoint.spec(), "--out", out, "--concurrency", 1]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command(*arguments), env=ENVIRONMENT, **quiet) as first:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and (not out.exists() or not out.read_bytes()):
            time.sleep(0.02)
        second = run(*arguments)
        assert first.poll() is None
    assert second.returncode == 2
    assert second.stderr.splitlines()[-1] == f"error: {out}: another run is writing this file"
    assert sorted(each["id"] for each in read_rows(out)) == sorted(f"r{n}" for n in range(30))
    assert sorted(map(number, endpoint.requests)) == list(range(30))


def test_what_another_run_is_writing_is_not_cut(run: Run, endpoint: Any, tmp_path: Path) -> None:
    rows, out = write_rows(tmp_path / "in.jsonl", [row(n) for n in range(3)]), tmp_path / "o.jsonl"
    out.write_bytes(b'{"id": "half of a row')
    with open(out, "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        refused = run("evaluate", rows, "--model", endpoint.spec(), "--out", out)
    assert refused.returncode == 2 and "another run is writing this file" in refused.stderr
    assert out.read_bytes() == b'{"id": "half of a row' and not endpoint.requests


def test_a_row_torn_at_any_byte_is_done_again(reply_text: Any, tmp_path: Path) -> None:
    evaluator = Evaluator(ScriptedBackend([reply_text(1)]))
    example = Example("x", "q", "r {}", ("a",))
    line = json.dumps(result_row(evaluator, example, evaluator.evaluate("q", "r {}", ["a"]), 0)).encode()
    other = line.replace(b'"x"', b'"y"')
    out = tmp_path / "o.jsonl"
    for cut in range(len(line) + 1):
        out.write_bytes(line + b"\n" + other[:cut])
        with RowWriter(out) as writer:
            assert not failed_rows(writer, evaluator, {"x": example, "y": example})
            writer.settle()
        assert out.read_bytes() == line + b"\n" + (other + b"\n" if cut == len(line) else b"")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((text, "o.jsonl: is no file") for text in ("5", "null", '"an example"', '["example"]', "notes", "{}")),
        ('{"other": 1}', "o.jsonl: is no file"),
        (json.dumps(row(0)), "o.jsonl:1: field 'example' is missing; name another --out"),
        (json.dumps(row(0)) + "\n" + json.dumps(row(1)), "o.jsonl:1: field 'example' is missing; name another --out"),
        (json.dumps(row(0)) + '\n{"id": "torn', "o.jsonl:1: field 'example' is missing; name another --out"),
        ("some\nnotes\n", "o.jsonl:1: not valid JSON"),
    ],
)
def test_a_file_that_is_not_ours_is_left_alone(
    run: Run, endpoint: Any, tmp_path: Path, content: str, message: str
) -> None:
    rows, out = write_rows(tmp_path / "in.jsonl", [row(0)]), tmp_path / "o.jsonl"
    out.write_text(content)
    os.utime(out, (1, 1))
    refused = run("evaluate", rows, "--model", endpoint.spec(), "--out", "o.jsonl")
    assert refused.returncode == 2 and refused.stderr.startswith(f"error: {message}")
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
        ["--out", "link"],
        ["--out", "o.jsonl", "--cache", "o.jsonl"],
        ["--html", "o.html", "--cache", "o.html"],
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
    assert f"{options[-2]} {options[-1].removeprefix('./')}: is the file of " in refused.stderr
    assert not endpoint.requests and rows.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.parametrize("option", ["--out", "--html", "--cache"])
@pytest.mark.parametrize("place", ["pipe", "folder", "device"])
def test_only_regular_files_are_written(run: Run, endpoint: Any, tmp_path: Path, option: str, place: str) -> None:
    rows = write_rows(tmp_path / "in.jsonl", [row(0)])
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/full")  # which a rename would put away
    refused = run("evaluate", rows, "--model", endpoint.spec(), option, place)
    assert (refused.returncode, refused.stderr) == (2, f"error: {place}: is no regular file; name another\n")
    assert not endpoint.requests


def test_half_a_surrogate_is_a_good_id(run: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies = lambda request: None if number(request) == 3 else reply_text(2)
    ids = ["\ud83d", "\ud83e", "a\udc00b", "?"]
    rows = write_rows(tmp_path / "in.jsonl", [row(n, id=id_) for n, id_ in enumerate(ids)])
    arguments = ["evaluate", rows, "--model", endpoint.spec(), "--trials", 2, "--out", "o.jsonl", "--html", "o.html"]
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    found = read_rows(tmp_path / "o.jsonl")
    assert {(each["id"], each["example"]) for each in found} == {(id_ + t, id_) for id_ in ids for t in ("", "#1")}
    assert run(*arguments).returncode == 0 and len(endpoint.requests) == 2 * 4 + 2  # the failed rows alone


def test_a_full_disk_is_named_and_no_row_is_torn(run: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies = reply_text(2)
    rows, out = write_rows(tmp_path / "in.jsonl", [row(n) for n in range(6)]), tmp_path / "o.jsonl"
    arguments = ["evaluate", str(rows), "--model", endpoint.spec(), "--concurrency", "1", "--out", str(out)]

    def limited(size: int, *more: str) -> subprocess.CompletedProcess[str]:
        code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
        line = [sys.executable, "-c", f"{code}; from rag_zeval.cli import main; main()", *arguments, *more]
        return subprocess.run(line, capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False)

    full = limited(4000)
    assert full.returncode == 2 and "Traceback" not in full.stderr
    assert full.stderr.splitlines()[-1].startswith("error: ") and full.stderr.endswith(f": '{out}'\n")
    written = len(read_rows(out))  # all lines are whole
    assert out.read_bytes().endswith(b"\n") and 0 < written < 6
    asked = len(endpoint.requests)
    assert run(*arguments).returncode == 0
    assert sorted(each["id"] for each in read_rows(out)) == [f"r{n}" for n in range(6)]
    assert len(endpoint.requests) == asked + 6 - written
    html = tmp_path / "o.html"
    html.write_text("an older report")
    full = limited(4000, "--html", str(html))
    assert full.returncode == 2 and full.stderr.endswith(f": '{html}'\n")
    assert html.read_text() == "an older report" and not list(tmp_path.glob("*.part"))


def test_the_end_of_a_long_run_does_not_hold_its_rows(endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies = reply_text(2)
    count, length = 3_000, 30_000
    rows = write_rows(tmp_path / "in.jsonl", [row(n) for n in range(count)])
    out = tmp_path / "o.jsonl"
    arguments = ["evaluate", str(rows), "--model", endpoint.spec(), "--out", str(out)]
    evaluator = Evaluator(open_backend(endpoint.spec()))
    evaluation = Evaluation("", [1.0, None], "ok", calls=1, prompt_tokens=7, completion_tokens=5, reply="x" * length)
    with RowWriter(out) as writer:
        for example in read_examples(rows):
            writer.append(result_row(evaluator, example, replace(evaluation, id=example.id), 0))
    done = subprocess.run([sys.executable, "-c", PEAK, *arguments], env=ENVIRONMENT, capture_output=True, text=True)
    assert f"{count} of {2 * count}" in done.stdout and not endpoint.requests
    assert int(done.stdout.split()[-1]) < out.stat().st_size / 2**20 + 80


def test_a_mark_before_utf_8_is_read_over(run: Run, endpoint: Any, tmp_path: Path) -> None:
    rows = tmp_path / "in.jsonl"
    rows.write_bytes(b"\xef\xbb\xbf" + json.dumps({**row(0), "answers": ["a"]}).encode() + b"\r\n")
    done = run("evaluate", rows, "--model", endpoint.spec())
    assert done.returncode == 0 and "1 of 1" in done.stdout
    rows.write_bytes(rows.read_bytes() + b'{"id": "\xff"}')
    assert run("evaluate", rows).stderr.startswith("error: no judge named")
    bad = run("evaluate", rows, "--model", endpoint.spec())
    assert bad.stderr == f"error: {rows}:2: not UTF-8 text: invalid start byte at byte 8\n"


def test_failed_rows_are_tried_again(run: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies = reply_text(2)
    endpoint.faults = [{"status": 400}]
    rows = write_rows(tmp_path / "in.jsonl", [row(0), row(1)])
    arguments = ["evaluate", rows, "--model", endpoint.spec(), "--out", "o.jsonl", "--concurrency", 1]
    assert "2 of 4 (coverage 50.0%)" in run(*arguments).stdout
    again = run(*arguments)
    assert "trying 1 failed rows again" in again.stderr and "4 of 4 (coverage 100.0%)" in again.stdout
    assert [each["id"] for each in read_rows(tmp_path / "o.jsonl")] == ["r1", "r0"] and len(endpoint.requests) == 3


def test_an_unreadable_reply_is_asked_again_also_with_a_cache(
    run: Run, endpoint: Any, reply_text: Any, tmp_path: Path
) -> None:
    endpoint.replies = lambda request: "sorry" if number(request) == 1 else reply_text(2)
    rows = write_rows(tmp_path / "in.jsonl", [row(0), row(1)])
    arguments = ["evaluate", rows, "--model", endpoint.spec(), "--out", "o.jsonl", "--cache", "c.sqlite", "--trials", 2]
    assert "4 of 8 (coverage 50.0%)" in run(*arguments).stdout
    endpoint.replies = reply_text(2)
    again = run(*arguments)
    assert "trying 2 failed rows again" in again.stderr and "8 of 8 (coverage 100.0%)" in again.stdout
    assert [number(sent) for sent in endpoint.requests[4:]] == [1, 1]
    (tmp_path / "o.jsonl").unlink()
    assert "8 of 8" in run(*arguments).stdout and len(endpoint.requests) == 6  # and the good reply is kept


def test_a_result_file_holds_one_run_only(run: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies = reply_text(2)
    rows = write_rows(tmp_path / "in.jsonl", [row(0)])
    out = ["--out", tmp_path / "o.jsonl"]
    assert run("evaluate", rows, "--model", endpoint.spec(), *out).returncode == 0
    kept = (tmp_path / "o.jsonl").read_bytes()
    other_model = run("evaluate", rows, "--model", endpoint.spec().replace("judge", "other"), *out)
    other_prompt = run("evaluate", rows, "--model", endpoint.spec(), "--variant", "verdict-last", *out)
    write_rows(rows, [row(0, reference="It is not so.")])
    other_input = run("evaluate", rows, "--model", endpoint.spec(), *out)
    for done, field in ((other_model, "identity"), (other_prompt, "variant"), (other_input, "input_sha256")):
        assert done.returncode == 2 and f"made with another {field}; name another --out" in done.stderr
    assert (tmp_path / "o.jsonl").read_bytes() == kept


def test_trials_are_samples_of_their_own_and_cached_ones_cost_nothing(
    run: Run, endpoint: Any, reply_text: Any, tmp_path: Path
) -> None:
    endpoint.replies = lambda request: reply_text(2, request["seed"] % 2 == 0)
    rows = write_rows(tmp_path / "in.jsonl", [row(n) for n in range(3)])
    arguments = ["evaluate", rows, "--model", endpoint.spec(), "--trials", 3, "--cache", "replies.sqlite"]
    first = run(*arguments, "--out", "one.jsonl")
    assert first.returncode == 0 and "SD over trials" in first.stdout and len(endpoint.requests) == 9
    assert len({request["seed"] for request in endpoint.requests}) == 9
    found = read_rows(tmp_path / "one.jsonl")
    assert {each["id"] for each in found} == {f"r{n}{t}" for n in range(3) for t in ("", "#1", "#2")}
    again = run(*arguments, "--out", "two.jsonl")
    assert len(endpoint.requests) == 9 and "0 (9 rows from the cache)" in again.stdout
    repeated = {each["id"]: each["scores"] for each in read_rows(tmp_path / "two.jsonl")}
    assert repeated == {each["id"]: each["scores"] for each in found}


def test_structured_rows_are_their_own(run: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies = reply_text(2)
    rows, out = write_rows(tmp_path / "in.jsonl", [row(0)]), tmp_path / "o.jsonl"
    arguments = ["evaluate", rows, "--model", endpoint.spec(), "--out", out]
    assert run(*arguments).returncode == 0
    old = read_rows(out)
    assert old[0].pop("structured") is False
    write_rows(out, old)  # a row of version 0.1.0 does not say
    assert run(*arguments).returncode == 0 and len(endpoint.requests) == 1
    refused = run(*arguments, "--structured")
    assert refused.returncode == 2 and "made with another structured; name another --out" in refused.stderr
    assert run(*arguments[:-1], tmp_path / "s.jsonl", "--structured").returncode == 0
    schema = endpoint.requests[1]["response_format"]["json_schema"]["schema"]
    assert schema == response_schema(2, "paper") and read_rows(tmp_path / "s.jsonl")[0]["structured"] is True


def test_structured_replies_need_a_server(run: Run, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "in.jsonl", [row(0)])
    refused = run("evaluate", rows, "--model", "transformers:folder", "--structured")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert "replies of transformers:folder cannot be held to a schema" in refused.stderr


def test_when_nothing_could_be_scored_the_run_fails(run: Run, endpoint: Any, tmp_path: Path) -> None:
    endpoint.replies = "\ud800 no"
    done = run("evaluate", write_rows(tmp_path / "in.jsonl", [row(0)]), "--model", endpoint.spec())
    assert done.returncode == 1 and "no answer could be scored" in done.stderr and "0 of 2" in done.stdout


def test_unprintable_replies_are_written(run: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies = reply_text(2).replace("Clear.", "\\ud800 \\u0000")
    rows = write_rows(tmp_path / "in.jsonl", [row(0, reference="half \ud83d", answers=["\ud83d", "\x00"])])
    done = run("evaluate", rows, "--model", endpoint.spec(), "--html", "r.html")
    assert done.returncode == 0, done.stderr
    assert read_rows(tmp_path / "in.results.jsonl")[0]["scores"] == [1.0, 1.0]


def test_version(run: Run) -> None:
    from rag_zeval import __version__

    assert run("version").stdout == f"{__version__}\n"


HEAVY = {"torch", "verl", "vllm", "ray", "transformers", "openai", "numpy", "scipy", "pandas"}


@pytest.mark.parametrize("arguments", [["--help"], ["evaluate", "--help"], ["serve", "--help"], ["version"]])
def test_help_is_quick_and_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import resource, sys\n"
        "from rag_zeval.cli import main\n"
        f"sys.argv[1:] = {arguments!r}\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(used.ru_utime + used.ru_stime, *{name.split('.')[0] for name in sys.modules}, file=sys.stderr)\n"
    )
    line = [sys.executable, "-c", code]
    for _ in range(3):  # busy neighbours cost CPU time too, so one quick run of three will do
        done = subprocess.run(line, capture_output=True, text=True, env=ENVIRONMENT, check=True)
        seconds, *modules = done.stderr.split()
        assert not HEAVY & set(modules)
        if float(seconds) < 1.0:
            return
    pytest.fail(f"{arguments} takes {seconds} s of CPU")


def result(example: str, *scores: float | None, trial: int = 0, status: str = "ok", **more: Any) -> dict[str, Any]:
    accounting = {"calls": 1, "prompt_tokens": 10, "completion_tokens": 2, "cached": False, **more}
    return {"example": example, "trial": trial, "scores": list(scores), "status": status, **accounting}


def test_a_missing_score_is_no_number() -> None:
    found = summarize([result("a", 1.0, None), result("b", None, None, status="failed: x"), result("c", 0.5, 0.0)])
    assert (found.rows, found.answers, found.scored, found.mean, found.coverage) == (3, 6, 3, 0.5, 0.5)
    assert found.statuses == {"ok": 2, "failed: x": 1} and found.trial_sd is None
    none = summarize([result("a", None)])
    assert (none.mean, none.ci, none.coverage) == (None, None, 0.0)


UNTOLD = {"prompt_tokens": None, "completion_tokens": None}
REFUSED = {"calls": 0, **UNTOLD}
CACHED = {"calls": 0, "cached": True}


@pytest.mark.parametrize(
    ("rows", "tokens", "shown"),
    [
        ([{}, {}], (20, 4), "20 in, 4 out"),
        ([UNTOLD, UNTOLD], (None, None), "unknown in, unknown out"),
        ([{"completion_tokens": None}], (10, None), "at least 10 in, unknown out"),
        ([{}, UNTOLD], (10, 2), "at least 10 in, at least 2 out"),
        ([{}, REFUSED, CACHED], (10, 2), "10 in, 2 out"),  # neither cost anything
        ([CACHED, CACHED | UNTOLD], (0, 0), "0 in, 0 out"),
    ],
)
def test_unknown_tokens_are_no_number(rows: list[dict[str, Any]], tokens: tuple[Any, Any], shown: str) -> None:
    found = summarize([result(str(i), 1.0, **more) for i, more in enumerate(rows)])
    assert (found.prompt_tokens, found.completion_tokens) == tokens
    assert dict(summary_lines(found))["tokens"] == shown


def test_statuses_that_differ_in_numbers_are_one() -> None:
    long = [f"failed: reference needs {n} tokens" for n in (15, 20, 15, 300)]
    statuses = ["failed: HTTP 500: no", "ok", *long, "failed: HTTP 500: no"]
    found = summarize([result(str(i), None, status=status) for i, status in enumerate(statuses)]).statuses
    assert list(found.items()) == [
        ("ok", 1),
        ("failed: reference needs 15 tokens (and 2 like it)", 4),
        ("failed: HTTP 500: no", 2),
    ]


def test_the_interval_covers_the_mean_at_its_rate() -> None:
    import numpy as np

    random = np.random.default_rng(1)
    covered = 0
    for _ in range(100):
        rows = [result(str(i), *random.binomial(1, 0.6, 2).astype(float).tolist()) for i in range(40)]
        low, high = summarize(rows).ci or (0, 0)
        covered += low <= 0.6 <= high
    assert 86 <= covered <= 100  # 95 of 100 are expected; 86 has a chance below 1 in 1,000


def test_the_interval_treats_an_example_as_one_draw() -> None:
    """Ten copies of each answer add no knowledge: the interval must stay as wide."""
    once = summarize([result(str(i), float(i % 2)) for i in range(30)]).ci
    copied = summarize([result(str(i), *[float(i % 2)] * 10) for i in range(30)]).ci
    assert once == copied
    over_trials = [result(str(i), float(i % 2), trial=trial) for i in range(30) for trial in range(3)]
    assert summarize(over_trials).ci == once and summarize(over_trials).trial_sd == 0
