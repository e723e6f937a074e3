"""Our commands, in processes of their own or here: how they start and end, what they take, the rows that they leave."""

import io
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

from rag_zeval.files import Row, read_jsonl
from rag_zeval.results import SPENT

ROOT = Path(__file__).parents[2]
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")  # what a terminal obeys
FOREVER = 600.0
LEFT_OUT = re.compile(r"_proxy$|_key$|^rag_zeval_data$", re.IGNORECASE)  # variables that no command gets
Place = tuple[str, str]  # a scorer (none but in `bench`) and a row's id
_here = threading.Lock()  # a process has one folder, one environment and one output


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
        env = _environment(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1", **environment)
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


def _environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not LEFT_OUT.search(name)}
    return {**kept, "COLUMNS": "200", **more}


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


def run_here(
    words: Sequence[str],
    folder: Path,
    deadline: float = FOREVER,
    *,
    before: Sequence[str] = (),
    streams: Mapping[str, int] | None = None,
    **environment: str,
) -> Ended:
    """The same in this process, which spares the start of Python: one at a time, and nothing is killed or measured.

    What escapes from the command ends it as Python would.
    """
    assert not before, "nothing starts Python here"
    module, *arguments = words
    main = _main(module)
    encoding, _, errors = environment.get("PYTHONIOENCODING", "utf-8").partition(":")
    ways = {"stdout": errors or "strict", "stderr": "backslashreplace"}
    kept = {name: io.TextIOWrapper(io.BytesIO(), encoding, how) for name, how in ways.items()}
    others: dict[str, TextIO] = {
        name: os.fdopen(os.dup(descriptor), "w", encoding="utf-8") for name, descriptor in (streams or {}).items()
    }
    our_sys: dict[str, Any] = {"argv": [module, *arguments], **kept, **others}  # keys are looked for in the words
    with _here, patch.dict(os.environ, _environment(**environment), clear=True), patch.multiple(sys, **our_sys):
        started, home = time.monotonic(), Path.cwd()
        os.chdir(folder)
        try:
            status = int(main(arguments) or 0)
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except Exception as error:
            status = 1
            print(f"Traceback (most recent call last):\n{error!r}", file=kept["stderr"])
        finally:
            os.chdir(home)
        seconds = time.monotonic() - started
    for stream in others.values():
        with suppress(OSError):
            stream.close()
    for kept_stream in kept.values():
        kept_stream.flush()
    out, err = (stream.buffer.getvalue() for stream in kept.values())
    return Ended(status, out, err, seconds, 0, seconds > deadline)


@cache
def _main(module: str) -> Any:
    """What `python -m MODULE` runs on a list of words."""
    if module == "rag_zeval":
        from rag_zeval.cli import app
        from rag_zeval.streams import exit_status, run_app

        return lambda words: exit_status(lambda: run_app(app, words))
    names = runpy.run_module(module) if "." in module else runpy.run_module(f"{module}.__main__")
    return names["main"]


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
