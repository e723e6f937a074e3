"""Whether a run still goes on: verl waits for ever, in silence, for a worker that raised while it took new weights."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from train.step_lines import seconds_taken

ERROR = re.compile(r"(?!Error executing)[\w.]*(Error|Exception)\b(.*: |\()")  # a line that names one; hydra heads all
# Of a line that ray passes on, from vLLM's processes perhaps, which put their own and an error's time before it.
PREFIX = re.compile(r"^((\x1b\[\d+m)*\(\w+ pid=\d+[^)]*\)(\x1b\[0m)? ?)+(ERROR [\d-]+ [\d:]+ \[[\w.]+:\d+\] ?)?")
WORKER_RAISED = "WorkerProc hit an exception"  # vLLM's words; a call failed, and nobody may be told


class Watch:
    """Seconds of silence, neither a step nor a line in the log, that are more than a healthy run has.

    A minute after a vLLM worker raised. After another error three of its longest steps, a minute at least, ten before
    there is a step; without one, ten of its longest steps, half an hour at least.
    """

    def __init__(self, log: Path, clock: Callable[[], float] = time.monotonic):
        self.log, self.clock = log, clock
        self.read, self.heard = log.stat().st_size, clock()
        self.longest, self.failed, self.worker_raised = 0.0, False, False

    def step(self, data: Mapping[str, float]) -> None:
        """A step was logged: what was wrong before it did not stop the run."""
        self.heard, self.failed, self.worker_raised = self.clock(), False, False
        self.longest = max(self.longest, seconds_taken(data))

    def silence(self) -> float | None:
        """Seconds for which nothing was heard, if they are too many."""
        with open(self.log, "rb") as log:
            log.seek(self.read)
            written, newline, _ = log.read().rpartition(b"\n")  # the rest is a line not ended yet
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
    """A line of verl's output without ray's prefix."""
    return PREFIX.sub("", line).strip()


def names_error(line: str) -> bool:
    """Whether a line of the output is an error's own: `ValueError: ...`, `ray.exceptions.RayTaskError(...)`."""
    return ERROR.match(bare(line)) is not None
