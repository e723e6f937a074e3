"""Runs of the packages: without faults, with broken replies, or with a kill half-way and a second start."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from eval_benchmarks.originals.packages import ROOT
from experiments.peers.endpoint import CountingJudge
from rag_zeval.errors import InputError
from rag_zeval.files import file_sha256
from rag_zeval.results import read_judged
from rag_zeval.stages.processes import last_line, started

BROKEN = 0.05  # share of replies that fail on the faulty endpoint
SOURCES = ROOT / "rag_zeval"
LOOK_SECONDS = 0.02  # interval of polling a process
LIMIT_SECONDS = 1_800.0  # time limit of a run
IMPORTS = 3  # number of timed imports; the fastest counts
SCORES, RESULTS, LOG = "scores.json", "results.jsonl", "log.txt"
Scores = dict[str, float | None]


@dataclass(frozen=True)
class Package:
    """A package of the comparison.

    measure: the name of its score. imports: the import statement that is timed. parity: the name of its virtual
    environment and lock file; None for this environment. keeps: whether a second run can reuse replies that the first
    one has paid for.
    """

    name: str
    measure: str
    imports: str
    parity: str | None = None
    keeps: bool = False

    @property
    def environment(self) -> str:
        """The folder of the virtual environment."""
        return f".venv-parity-{self.parity}"

    @property
    def python(self) -> Path:
        return Path(sys.executable) if self.parity is None else ROOT / self.environment / "bin" / "python"

    @property
    def is_installed(self) -> bool:
        """Whether the environment is complete, as its target of make marks it."""
        return self.parity is None or (ROOT / self.environment / ".ready").is_file()

    def command(self, rows: Path, url: str) -> list[str]:
        if self.parity is None:
            judge = ["--model", f"openai:judge@{url}", "--concurrency", "8"]
            options = ["--against", "contexts", "--out", RESULTS]
            return [str(self.python), "-m", "rag_zeval", "evaluate", str(rows), *judge, *options]
        return [str(self.python), str(self._script), str(rows), url, SCORES]

    @property
    def _script(self) -> Path:
        return Path(__file__).parent / "packages" / f"batch_{self.name.lower().replace('-', '_')}.py"

    @property
    def made_of(self) -> list[str]:
        """Hashes of what a run depends on besides rows and endpoint: our sources, or lock file and script."""
        if self.parity is None:
            files = sorted(path for path in SOURCES.rglob("*") if path.suffix in (".py", ".txt"))
        else:
            files = [ROOT / "requirements" / "parity" / f"{self.parity}.txt", self._script]
        return [file_sha256(path) for path in files]

    def scores(self, folder: Path) -> Scores:
        """Read the scores that a run has written, by row id; empty if it wrote none."""
        if self.parity is None:
            return {one.case: one.score for one in read_judged(folder / RESULTS)}
        path = folder / SCORES
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


OURS = Package("RAG-Zeval", "faithfulness", "from rag_zeval import evaluate", keeps=True)
PACKAGES = (
    OURS,
    Package("ragas", "faithfulness", "from ragas import evaluate", "ragas", keeps=True),
    Package("DeepEval", "faithfulness", "from deepeval import evaluate", "deepeval", keeps=True),
    Package("TruLens", "groundedness", "from trulens.core import BatchEvaluator", "trulens"),
    Package("RAGChecker", "faithfulness", "from ragchecker import RAGChecker", "ragchecker"),
    Package("open-rag-eval", "nuggets and others", "from open_rag_eval.models import OpenAIModel", "open-rag-eval"),
)


@dataclass(frozen=True)
class Outcome:
    """The costs and the scores of a run.

    cpu: CPU seconds. memory: peak MiB. most_open: largest number of open requests. ended: its last line of output if it
    failed, else empty.
    """

    calls: int
    tokens: int
    paid_twice: int
    seconds: float
    cpu: float
    memory: float
    most_open: int
    scores: Scores
    ended: str

    def row(self, id_: str) -> dict[str, object]:
        return {"id": id_, **asdict(self)}


def run(
    package: Package, rows: Path, folder: Path, broken: float = 0.0, kill_after: int | None = None, times: int = 1
) -> Outcome:
    """Run a package on the rows `times` times, in an empty folder: what an interrupted run left there was paid before.

    kill_after: before that, start it once more and kill it after this many calls. Raises InputError for a prompt that
    the judge does not know.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    judge = CountingJudge(broken)
    command, begun, used = package.command(rows, judge.url), time.perf_counter(), []
    try:
        if kill_after is not None:
            used.append(_watch(command, folder, lambda: judge.asked >= kill_after))
        used += [_watch(command, folder) for _ in range(times)]
        seconds = time.perf_counter() - begun
    finally:
        judge.close()
    if judge.unknown:
        raise InputError(f"{package.name}: a prompt that the judge does not know: {judge.unknown[0][:2_000]}")
    ended = last_line(folder / LOG) if used[-1].status else ""
    counted = judge.asked, judge.tokens, judge.paid_twice
    cpu, memory = sum(one.cpu for one in used), max(one.memory for one in used)
    return Outcome(*counted, seconds, cpu, memory, judge.open_most, package.scores(folder), ended)


@dataclass
class Usage:
    """Peak memory (MiB) and CPU seconds of a process with its children, and the exit status of the process."""

    memory: float = 0.0
    cpu: float = 0.0
    status: int = 0


def _watch(command: list[str], folder: Path, kill: Callable[[], bool] = lambda: False) -> Usage:
    """Run a command until it ends. Kills it with its process group if `kill` returns true, or at the time limit."""
    used, deadline = Usage(), time.monotonic() + LIMIT_SECONDS
    with started(command, folder / LOG, cwd=folder, append=True) as process:
        while process.poll() is None:
            with suppress(psutil.Error):
                parent = psutil.Process(process.pid)
                family = [parent, *parent.children(recursive=True)]
                used.memory = max(used.memory, sum(one.memory_info().rss for one in family) / 2**20)
                used.cpu = max(used.cpu, sum(sum(one.cpu_times()[:2]) for one in family))
            if kill() or time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(LOOK_SECONDS)
    used.status = process.returncode
    return used


def seconds_to_import(package: Package) -> float:
    times = []
    for _ in range(IMPORTS):
        begun = time.perf_counter()
        subprocess.run([package.python, "-c", package.imports], check=True, capture_output=True)
        times.append(time.perf_counter() - begun)
    return min(times)
