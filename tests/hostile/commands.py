"""Our commands in processes of their own: how they start and end, what they take, and the rows that they leave."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_zeval.files import Row, read_jsonl
from rag_zeval.results import SPENT

ROOT = Path(__file__).parents[2]
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")  # what a terminal obeys
FOREVER = 600.0
LEFT_OUT = re.compile(r"_proxy$|_key$|^rag_zeval_data$", re.IGNORECASE)  # variables that no command gets
Place = tuple[str, str]  # a scorer (none but in `bench`) and a row's id


@dataclass(frozen=True)
class Ended:
    """status: the exit status, or minus the signal. hung: whether it had to be killed.

    mib: the peak of the largest process, of those that it started too.
    """

    status: int
    out: bytes
    err: bytes
    seconds: float
    mib: int
    hung: bool = False

    @property
    def said(self) -> str:
        return (self.out + self.err).decode("utf-8", "replace")

    @property
    def last_line(self) -> str:
        return (self.said.splitlines() or [""])[-1]

    def __str__(self) -> str:
        return f"exit {self.status} after {self.seconds:.0f} s, {self.mib} MiB: {self.said[-300:]!r}"


class Command:
    """`python -m WORDS` that runs in a folder, in a process group of its own.

    What it says goes into files, so that it waits for nobody; `streams` are others in their place, by "stdout" and
    "stderr". before: words that start Python, as a shell's.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        *,
        before: Sequence[str] = (),
        streams: Mapping[str, int] | None = None,
        **environment: str,
    ):
        env = {name: value for name, value in os.environ.items() if not LEFT_OUT.search(name)}
        env |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200", **environment}
        line = [*before, sys.executable, *([] if words[0].startswith("-") else ["-m"]), *words]
        self._files = {name: tempfile.TemporaryFile() for name in ("stdout", "stderr")}  # noqa: SIM115
        handles: Any = {"stdin": subprocess.DEVNULL, **self._files, **(streams or {})}
        self._started = time.monotonic()
        self.process = subprocess.Popen(line, cwd=folder, env=env, start_new_session=True, **handles)

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL to the whole group."""
        if self.runs:
            os.killpg(self.process.pid, signal.SIGKILL)

    def ended(self, deadline: float = FOREVER) -> Ended:
        """Wait for its end; after `deadline` seconds it is killed."""
        mib, hung = 0, False
        while self.runs:
            mib = max(mib, peak_mib(self.process.pid))
            hung = time.monotonic() - self._started > deadline
            if hung:
                self.kill()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.02)
        seconds, said = time.monotonic() - self._started, []
        for file in self._files.values():
            with file:
                file.seek(0)
                said.append(file.read())
        return Ended(self.process.returncode, *said, seconds, mib, hung)


def peak_mib(process: int | str) -> int:
    """The most that a process, or one that it started, has held."""
    peaks = [0]
    with suppress(OSError):  # it has ended
        held = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
        peaks.append(int(held[1]) // 1024 if held else 0)
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            peaks += map(peak_mib, children.read_text().split())
    return max(peaks)


def run_command(words: Sequence[str], folder: Path, deadline: float = FOREVER, **how: Any) -> Ended:
    """A command from its start to its end."""
    return Command(words, folder, **how).ended(deadline)


def new_folder(parent: Path, name: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=re.sub(r"\W+", "-", name)[:60] + "-", dir=parent))


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """A JSONL file, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def write_wikieval(folder: Path, texts: Iterable[tuple[str, str, str]]) -> None:
    """The benchmark in a data folder: to "question N" a reference, a good answer and a poor one."""
    rows = [
        {"question": f"question {n} ?", "context_v1": [reference], "answer": good, "poor_answer": poor}
        for n, (reference, good, poor) in enumerate(texts)
    ]
    write_rows(folder / "wikieval" / "rows.jsonl", [{**row, "ungrounded_answer": "No fact at all."} for row in rows])


def row_files(folder: Path) -> list[Path]:
    """Where `evaluate`, `questions` and `collect` are told to write rows here, and where `bench` does."""
    return sorted([*folder.glob("rows.jsonl"), *folder.glob("out/rows/*.jsonl")])


def read_rows(folder: Path) -> dict[Place, Row]:
    """The rows of a command by their places; the scorer stands in a file's name: BENCHMARK__SCORER__MODEL.jsonl."""
    rows = [(path, row) for path in row_files(folder) for row in read_jsonl(path) if row["id"] != SPENT]
    return {(path.name.partition("__")[2].split("__")[0], row["id"]): row for path, row in rows}


def scores_of(row: Row) -> list[Any]:
    return [score["value"] if isinstance(score, dict) else score for score in row["scores"]]
