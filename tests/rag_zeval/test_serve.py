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
from rag_zeval.parser import response_schema
from rag_zeval.serve import LONGEST, MODULE, NAME, SPEC, serve_command
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
    assert f"openai:{value(command, '--served-model-name')}@http://127.0.0.1:8000/v1" == SPEC


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "no model here"),
        ("{", "not a model's configuration"),
        ("[]", "not a model's configuration"),
        ("{}", "not a model's configuration"),
        ('{"max_position_embeddings": "x"}', "must be a whole number above 0, found x"),
        ('{"max_position_embeddings": 0}', "must be a whole number above 0, found 0"),
    ],
)
def test_a_folder_without_a_model_is_refused(config: str | None, message: str, tmp_path: Path) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(InputError, match=message) as error:
        serve_command(str(tmp_path))
    assert "\n" not in str(error.value)


def test_serve_becomes_the_server(tmp_path: Path) -> None:
    """With a stand-in for vLLM that shows what it was given."""
    module = tmp_path.joinpath(*MODULE.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True)
    module.write_text("import os, sys\nprint(os.getpid(), *sys.argv[1:])\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    line = [sys.executable, "-m", "rag_zeval", "serve", str(NANO), "--port", "8001", "--enforce-eager"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, env=env, text=True) as started:
        said = started.communicate(timeout=60)[0].splitlines()
    assert started.returncode == 0 and said[0].endswith(f"--model {SPEC} --variant compact")
    pid, *arguments = said[1].split()
    assert int(pid) == started.pid and arguments[-3:] == ["--port", "8001", "--enforce-eager"]
    assert value(arguments, "--max-model-len") == "1024"


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
    endpoint.models = [{"id": "judge", "root": str(NANO)}]
    claim = {"claim": "c", "grounding_evidence": [], "analysis": "", "is_supported": True}
    endpoint.replies = json.dumps([{"id": letter, "atomic_claims": [claim]} for letter in "AB"])
    assert run(monkeypatch, "smoke", "--model", endpoint.spec()) == 0
    assert nano_example().question in endpoint.requests[0]["messages"][0]["content"]
    assert "prompt compact\n" in capsys.readouterr().out
    assert endpoint.requests[0]["max_tokens"] == 512


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
    command = [sys.executable, "-m", "rag_zeval", "smoke", "--model", served, *structured]
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
            yield f"openai:{NAME}@http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            server.wait(timeout=60)
