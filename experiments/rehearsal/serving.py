"""The exported judge behind the repository's own server, asked once, and ended as Ctrl-C ends it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

from experiments.rehearsal.checks import Check
from rag_zeval.serve import served_name
from train.leftovers import all_segments, unused

STARTS, ENDS, ANSWERS = 400, 60, 300  # seconds at most


@contextmanager
def served(model: Path, tokenizer: Path, log: Path) -> Iterator[str]:
    """`rag-zeval serve` of this folder; yields how it is asked. Raises RuntimeError if it does not come up."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "rag_zeval", "serve", str(model), "--port", str(port), "--enforce-eager"]
    command += [
        "--tokenizer",
        str(tokenizer),
    ]  # transformers takes Qwen2's here, whatever the folder has
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True) as server:
        try:
            _wait_for(f"http://127.0.0.1:{port}/health", server, log)
            yield f"openai:{served_name(model)}@http://127.0.0.1:{port}/v1"
        finally:
            _end(server)


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTS
    while True:
        with suppress(OSError), urlopen(url, timeout=5):
            return
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not come up; its output is in {log}")
        time.sleep(1)


def _end(server: subprocess.Popen[bytes]) -> None:
    """Ctrl-C reaches all processes of a terminal's foreground; what does not end by it is killed."""
    for signal_number in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal_number)
        with suppress(subprocess.TimeoutExpired):
            server.wait(timeout=ENDS)
            return


def answers(model: Path, tokenizer: Path, log: Path) -> list[Check]:
    """Serve the model, ask it by `rag-zeval smoke`, end the server, and see what it leaves."""
    before = all_segments()
    try:
        with served(model, tokenizer, log) as spec:
            ask = [sys.executable, "-m", "rag_zeval", "smoke", "--served", str(model), "--model", spec]
            smoke = subprocess.run(
                ask, check=False, capture_output=True, encoding="utf-8", errors="replace", timeout=ANSWERS
            )
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return [Check("the exported model is served and answers", False, str(error))]
    with log.open("a", encoding="utf-8") as file:
        file.write(smoke.stdout + smoke.stderr)
    # a model of four steps may write no readable trajectory: smoke then ends with 1, but it was answered
    words = dict(re.findall(r"^(status|speed) +(.*)$", smoke.stdout, re.MULTILINE))
    said = "; ".join(words.values()) or f"smoke ended with {smoke.returncode}: {smoke.stderr.strip()[-200:]}"
    left = unused(all_segments() - before)
    return [
        Check("the exported model is served and answers", "speed" in words, said),
        Check("nothing is left by the server", not left, f"{len(left)} segments of shared memory after Ctrl-C"),
    ]
