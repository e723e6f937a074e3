"""Detect a run that hangs: verl waits silently and forever for a worker that raised during a weight update."""

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from train.step_lines import seconds_taken

ERROR = re.compile(r"(?!Error executing)[\w.]*(Error|Exception)\b(.*: |\()")  # not hydra's heading of all errors
# Ray's prefix of a line from a worker. vLLM's processes add their own prefix, and time and place of an error.
PREFIX = re.compile(r"^((\x1b\[\d+m)*\(\w+ pid=\d+[^)]*\)(\x1b\[0m)? ?)+(ERROR [\d-]+ [\d:]+ \[[\w.]+:\d+\] ?)?")
WORKER_RAISED = "WorkerProc hit an exception"  # vLLM's message when a call failed; the caller may never learn of it


class Watch:
    """Detects when a run was silent for longer than a healthy run is: no step and no line in its log.

    The limit is a minute after a vLLM worker raised. After any other error it is three times the longest step, but at
    least a minute, and ten minutes before the first step. Without an error it is ten times the longest step, but at
    least half an hour.
    """

    def __init__(self, log: Path, clock: Callable[[], float] = time.monotonic):
        self.log, self.clock = log, clock
        self.read, self.heard = log.stat().st_size, clock()
        self.longest, self.failed, self.worker_raised = 0.0, False, False

    def step(self, data: Mapping[str, float]) -> None:
        """Record that a step was logged, so earlier errors did not stop the run."""
        self.heard, self.failed, self.worker_raised = self.clock(), False, False
        self.longest = max(self.longest, seconds_taken(data))

    def silence(self) -> float | None:
        """Return the seconds since the last step or line, if they exceed the limit, else None."""
        with open(self.log, "rb") as log:
            log.seek(self.read)
            written, newline, _ = log.read().rpartition(b"\n")  # the rest is an unfinished line
        if newline:
            text = written.decode("utf-8", "replace")
            self.failed = self.failed or any(map(names_error, text.splitlines()))
            self.worker_raised = self.worker_raised or WORKER_RAISED in text
            self.read, self.heard = self.read + len(written) + 1, self.clock()
        silent = self.clock() - self.heard
        return silent if silent > self._patience() else None

    def _patience(self) -> float:
        if self.worker_raised:
            return 60.0
        if self.failed:
            return max(60.0, 3 * self.longest) if self.longest else 600.0
        return max(1800.0, 10 * self.longest)


def bare(line: str) -> str:
    """Return a line of verl's output without ray's prefix."""
    return PREFIX.sub("", line).strip()


def names_error(line: str) -> bool:
    """Whether a line of the output names an error, as `ValueError: ...` or `ray.exceptions.RayTaskError(...)` do."""
    return ERROR.match(bare(line)) is not None
