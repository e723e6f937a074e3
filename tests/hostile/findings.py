"""What a part of the campaign comes to: counts to print, and a line for each promise seen broken."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from commands import Ended
from spelt_keys import shown

TOLD_SECONDS = 15.0  # between lines of progress
Checked = tuple[Counter[tuple[str, ...]], list[str]]  # how often what was seen, and a line for each fault


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

    def note_if(self, is_so: object, kind: str, where: object, fault: object = "") -> None:
        """Count a fault, or that it was looked for."""
        self.note(kind, where, [fault] if is_so else [])

    def note_end(self, where: str, ended: Ended, traced: bool = False) -> None:
        """What no command may do: hang, or end with a traceback, unless it is to end so."""
        self.counts["commands run"] += 1
        self.most("longest command, seconds", round(ended.seconds, 1))
        self.note_if(ended.hung, "hangs", where, ended)
        self.note_if("Traceback" in ended.said and not traced, "tracebacks", where, ended)

    def note_keys(self, where: str, folder: Path, runs: Iterable[Ended], key: str) -> None:
        """A key, or a piece of it, however it is spelt: in what commands said, or in a file that they left."""
        said = {"the output": b"\n---\n".join(part for ended in runs for part in (ended.out, ended.err))}
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for name, content in {**said, **files}.items():
            self.note("keys found", where, [f"{piece} in {name}" for piece in shown(content, key)[:1]])

    def most(self, kind: str, value: float) -> None:
        """A count that is the largest of its values."""
        self.counts[kind] = max(self.counts[kind], value)  # type: ignore[assignment]

    def add(self, other: Findings) -> None:
        self.counts.update(other.counts)
        self.faults += other.faults

    def tell(self, progress: str) -> None:
        """Print how far the part is, now and then."""
        if time.monotonic() - self._told > TOLD_SECONDS:
            self._told = time.monotonic()
            print(f"{self.part}: {progress}, {len(self.faults)} faults", flush=True)

    def attempt(self, attempts: Mapping[str, Callable[[], object]], done: str) -> None:
        """Make attempts, named by where they are made, two at a time; one that raises is a fault.

        done: the count that is told now and then.
        """
        with ThreadPoolExecutor(2) as pool:
            pending = {pool.submit(attempt): where for where, attempt in attempts.items()}
            for ended in as_completed(pending):
                if error := ended.exception():
                    self.note("broke off", pending[ended], [repr(error)])
                self.tell(f"{self.counts[done]:,} {done}")

    def check(self, check: Callable[[range], Checked], cases: int, step: int) -> Counter[tuple[str, ...]]:
        """Check so many cases in two processes, `step` at a time: the counts, whose keys end in what became of each."""
        seen: Counter[tuple[str, ...]] = Counter()
        numbers = [range(start, min(start + step, cases)) for start in range(0, cases, step)]
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            for some, faults in pool.imap_unordered(check, numbers):
                seen.update(some)
                self.faults += faults
                self.tell(f"{seen.total():,} of {cases:,}")
        for key, count in seen.items():
            self.counts.update({"replies": count, key[-1]: count})
        return seen
