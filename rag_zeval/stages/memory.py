"""How much memory a stage takes: of all its processes, ray's and vLLM's too, what they share counted once."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import psutil

SECONDS = 1.0  # between two looks


class Memory:
    """Bytes that the system could give at the start, and the fewest since."""

    def __init__(self) -> None:
        self.before: int = psutil.virtual_memory().available
        self.least: int = self.before

    def look(self) -> None:
        self.least = min(self.least, psutil.virtual_memory().available)

    @property
    def taken(self) -> float:
        """GiB that the system had less than at the start, at most."""
        return (self.before - self.least) / 2**30


@contextmanager
def watched() -> Iterator[Memory]:
    """Watch the memory until the block ends; what other programs take counts too."""
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
