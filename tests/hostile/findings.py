"""What a part of the campaign comes to: counts to print, and a line for each promise seen broken."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

TOLD_SECONDS = 15.0  # between lines of progress


class Findings:
    """`counts` by kind, and `faults`. Kinds named at the start are counted even if nothing of them is seen."""

    def __init__(self, part: str, kinds: Iterable[str] = ()):
        self.part = part
        self.counts: Counter[str] = Counter(dict.fromkeys(kinds, 0))
        self.faults: list[str] = []
        self._told = time.monotonic()

    def note(self, kind: str, where: object, faults: Iterable[object]) -> None:
        """Count faults of a kind at a place; none of them make it a kind that was looked for."""
        lines = [f"{self.part}, {where}: {kind}: {fault}" for fault in faults]
        self.counts[kind] += len(lines)
        self.faults += lines

    def add(self, other: Findings) -> None:
        self.counts.update(other.counts)
        self.faults += other.faults

    def tell(self, progress: str) -> None:
        """Print how far the part is, now and then."""
        if time.monotonic() - self._told > TOLD_SECONDS:
            self._told = time.monotonic()
            print(f"{self.part}: {progress}, {len(self.faults)} faults", flush=True)
