"""Measures the memory of a stage: of all its processes, also ray's and vLLM's, with shared memory counted once."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import psutil

SECONDS = 1.0  # between two measurements


class Memory:
    """The system's available memory in bytes: at the start, and the least since then."""

    def __init__(self) -> None:
        self.before: int = psutil.virtual_memory().available
        self.least: int = self.before

    def look(self) -> None:
        self.least = min(self.least, psutil.virtual_memory().available)

    @property
    def taken(self) -> float:
        """The largest decrease of available memory since the start, in GiB."""
        return (self.before - self.least) / 2**30


@contextmanager
def watched() -> Iterator[Memory]:
    """Watch the memory until the block ends. What other programs take counts too."""
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
