"""Processes that a check starts: their output in a file, a limit in time, and none that outlives the check."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from experiments.first_hour.scene import CheckFailed
from train.launch import die_with_parent

POLL_SECONDS = 0.1
GRACE_SECONDS = 60.0  # from SIGTERM to SIGKILL: a training stops its ray first


def command(*words: object) -> list[str]:
    """A module of this checkout, in this environment: `python -m WORDS`."""
    return [sys.executable, "-m", *map(str, words)]


@contextmanager
def started(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen]:
    """The process, its output going to the end of `log`; afterwards nothing of its process group is left."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        process = subprocess.Popen(
            list(command),
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 (the checks have one thread)
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
    command: Sequence[str], log: Path, seconds: float, show: Callable[[str], None] = lambda line: None
) -> int | None:
    """The exit status of a process, whose lines are shown as they come; None if it took longer than this."""
    log.unlink(missing_ok=True)
    with started(command, log) as process, open(log, encoding="utf-8", errors="replace") as output:
        deadline = time.monotonic() + seconds
        ended = False
        while not ended:
            ended = process.poll() is not None  # asked first: what was written before the end is then read
            for line in output:
                show(line.rstrip())
            if not ended and time.monotonic() > deadline:
                return None
            time.sleep(0 if ended else POLL_SECONDS)
        return process.returncode


def run_together(
    commands: Sequence[Sequence[str]], folder: Path, seconds: float, env: Mapping[str, str] | None = None
) -> list[str]:
    """The last line of each of several processes that work together.

    Raises CheckFailed as soon as one of them fails, with its last line, or when some have not ended after so long.
    """
    logs = [folder / f"process-{number}.log" for number in range(1, len(commands) + 1)]
    for log in logs:
        log.unlink(missing_ok=True)
    with ExitStack() as stack:
        running = [stack.enter_context(started(*job, env)) for job in zip(commands, logs, strict=True)]
        deadline = time.monotonic() + seconds
        while (codes := [process.poll() for process in running]) != [0] * len(running):
            if failed := [at for at, code in enumerate(codes) if code]:
                number = failed[0] + 1
                raise CheckFailed(
                    f"process {number} of {len(codes)} ended with {codes[failed[0]]}: {last_line(logs[failed[0]])}"
                )
            if time.monotonic() > deadline:
                waiting = ", ".join(str(at) for at, code in enumerate(codes, 1) if code is None)
                raise CheckFailed(f"processes {waiting} of {len(codes)} had not ended after {seconds:.0f} s")
            time.sleep(POLL_SECONDS)
    return [last_line(log) for log in logs]


def last_lines(log: Path, count: int) -> list[str]:
    """The last lines of a file that are not empty, none if there is no file."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def last_line(log: Path) -> str:
    return "".join(last_lines(log, 1)).strip() or "it said nothing"
