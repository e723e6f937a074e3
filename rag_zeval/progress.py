"""Shows the progress of a long run: a bar on a terminal, or a line every LINE_EVERY seconds in a log or notebook."""

from __future__ import annotations

import sys
import threading
import time
from datetime import timedelta
from typing import TextIO, cast

from rich.console import Console
from rich.file_proxy import FileProxy
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from rag_zeval.streams import Stream, drawn
from rag_zeval.text import visible

LINE_EVERY = 30.0  # seconds between the lines about a job; the last one is printed at its end
SLOW = 0.1  # rows a second; slower runs show rows a minute
SHOWN = 80  # characters of a reason that is part of a note beside the bar
_screen = threading.Lock()  # held by the run that draws bars: concurrent runs would draw over each other


class Progress:
    """Shows the jobs of a run, on standard error unless a console is given. Use it in a `with` statement."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(file=drawn(sys.stderr))
        label, pace = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[pace]}", markup=False)
        self.bars = Bars(label, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), pace, console=self.console)
        self.draws = False

    def __enter__(self) -> Progress:
        wanted = self.console.is_terminal and not self.console.is_jupyter
        self.draws = wanted and _screen.acquire(blocking=False)
        if self.draws:
            self.bars.start()
            for name in ("stdout", "stderr"):  # other output goes through rich now: escape it as text
                if isinstance(proxy := getattr(sys, name), FileProxy):
                    setattr(sys, name, Stream(cast(TextIO, proxy)))
        return self

    def __exit__(self, *exc: object) -> None:
        if self.draws:
            self.bars.stop()
            _screen.release()

    def job(self, label: str, total: int, done: int = 0, note: str = "") -> Job:
        """Return a job of `total` rows, of which `done` exist already. Use it in a `with` statement.

        note: as in `advance`.
        """
        return Job(self, visible(label), total, done, note)


class Job:
    """Rows to be scored. The rate is the mean since the start: rows arrive in batches, so a recent rate would jump."""

    def __init__(self, progress: Progress, label: str, total: int, done: int, note: str):
        self._progress, self._label = progress, label
        self._before = self._done = done
        self._total, self._note = total, note
        self._parts: dict[str, float] = {}  # the shares of rows that are not finished
        self._started = self._last_line = time.monotonic()
        self._bar = progress.bars.add_task(label, total=total, completed=done, pace=note)

    def advance(self, note: str = "", row: str = "") -> None:
        """Count one more row as done. note: what else to show, such as the costs. row: its id, if it came in parts."""
        self._done, self._note = self._done + 1, note
        self._parts.pop(row, None)
        self._show()

    def tell(self, note: str) -> None:
        """Show a note, as in `advance`, though no row is done."""
        self._note = note
        self._show()

    def part_done(self, row: str, share: float) -> None:
        """Count a share of a row, from 0 to 1, in the rate and the time left. The row itself does not count yet."""
        self._parts[row] = share
        self._show()

    def _show(self) -> None:
        if self._progress.draws:
            self._progress.bars.update(self._bar, completed=self._done, pace=self._pace())
        elif time.monotonic() - self._last_line >= LINE_EVERY:
            self._print_line()

    def _pace(self) -> str:
        """Return the rate, the time left (at the end, the time taken), the rows that are partly done, and the note.

        Rate and time left are missing before a whole row is done: shares of rows come late, and say little by then.
        """
        taken, done = time.monotonic() - self._started, self._done + sum(self._parts.values())
        new, missing = done - self._before, self._total - done
        parts = f"{len(self._parts)} partly done" if self._parts else ""
        if new < 1:
            return ", ".join(filter(None, (parts, self._note)))
        rate = new / max(taken, 1e-3)
        seconds = timedelta(seconds=round(missing / rate if missing else taken))
        speed = f"{rate:.2f} rows/s" if rate >= SLOW else f"{60 * rate:.2f} rows/min"
        return ", ".join(filter(None, (speed, f"{seconds}{' left' if missing else ''}", parts, self._note)))

    def _print_line(self) -> None:
        self._last_line = time.monotonic()
        counts = f"{self._label}: {self._done}/{self._total}"
        print(", ".join(filter(None, (counts, self._pace()))), file=self._progress.console.file, flush=True)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._progress.draws:
            self._print_line()
