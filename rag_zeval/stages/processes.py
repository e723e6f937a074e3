"""Runs long processes for a stage: with a log, a time limit, and no process left over at the end.

However the caller ends (normally, by an error, Ctrl-C or SIGTERM, and on Linux by SIGKILL), its processes end too.
"""

import ctypes
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.1
GRACE_SECONDS = 60.0  # between SIGTERM and SIGKILL: a training run needs time to stop its ray


def python_module(*words: object) -> list[str]:
    """Return the command `python -m WORDS` for this environment."""
    return [sys.executable, "-m", *map(str, words)]


@contextmanager
def started(
    command: Sequence[str],
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    append: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process with its output in `log`, and yield it. Its whole process group is ended after the block.

    env: all its environment variables; by default those of this process. append: keep what the log holds.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab" if append else "wb") as output:
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env={"PYTHONUNBUFFERED": "1", **(os.environ if env is None else env)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 (it only calls prctl, which takes no lock)
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(
    command: Sequence[str],
    log: Path,
    show: Callable[[str], None],
    *,
    seconds: float = math.inf,
    stop: threading.Event | None = None,
    env: Mapping[str, str] | None = None,
    append: bool = False,
) -> int | None:
    """Run a process and `show` its lines as they come.

    Returns its exit status, or None if it was ended because it took longer than `seconds` or another thread set `stop`.
    """
    end_of_before = log.stat().st_size if append and log.exists() else 0
    with started(command, log, env, append=append) as process, open(log, encoding="utf-8", errors="replace") as output:
        output.seek(end_of_before)
        deadline = time.monotonic() + seconds
        ended, line = False, ""
        while not ended:
            ended = process.poll() is not None  # before reading, so that the last output is read too
            for part in output:
                line += part
                if line.endswith("\n") or ended:  # otherwise the rest of the line is not there yet
                    show(line.rstrip())
                    line = ""
            if not ended and (time.monotonic() > deadline or (stop and stop.is_set())):
                return None
            time.sleep(0 if ended else POLL_SECONDS)
        if line:
            show(line.rstrip())
        return process.returncode


def die_with_parent() -> Callable[[], object] | None:
    """Return a `preexec_fn` that lets Linux kill the child when this process ends, even by SIGKILL. None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def last_lines(log: Path, count: int) -> list[str]:
    """Return the last `count` lines of a file that are not blank; none if there is no file."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def last_line(log: Path) -> str:
    return "".join(last_lines(log, 1)).strip() or "it said nothing"
