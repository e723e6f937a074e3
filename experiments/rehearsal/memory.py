"""How much memory a rehearsal takes: of all its processes, vLLM's and ray's too, what they share counted once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import psutil

from experiments.rehearsal.checks import Check

SECONDS = 1.0  # between two looks
GIB = 16


class Memory:
    """Bytes that the system could give at the start, and the fewest since."""

    def __init__(self) -> None:
        self.before = self.least = psutil.virtual_memory().available

    def look(self) -> None:
        self.least = min(self.least, psutil.virtual_memory().available)

    def check(self) -> Check:
        taken = (self.before - self.least) / 2**30
        return Check(f"it takes less than {GIB} GiB", taken < GIB, f"at most {taken:.1f} GiB more than before it")


@contextmanager
def watched() -> Iterator[Memory]:
    """The memory, looked at again and again until the block ends; other programs' is in it."""
    memory, ended = Memory(), Event()

    def watch() -> None:
        while not ended.wait(SECONDS):
            memory.look()

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        ended.set()
        thread.join()
