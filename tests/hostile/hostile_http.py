"""The real commands against a server that breaks the protocol: nothing hangs, floods, leaks, is lost or made up.

In each run some of the rows meet a mode of it, whenever they are asked about; then the same command runs again against
the same server, which has become honest. What the rows must be, a run that nobody disturbed says.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hostile_modes import MODES
from hostile_server import HostileServer, shows_key

from rag_zeval.literal_judge import literal_reply

ROOT = Path(__file__).parents[2]
REFUSED = "nobody listens"
ON_MODELS = "models: "  # before the name of a mode: the list of models meets it, and chats do not
OF_MODELS = (
    "reset", "closed without a word", "half a body", "no body", "hangs", "hangs after the headers", "hangs in the body",
    "drips the status line", "drips headers", "drips the body", "endless headers", "an endless header", "endless 1xx",
    "an endless body", "endless tiny chunks", "50 MB", "an announced petabyte", "a gzip bomb", "a broken gzip",
    "a length too short", "garbage", "two answers at once", "204", "302 elsewhere", "307, always another", "401", "403",
    "404", "429, again after '1'", "500", "an error of escapes", "the key in an error", "the key in a status line",
    "the key in a broken header", "the key as a model", "null", "JSON that nests", "usage of 5,000 digits",
)  # fmt: skip
EVERYTHING = (REFUSED, *MODES, *(ON_MODELS + mode for mode in OF_MODELS))
# These take time or memory: the short form leaves them out.
HEAVY = re.compile(f"{REFUSED}|{ON_MODELS}|endless|drips|hangs|MB|bomb|petabyte|accept|too long")
ALONE = re.compile(f"{REFUSED}|{ON_MODELS}")  # the whole server's modes; others share a run, one on each row
HIT = (2, 3, 4, 5, 6, 7, 8, 9)  # numbers of rows
ROWS, WIKIEVAL_ROWS = 12, 10  # each of the latter is two examples, of two scorers
TIMEOUT = 3.0  # seconds for a reply
DEADLINE = 90.0  # seconds for a command: a row may be asked about by two scorers, and a machine may be busy
MOST_MIB = 500
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")  # what a terminal obeys
Place = tuple[str, str]  # a row file and an id
Rows = dict[Place, list[float | None]]


@dataclass(frozen=True)
class Ended:
    """A command that ended, or was ended (`hung`), what it said, and its memory at most in MiB."""

    status: int
    said: bytes
    seconds: float
    mib: float
    hung: bool


def _run(line: Sequence[str], folder: Path, key: str) -> Ended:
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    env |= {"OPENAI_API_KEY": key, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    mib, hung, started = 0.0, False, time.monotonic()
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen([sys.executable, "-m", *line], cwd=folder, env=env, stdout=said, stderr=said) as process:
            while process.poll() is None:
                mib = max(mib, _peak_mib(process.pid))
                if time.monotonic() - started > DEADLINE:
                    hung = True
                    process.kill()
                time.sleep(0.02)
        said.seek(0)
        return Ended(process.returncode, said.read(), time.monotonic() - started, mib, hung)


def _peak_mib(process: int) -> float:
    with suppress(OSError):  # it has ended
        if found := re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text()):
            return int(found[1]) / 1024
    return 0.0


def _texts(number: int) -> tuple[str, str, str]:
    """A reference of four facts, and two answers of which it holds another share for each row."""
    rng = random.Random(number)
    facts = [f"Fact {at} of {number} is {rng.randrange(100)}" for at in range(4)]
    lies = [f"Lie {at} of {number} is {rng.randrange(100)}" for at in range(3)]
    first = [*facts[: 1 + number % 3], *lies[: number % 2]]
    return ". ".join(facts) + ".", ". ".join(first) + ".", ". ".join([facts[0], *lies[: 1 + number % 3]]) + "."


def _write_inputs(folder: Path) -> None:
    (folder / "wikieval").mkdir(parents=True)
    with open(folder / "in.jsonl", "w") as rows, open(folder / "wikieval" / "rows.jsonl", "w") as wikieval:
        for n in range(ROWS):
            reference, good, poor = _texts(n)
            asked = {"question": f"question {n}"}
            rows.write(json.dumps({**asked, "id": f"r{n}", "reference": reference, "answers": [good, poor]}) + "\n")
            texts = {"answer": good, "poor_answer": poor, "ungrounded_answer": "No fact at all."}
            if n < WIKIEVAL_ROWS:
                wikieval.write(json.dumps({**asked, "context_v1": [reference], **texts}) + "\n")


def _line(command: str, inputs: Path, url: str) -> list[str]:
    if command == "evaluate":
        words = ["rag_zeval", "evaluate", str(inputs / "in.jsonl"), "--model", f"openai:judge@{url}"]
        words += ["--out", "rows.jsonl", "--html", "report.html", "--cache", "cache.sqlite"]
        return [*words, "--timeout", f"{TIMEOUT}", "--connect-timeout", f"{TIMEOUT}"]
    words = ["eval_benchmarks", "benchmarks=[wikieval]", "scorers=[rag_zeval,is_correct]", f"data_dir={inputs}"]
    words += [f"models=['openai:judge@{url}']", "out_dir=out", "bootstrap.draws=50"]
    return [*words, f"judge.timeout={TIMEOUT}", f"judge.connect_timeout={TIMEOUT}"]


@dataclass
class RowsOnDisk:
    """Scores of rows by place; the places of rows that say a deadline struck, and of those never asked about again."""

    scores: Rows = field(default_factory=dict)
    late: set[Place] = field(default_factory=set)
    final: set[Place] = field(default_factory=set)


def _rows(command: str, folder: Path) -> RowsOnDisk:
    rows = RowsOnDisk()
    for path in sorted(folder.glob("rows.jsonl" if command == "evaluate" else "out/rows/*.jsonl")):
        name = path.name.split("__")[1] if command == "bench" else ""
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            place = (name, row["id"])
            rows.scores[place] = [score if command == "evaluate" else score["value"] for score in row["scores"]]
            if re.search(r"failed: no (answer|score) within", line):
                rows.late.add(place)
            if row.get("final"):
                rows.final.add(place)
    return rows


def _is_hit(id_: str) -> bool:
    return int(re.findall(r"\d+", id_)[0]) in HIT


class _Campaign:
    """Runs commands in folders of their own, counts what came of it, and notes the faults."""

    def __init__(self, folder: Path, seed: int):
        rng = random.Random(seed)
        letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
        self.key = "sk-{}+{}/{}".format(*("".join(rng.choices(letters, k=16)) for _ in range(3)))
        self.folder = folder
        self.counts: Counter[str] = Counter()
        self.peak = self.longest = 0.0
        self.faults: list[str] = []
        self.right: dict[str, Rows] = {}
        _write_inputs(folder / "inputs")

    def undisturbed(self, command: str) -> None:
        """Note the right rows of a command."""
        server = HostileServer(literal_reply)
        folder = self._folder("undisturbed", command)
        ended = self._run(command, folder, server, f"undisturbed, {command}")
        self.right[command] = _rows(command, folder).scores
        server.close()
        whole = len(self.right[command]) == {"evaluate": ROWS, "bench": 4 * WIKIEVAL_ROWS}[command]
        if ended.status or not whole or any(None in scores for scores in self.right[command].values()):
            raise RuntimeError(f"{command} fails undisturbed: {ended.said.decode(errors='replace')}")

    def disturbed(self, modes: Sequence[str], command: str) -> None:
        """One mode, or several that share the rows; then the same command again, and an honest server."""
        where = f"{' + '.join(modes)}, {command}"
        folder = self._folder(modes[0], command)
        server = HostileServer(literal_reply)
        if modes[0] == REFUSED:
            server.close()
        elif modes[0].startswith(ON_MODELS):
            server.set(modes[0].removeprefix(ON_MODELS), on_models=True)
        else:
            server.mix({number: modes[at % len(modes)] for at, number in enumerate(HIT)})
        first = self._run(command, folder, server, where)
        rows = _rows(command, folder)
        self._compare(where, command, rows, lambda at: first.status == 2 or at in rows.late or _is_hit(at[1]))
        self.counts["rows late"] += sum(not _is_hit(id_) for _, id_ in rows.late)
        if server.elsewhere:
            self._note("prompts sent elsewhere", f"{where}: {server.elsewhere} requests went to another server")
        if modes[0] == REFUSED:
            server = HostileServer(literal_reply, port=server.port)
        server.set("good")
        second = self._run(command, folder, server, f"{where}, again")
        server.close()
        rows = _rows(command, folder)
        self._compare(f"{where}, again", command, rows, lambda at: at in rows.final and _is_hit(at[1]))
        if second.status:
            self.faults.append(f"{where}, again: exit {second.status}: {second.said.decode(errors='replace')[-300:]}")
        files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for name, content in {"the output": first.said + second.said, **files}.items():
            if pieces := shows_key(content, self.key):
                self._note("keys found", f"{where}: the key stands in {name}: {pieces[0]}")
        self.counts["modes x commands"] += len(modes)

    def _note(self, kind: str, fault: str) -> None:
        self.counts[kind] += 1
        self.faults.append(fault)

    def _folder(self, mode: str, command: str) -> Path:
        folder = self.folder / re.sub(r"\W+", "-", f"{mode}-{command}")
        folder.mkdir()
        return folder

    def _run(self, command: str, folder: Path, server: HostileServer, where: str) -> Ended:
        ended = _run(_line(command, self.folder / "inputs", server.url), folder, self.key)
        self.counts["commands run"] += 1
        self.peak, self.longest = max(self.peak, ended.mib), max(self.longest, ended.seconds)
        text = ended.said.decode("utf-8", "replace")
        for kind, seen, what in (
            ("hangs", ended.hung, f"not done after {DEADLINE:g} s"),
            ("tracebacks", "Traceback" in text, f"a traceback: {text[-300:]}"),
            ("other exits", not ended.hung and ended.status not in (0, 1, 2), f"exit {ended.status}: {text[-300:]}"),
            ("too large", ended.mib > MOST_MIB, f"{ended.mib:.0f} MiB"),
            ("escapes", UNSEEN.search(text), f"controls in the output: {text[-300:]!r}"),
        ):
            if seen:
                self._note(kind, f"{where}: {what}")
        return ended

    def _compare(self, where: str, command: str, rows: RowsOnDisk, may_lack: Callable[[Place], bool]) -> None:
        """Note a score that is not the right one, and a missing one unless its row `may_lack` it."""
        for place, right in self.right[command].items():
            scores = rows.scores.get(place, [None] * len(right))
            fault = f"{where}: row {place} has {scores}, not {right}"
            if any(score not in (None, true) for score, true in zip(scores, right, strict=True)):
                self._note("rows invented", fault)
            elif None in scores and not may_lack(place):
                self._note("rows lost", fault)
        for place in set(rows.scores) - set(self.right[command]):
            self._note("rows invented", f"{where}: a row that nobody asked for: {place}")


COUNTED = (
    "modes x commands", "commands run", "rows lost", "rows invented", "keys found", "hangs", "tracebacks",
    "other exits", "too large", "escapes", "rows late", "prompts sent elsewhere",
)  # fmt: skip


def run(
    modes: Sequence[str] = EVERYTHING,
    commands: Sequence[str] = ("evaluate", "bench"),
    *,
    seed: int = 0,
    workers: int = 2,
) -> tuple[dict[str, int | float], list[str]]:
    """Each mode with each command, `workers` at a time: counts to print, and a line for each promise seen broken."""
    shared = [mode for mode in modes if not ALONE.match(mode)]
    groups = [[mode] for mode in modes if ALONE.match(mode)]
    groups += [shared[at : at + len(HIT)] for at in range(0, len(shared), len(HIT))]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        campaign = _Campaign(Path(folder), seed)
        for command in commands:
            campaign.undisturbed(command)

        def attempt(group: list[str], command: str) -> None:
            try:
                campaign.disturbed(group, command)
            except Exception as error:
                campaign.faults.append(f"{' + '.join(group)}, {command}: {type(error).__name__}: {error}")

        started = time.monotonic()
        attempts = [pool.submit(attempt, group, command) for group in groups for command in commands]
        for number, _ in enumerate(as_completed(attempts), 1):
            if number % 10 == 0:
                done, seconds = campaign.counts["modes x commands"], time.monotonic() - started
                print(f"HTTP: {done} modes, {seconds:.0f} s, {len(campaign.faults)} faults", flush=True)
    return {
        "HTTP modes": len(modes),
        **{name: campaign.counts[name] for name in COUNTED},
        "peak MiB": round(campaign.peak),
        "longest command, seconds": round(campaign.longest, 1),
    }, campaign.faults
