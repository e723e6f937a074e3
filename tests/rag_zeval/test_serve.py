"""`serve` starts vLLM's server with our arguments, and `smoke` asks a server one question."""

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

from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.judge.parser import response_schema
from rag_zeval.judge.smoke import NANO as NANO_EXAMPLE
from rag_zeval.judge.smoke import TOY
from rag_zeval.models.folder import model_sha256
from rag_zeval.serve import LONGEST, MODULE, URL, serve_command, served_name
from rag_zeval.stages.world import ranked_examples

Run = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).parents[2]
NANO = ROOT / "checkpoints" / "nano-judge"


def value(command: list[str], option: str) -> str:
    return command[len(command) - command[::-1].index(option)]  # the last one counts


@pytest.mark.parametrize(("window", "served"), [(1024, 1024), (32_768, LONGEST)])
def test_the_window_is_the_models_up_to_what_it_was_trained_with(window: int, served: int, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": window}))
    command = serve_command(str(tmp_path), ["--port", "8001", "--seed", "5"])
    assert command[:3] == [sys.executable, "-m", MODULE]
    assert value(command, "--model") == str(tmp_path) and value(command, "--max-model-len") == str(served)
    assert (value(command, "--host"), value(command, "--generation-config")) == ("127.0.0.1", "vllm")
    assert json.loads(value(command, "--allowed-origins")) == []  # no web page may ask it
    assert (value(command, "--port"), value(command, "--seed")) == ("8001", "5")
    assert value(command, "--served-model-name") == served_name(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "no model in this folder"),
        ("{}", r"config\.json: field 'max_position_embeddings' is missing"),
        ('{"max_position_embeddings": 0}', "must be a whole number above 0, found 0"),
    ],
)
def test_a_folder_without_a_model_is_refused(config: str | None, message: str, tmp_path: Path) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(InputError, match=message) as error:
        serve_command(str(tmp_path))
    assert "\n" not in str(error.value)


def test_serve_becomes_the_server_of_a_model_named_by_its_weights(tmp_path: Path) -> None:
    """vLLM is a stand-in that shows what it was given."""
    module = tmp_path.joinpath(*MODULE.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True)
    module.write_text("import os, sys\nprint(os.getpid(), *sys.argv[1:])\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    line = [sys.executable, "-m", "rag_zeval", "serve", str(NANO), "--port", "8001", "--enforce-eager"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, env=env, text=True) as started:
        said = started.communicate(timeout=60)[0].splitlines()
    pid, *arguments = said[1].split()
    assert started.returncode == 0 and int(pid) == started.pid  # it became the server
    name = value(arguments, "--served-model-name")
    assert f" ask it with: --model openai:{name}@{URL} --variant compact (" in said[0]
    assert arguments[-3:] == ["--port", "8001", "--enforce-eager"] and value(arguments, "--max-model-len") == "1024"
    assert re.fullmatch("judge-[0-9a-f]{12}", name) and name.endswith(model_sha256(NANO)[:12])


def test_a_judge_that_answers_is_shown(run: Run, endpoint: Any, reply_text: Any) -> None:
    endpoint.replies, endpoint.delay = reply_text(2), 0.1
    done = run("smoke", "--model", endpoint.spec(), "--structured")
    assert done.returncode == 0, done.stderr
    for letter, answer in zip("AB", TOY.answers, strict=True):
        assert f"{letter}       1.000  {answer}\n" in done.stdout
    assert "status  ok\n" in done.stdout and "prompt paper, structured\n" in done.stdout
    [(seconds, pace)] = re.findall(r"^speed   5 tokens in ([\d.]+) s: (\d+) tokens/s$", done.stdout, re.MULTILINE)
    assert float(seconds) >= 0.1 and float(pace) == pytest.approx(5 / float(seconds), abs=0.5 + 0.6 / float(seconds))
    [sent] = endpoint.requests
    assert sent["response_format"]["json_schema"]["schema"] == response_schema(2, "paper")
    assert TOY.question in sent["messages"][0]["content"] and sent["temperature"] == 0


def test_the_nano_example_is_drawn_from_the_nano_world() -> None:
    [drawn] = ranked_examples("test", 1, 2, seed=0)
    asked = drawn.question
    assert Example("nano", asked.question, asked.passage, drawn.answers) == NANO_EXAMPLE


def test_a_judge_served_from_a_folder_here_is_asked_what_its_card_says(
    run: Run, endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = {"claim": "c", "grounding_evidence": [], "analysis": "", "is_supported": True}
    endpoint.replies = json.dumps([{"id": letter, "atomic_claims": [claim]} for letter in "AB"])
    spec = endpoint.spec(served_name(NANO))
    monkeypatch.setattr("rag_zeval.serve.URL", endpoint.url)  # as if it were vLLM's own port
    for where in (["--model", spec], []):
        done = run("smoke", "--served", NANO, *where)
        assert done.returncode == 0 and f"judge   {spec}, prompt compact\n" in done.stdout
    for request in endpoint.requests:
        assert NANO_EXAMPLE.question in request["messages"][0]["content"]
        assert (request["model"], request["max_tokens"]) == (served_name(NANO), 512)


def test_a_server_does_not_choose_which_files_are_read(run: Run, endpoint: Any, reply_text: Any) -> None:
    endpoint.replies, endpoint.models = reply_text(2), [{"id": "judge", "root": str(NANO)}]
    done = run("smoke", "--model", endpoint.spec())
    assert done.returncode == 0 and "prompt paper\n" in done.stdout
    assert TOY.question in endpoint.requests[0]["messages"][0]["content"]


@pytest.mark.parametrize(
    ("fault", "reason"), [("hang", "no answer within 0.5 s"), ("refusal", "format: no evaluation in the reply")]
)
def test_a_reply_that_does_not_come_or_cannot_be_read_is_a_failure(
    run: Run, endpoint: Any, fault: str, reason: str
) -> None:
    endpoint.faults = [fault]
    started = time.monotonic()
    done = run("smoke", "--model", endpoint.spec(), "--timeout", "0.5")
    assert done.returncode == 1 and "A       no score" in done.stdout and f"status  failed: {reason}\n" in done.stdout
    assert time.monotonic() - started < 30  # it would be 45 seconds otherwise


OTHER = f"openai:judge@{URL}"
NOBODY = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smoke"], "no judge: add --model with any judge, or --served with the folder that is served here"),
        (["smoke", "--served", "."], ".: no model in this folder (config.json is missing)"),
        (["smoke", "--served", NANO, "--model", OTHER], f"{NANO} is served as {served_name(NANO)}, not as {OTHER}"),
        (["smoke", "--served", NANO, "--model", NANO], f"{NANO} is served as {served_name(NANO)}, not as {NANO}"),
        (["smoke", "--model", f"openai:judge@{NOBODY}"], f"error: cannot reach {NOBODY}: connection refused\n"),
        (["serve", NANO], f"error: serving {NANO} needs the vllm package: pip install 'rag-zeval[vllm]'\n"),
    ],
)
def test_what_cannot_be_asked_or_served_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[Any], message: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    refused = run(*arguments)
    assert refused.returncode == 2 and refused.stdout == ""
    assert message in refused.stderr and refused.stderr.count("\n") == 1


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
