"""Processes that a check starts: their output in a file, a limit in time, and none that outlives the check.

    python -m experiments.first_hour.processes MODULE FUNCTION WORDS

calls a function of a module with words that are a JSON object, in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path

from experiments.first_hour.scene import CheckFailed
from train.launch import die_with_parent

MODULE = "experiments.first_hour.processes"
POLL_SECONDS = 0.1
GRACE_SECONDS = 60.0  # from SIGTERM to SIGKILL: a training stops its ray first


def command(*words: object) -> list[str]:
    """A module of this checkout, in this environment: `python -m WORDS`."""
    return [sys.executable, "-m", *map(str, words)]


def call(function: Callable[..., None], **words: str | int) -> list[str]:
    """The command that calls a function of a module in a process of its own."""
    return command(MODULE, function.__module__, function.__name__, json.dumps(words))


@contextmanager
def started(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen]:
    """The process, its output in `log`; afterwards nothing of its process group is left."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as output:
        process = subprocess.Popen(
            list(command),
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
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


def wait_for(what: str, happened: Callable[[], bool], process: subprocess.Popen, log: Path, seconds: float) -> None:
    """Return once it has happened. Raises CheckFailed if the process ends before, or after so long."""
    deadline = time.monotonic() + seconds
    while not happened():
        if process.poll() is not None:
            raise CheckFailed(f"before {what}, the process ended with {process.returncode}: {last_line(log)} ({log})")
        if time.monotonic() > deadline:
            raise CheckFailed(f"no sign of {what} after {seconds:.0f} s ({log})")
        time.sleep(POLL_SECONDS)


def run(command: Sequence[str], log: Path, seconds: float, show: Callable[[str], None] = print) -> int | None:
    """The exit status of a process, whose lines are shown as they come; None if it took longer than this."""
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


def run_well(what: str, command: Sequence[str], log: Path, seconds: float, show: Callable[[str], None] = print) -> None:
    """Run a process and show its lines. Raises CheckFailed if it does not end well, or not within this time."""
    status = run(command, log, seconds, show)
    if status is None:
        raise CheckFailed(f"{what} did not end within {seconds:.0f} s ({log})")
    if status:
        raise CheckFailed(f"{what} ended with {status}: {last_line(log)} ({log})")


def run_together(
    commands: Sequence[Sequence[str]], folder: Path, seconds: float, env: Mapping[str, str] | None = None
) -> list[str]:
    """The last line of each of several processes that work together.

    Raises CheckFailed as soon as one of them fails, with its last line, or when some have not ended after so long.
    """
    logs = [folder / f"process-{number}.log" for number in range(1, len(commands) + 1)]
    with ExitStack() as stack:
        running = [stack.enter_context(started(*job, env)) for job in zip(commands, logs, strict=True)]
        deadline = time.monotonic() + seconds
        while None in (codes := [process.poll() for process in running]) and not any(codes):
            if time.monotonic() > deadline:
                waiting = ", ".join(str(at) for at, code in enumerate(codes, 1) if code is None)
                raise CheckFailed(f"processes {waiting} of {len(codes)} had not ended after {seconds:.0f} s")
            time.sleep(POLL_SECONDS)
    for at, code in enumerate(codes):
        if code:
            raise CheckFailed(f"process {at + 1} of {len(codes)} ended with {code}: {last_line(logs[at])}")
    return [last_line(log) for log in logs]


def last_lines(log: Path, count: int) -> list[str]:
    """The last lines of a file that are not empty, none if there is no file."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def last_line(log: Path) -> str:
    return "".join(last_lines(log, 1)).strip() or "it said nothing"


if __name__ == "__main__":
    getattr(import_module(sys.argv[1]), sys.argv[2])(**json.loads(sys.argv[3]))
