"""`rag-zeval serve-report` as a process of its own, looked at over HTTP."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

ROW = {
    "id": "1|m", "case": "1", "metric": "m", "trial": 0, "slice_tag": None, "systems": ["new"], "question": "Who?",
    "reference": "Ann.", "answers": ["Ann <b>"], "scores": [0.5], "statuses": ["ok"], "status": "ok",
    "trajectory": None, "reply": None, "parts": {}, "calls": 1, "cached": 0, "prompt_tokens": 1,
    "completion_tokens": 1, "paid_tokens": [1, 1], "seconds": 0.1, "latency_s": None, "model": None,
    "identity": "m", "input_sha256": "0",
}  # fmt: skip


def test_the_page_is_served_until_it_is_interrupted(tmp_path: Path, no_proxy: None) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps(ROW) + "\n")
    line = [sys.executable, "-m", "rag_zeval", "serve-report", str(tmp_path / "r.jsonl"), "--port", "0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        (address,) = re.findall(r"http://\S+", process.stdout.readline())
        with urllib.request.urlopen(address) as answer:
            page = answer.read().decode()
        assert "Who?" in page and "Ann <b>" not in page
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}../../etc/passwd")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


@pytest.mark.parametrize("words", [("serve-report", "r.jsonl"), ("mock-judge",)])
def test_a_port_that_cannot_be_had_is_one_line_that_names_it(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps(ROW) + "\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(*words, "--port", port)
    said = f"error: port {port} of 127.0.0.1: Address already in use; choose another with --port\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_nor_is_one_of_another_machine(run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps(ROW) + "\n")
    done = run("serve-report", "r.jsonl", "--host", "192.0.2.1", "--port", "8080")
    assert done.returncode == 2 and done.stderr.startswith("error: port 8080 of 192.0.2.1: Cannot assign")
    done = run("mock-judge", "--port", "99999")
    assert done.returncode == 2 and done.stderr == "error: port 99999 of 127.0.0.1: must be 0 to 65535\n"
