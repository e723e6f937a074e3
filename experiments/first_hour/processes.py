"""Processes that a check starts. The check fails if one ends with an error, or not in time.

    python -m experiments.first_hour.processes MODULE FUNCTION WORDS

calls a function of a module in its own process. WORDS is a JSON object with the arguments.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

from experiments.first_hour.scene import CheckFailed
from rag_zeval.stages.processes import POLL_SECONDS, last_line, python_module, run, started

MODULE = "experiments.first_hour.processes"


def call(function: Callable[..., None], **words: str | int) -> list[str]:
    """Return the command that calls a function of a module in its own process."""
    return python_module(MODULE, function.__module__, function.__name__, json.dumps(words))


def wait_for(what: str, happened: Callable[[], bool], process: subprocess.Popen, log: Path, seconds: float) -> None:
    """Wait until something has happened. Raises CheckFailed if the process ends before, or at the time limit.

    what: names the event in errors. log: the process's output.
    """
    deadline = time.monotonic() + seconds
    while not happened():
        if process.poll() is not None:
            raise CheckFailed(f"before {what}, the process ended with {process.returncode}: {last_line(log)} ({log})")
        if time.monotonic() > deadline:
            raise CheckFailed(f"no sign of {what} after {seconds:.0f} s ({log})")
        time.sleep(POLL_SECONDS)


def run_well(what: str, command: Sequence[str], log: Path, seconds: float, show: Callable[[str], None] = print) -> None:
    """Run a process and show its lines. Raises CheckFailed if it ends with an error, or not within `seconds`."""
    status = run(command, log, show, seconds=seconds)
    if status is None:
        raise CheckFailed(f"{what} did not end within {seconds:.0f} s ({log})")
    if status:
        raise CheckFailed(f"{what} ended with {status}: {last_line(log)} ({log})")


def run_together(
    commands: Sequence[Sequence[str]], folder: Path, seconds: float, env: Mapping[str, str] | None = None
) -> list[str]:
    """Run processes that work together, and return the last line of each.

    Raises CheckFailed as soon as one of them fails, with its last line, or if some have not ended after `seconds`. env:
    all environment variables of the processes, by default those of this process.
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


if __name__ == "__main__":
    getattr(import_module(sys.argv[1]), sys.argv[2])(**json.loads(sys.argv[3]))
