"""`serve` starts vLLM's server with our arguments, and `smoke` asks a server one question."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from rag_zeval.cli import main
from rag_zeval.errors import InputError
from rag_zeval.files import model_sha256
from rag_zeval.judge.parser import response_schema
from rag_zeval.serve import LONGEST, MODULE, URL, serve_command, served_name
from rag_zeval.smoke import TOY, nano_example

ROOT = Path(__file__).parents[2]
NANO = ROOT / "checkpoints" / "nano-judge"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit status of `rag-zeval` with these arguments, in this process."""
    monkeypatch.setattr(sys, "argv", ["rag-zeval", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def value(command: list[str], option: str) -> str:
    return command[len(command) - command[::-1].index(option)]  # the last one counts


@pytest.mark.parametrize(("window", "served"), [(1024, 1024), (32_768, LONGEST)])
def test_the_window_is_the_models_up_to_what_it_was_trained_with(window: int, served: int, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": window}))
    command = serve_command(str(tmp_path), ["--port", "8001", "--seed", "5"])
    assert command[:3] == [sys.executable, "-m", MODULE]
    assert value(command, "--model") == str(tmp_path) and value(command, "--max-model-len") == str(served)
    assert (value(command, "--host"), value(command, "--generation-config")) == ("127.0.0.1", "vllm")
    assert (value(command, "--port"), value(command, "--seed")) == ("8001", "5")
    assert value(command, "--served-model-name") == served_name(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "no model here"),
        ("{", r"config\.json: not valid JSON"),
        ("[]", r"config\.json: expected a JSON object, found list"),
        ("{}", r"config\.json: field 'max_position_embeddings' is missing"),
        ('{"max_position_embeddings": "x"}', "must be int, found str"),
        ('{"max_position_embeddings": 0}', "must be a whole number above 0, found 0"),
    ],
)
def test_a_folder_without_a_model_is_refused(config: str | None, message: str, tmp_path: Path) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(InputError, match=message) as error:
        serve_command(str(tmp_path))
    assert "\n" not in str(error.value)


def stand_in(folder: Path) -> dict[str, str]:
    """An environment with a stand-in for vLLM that shows what it was given."""
    module = folder.joinpath(*MODULE.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True)
    module.write_text("import os, sys\nprint(os.getpid(), *sys.argv[1:])\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


def start_serving(folder: Path, env: dict[str, str], *extra: str) -> tuple[list[str], list[str]]:
    """The options that `serve` says the model is asked by, and the server's arguments."""
    line = [sys.executable, "-m", "rag_zeval", "serve", str(folder), *extra]
    with subprocess.Popen(line, stdout=subprocess.PIPE, env=env, text=True) as started:
        said = started.communicate(timeout=60)[0].splitlines()
    pid, *arguments = said[1].split()
    assert started.returncode == 0 and int(pid) == started.pid  # it became the server
    return said[0].partition(" asked as: ")[2].split(), arguments


def test_serve_becomes_the_server_of_a_model_named_by_its_weights(tmp_path: Path) -> None:
    asked, arguments = start_serving(NANO, stand_in(tmp_path), "--port", "8001", "--enforce-eager")
    name = value(arguments, "--served-model-name")
    assert asked == ["--model", f"openai:{name}@{URL}", "--variant", "compact"]
    assert arguments[-3:] == ["--port", "8001", "--enforce-eager"] and value(arguments, "--max-model-len") == "1024"
    assert re.fullmatch("judge-[0-9a-f]{12}", name) and name.endswith(model_sha256(NANO)[:12])


def test_two_models_served_in_turn_share_no_row_and_no_reply(
    endpoint: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    rows = tmp_path / "in.jsonl"
    rows.write_text(json.dumps({"question": "q", "reference": "r", "answer": "a"}) + "\n")
    env, cache = stand_in(tmp_path / "vllm"), tmp_path / "replies.sqlite"

    def evaluate(folder: Path, out: str) -> int:
        asked, _ = start_serving(folder, env)
        where = [word.replace(URL, endpoint.url) for word in asked[:2]]  # whatever is served: on one port
        return run(monkeypatch, "evaluate", str(rows), *where, "--out", str(tmp_path / out), "--cache", str(cache))

    base, judge = ROOT / "checkpoints" / "nano-base", NANO
    assert evaluate(judge, "first.jsonl") == evaluate(base, "second.jsonl") == 0
    assert len(endpoint.requests) == 2 and len({body["model"] for body in endpoint.requests}) == 2
    assert evaluate(base, "first.jsonl") == 2
    assert "was made with another identity; name another --out" in capsys.readouterr().err
    assert evaluate(judge, "first.jsonl") == 0 and len(endpoint.requests) == 2


def test_without_vllm_it_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run(monkeypatch, "serve", str(NANO)) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("error: vLLM is missing: ") and shown.err.count("\n") == 1


def test_a_judge_that_answers_is_shown(
    endpoint: Any, reply_text: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    endpoint.replies, endpoint.delay = reply_text(2), 0.1
    assert run(monkeypatch, "smoke", "--model", endpoint.spec(), "--structured") == 0
    shown = capsys.readouterr().out
    for letter, answer in zip("AB", TOY.answers, strict=True):
        assert f"{letter}       1.000  {answer}\n" in shown
    assert "status  ok\n" in shown and "prompt paper, structured\n" in shown
    [(seconds, pace)] = re.findall(r"^speed   5 tokens in ([\d.]+) s: (\d+) tokens/s$", shown, re.MULTILINE)
    assert float(seconds) >= 0.1 and float(pace) == pytest.approx(5 / float(seconds), abs=0.5 + 0.6 / float(seconds))
    [sent] = endpoint.requests
    assert sent["response_format"]["json_schema"]["schema"] == response_schema(2, "paper")
    assert TOY.question in sent["messages"][0]["content"] and sent["temperature"] == 0


def test_a_judge_served_from_a_folder_here_is_asked_what_its_card_says(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    claim = {"claim": "c", "grounding_evidence": [], "analysis": "", "is_supported": True}
    endpoint.replies = json.dumps([{"id": letter, "atomic_claims": [claim]} for letter in "AB"])
    spec = endpoint.spec(served_name(NANO))
    assert run(monkeypatch, "smoke", "--served", str(NANO), "--model", spec) == 0
    monkeypatch.setattr("rag_zeval.serve.URL", endpoint.url)  # as if it were vLLM's own port
    assert run(monkeypatch, "smoke", "--served", str(NANO)) == 0
    assert capsys.readouterr().out.count(f"judge   {spec}, prompt compact\n") == 2
    for request in endpoint.requests:
        assert nano_example().question in request["messages"][0]["content"]
        assert (request["model"], request["max_tokens"]) == (served_name(NANO), 512)


def test_a_server_does_not_choose_which_files_are_read(
    endpoint: Any, reply_text: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    endpoint.replies, endpoint.models = reply_text(2), [{"id": "judge", "root": str(NANO)}]
    assert run(monkeypatch, "smoke", "--model", endpoint.spec()) == 0
    assert "prompt paper\n" in capsys.readouterr().out
    assert TOY.question in endpoint.requests[0]["messages"][0]["content"]


def test_which_judge_to_ask_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path) -> None:
    other = f"openai:judge@{URL}"
    for arguments, message in (
        ([], "no judge named: add --served with the folder that is served here, or --model with any judge"),
        (["--served", str(tmp_path)], f"{tmp_path}: no model here (config.json is missing)"),
        (["--served", str(NANO), "--model", other], f"{NANO} is served as {served_name(NANO)}, not as {other}"),
        (["--served", str(NANO), "--model", str(NANO)], f"{NANO} is served as {served_name(NANO)}, not as {NANO}"),
    ):
        assert run(monkeypatch, "smoke", *arguments) == 2
        shown = capsys.readouterr()
        assert shown.out == "" and message in shown.err and shown.err.count("\n") == 1


@pytest.mark.parametrize("act", ["no text", "length", {"status": 500, "body": {"error": {"message": "x"}}}])
def test_a_reply_that_cannot_be_read_is_a_failure(
    act: Any, endpoint: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    endpoint.replies, endpoint.faults = "Mary Shelley.", [act] * 6
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.02)
    assert run(monkeypatch, "smoke", "--model", endpoint.spec()) == 1
    shown = capsys.readouterr().out
    assert "A       no score" in shown and "status  failed: " in shown


def test_no_server_and_no_constraint_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert run(monkeypatch, "smoke", "--model", "openai:judge@http://127.0.0.1:1/v1") == 2
    assert capsys.readouterr().err == "error: cannot reach http://127.0.0.1:1/v1: connection refused\n"
    assert run(monkeypatch, "smoke", "--model", str(NANO), "--structured") == 2
    assert "cannot be held to a schema" in capsys.readouterr().err


@pytest.mark.vllm
@pytest.mark.parametrize("structured", [[], ["--structured"]])
def test_a_judge_served_by_vllm_answers(served: str, structured: list[str]) -> None:
    command = [sys.executable, "-m", "rag_zeval", "smoke", "--served", str(NANO), "--model", served, *structured]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^status  ok$", done.stdout, re.M)
    assert f"prompt compact{', structured' if structured else ''}\n" in done.stdout
    assert len(re.findall(r"^[AB]       [01]\.\d{3}  ", done.stdout, re.M)) == 2


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The nano judge behind vLLM's own server; how it is asked."""
    pytest.importorskip("vllm")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("served") / "server.log"
    command = [sys.executable, "-m", "rag_zeval", "serve", str(NANO), "--port", str(port), "--enforce-eager"]
    with log.open("w") as out, subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out) as server:
        try:
            deadline = time.monotonic() + 400
            while True:
                with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    break
                assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(1)
            yield f"openai:{served_name(NANO)}@http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            server.wait(timeout=60)
