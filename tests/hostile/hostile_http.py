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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path

from findings import Findings
from hostile_modes import MODES
from hostile_server import HostileServer, shows_key

from rag_zeval.files import Row, read_jsonl
from rag_zeval.literal_judge import literal_reply
from rag_zeval.results import SPENT

ROOT = Path(__file__).parents[2]
COMMANDS = ("evaluate", "bench")
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
Place = tuple[str, str]  # a scorer (none in `evaluate`) and a row's id
Rows = dict[Place, Row]


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


def _rows(command: str, folder: Path) -> Rows:
    paths = folder.glob("rows.jsonl" if command == "evaluate" else "out/rows/*.jsonl")  # BENCHMARK__SCORER__MODEL.jsonl
    rows = [(path, row) for path in paths for row in read_jsonl(path) if row["id"] != SPENT]
    return {(path.name.partition("__")[2].split("__")[0], row["id"]): row for path, row in rows}


def _scores(row: Row) -> list[float | None]:
    return [score["value"] if isinstance(score, dict) else score for score in row["scores"]]


def _is_hit(place: Place) -> bool:
    return int(re.findall(r"\d+", place[1])[0]) in HIT


class _Campaign(Findings):
    """Runs commands in folders of their own, and compares their rows with those of commands that nobody disturbed."""

    def __init__(self, folder: Path):
        super().__init__("HTTP", COUNTED)
        rng = random.Random(0)
        letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
        self.key = "sk-{}+{}/{}".format(*("".join(rng.choices(letters, k=16)) for _ in range(3)))
        self.folder = folder
        _write_inputs(folder / "inputs")
        self.right = {command: self._undisturbed(command) for command in COMMANDS}

    def _undisturbed(self, command: str) -> Rows:
        server = HostileServer(literal_reply)
        folder = self._folder("undisturbed", command)
        status, said = self._run(command, folder, server, f"undisturbed, {command}")
        rows = _rows(command, folder)
        server.close()
        whole = len(rows) == {"evaluate": ROWS, "bench": 4 * WIKIEVAL_ROWS}[command]
        if status or not whole or any(None in _scores(row) for row in rows.values()):
            raise RuntimeError(f"{command} fails undisturbed: {said}")
        return rows

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
        first_status, said = self._run(command, folder, server, where)
        rows = _rows(command, folder)
        late = {at for at, row in rows.items() if re.search(r"failed: no (answer|score) within", json.dumps(row))}
        self._compare(where, command, rows, lambda at: first_status == 2 or at in late or _is_hit(at))
        self.counts["rows late"] += sum(not _is_hit(at) for at in late)
        if modes[0] == REFUSED:
            server = HostileServer(literal_reply, port=server.server_port)
        self.note("prompts sent elsewhere", where, ["to another server"] * server.elsewhere)
        server.set("good")
        status, said_again = self._run(command, folder, server, f"{where}, again")
        server.close()
        again = _rows(command, folder)
        final = {at for at, row in again.items() if row.get("final")}
        self._compare(f"{where}, again", command, again, lambda at: at in final and _is_hit(at))
        self.note("ended badly", where, [said_again[-300:]] if status else [])
        files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for name, content in {"the output": (said + said_again).encode(), **files}.items():
            self.note("keys found", where, [f"{piece} in {name}" for piece in shows_key(content, self.key)[:1]])
        self.counts["modes x commands"] += len(modes)

    def _folder(self, mode: str, command: str) -> Path:
        folder = self.folder / re.sub(r"\W+", "-", f"{mode}-{command}")
        folder.mkdir()
        return folder

    def _run(self, command: str, folder: Path, server: HostileServer, where: str) -> tuple[int, str]:
        """Run a command to its end, and note what no command may do; its exit status, and what it said."""
        env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        env |= {"OPENAI_API_KEY": self.key, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        line = [sys.executable, "-m", *_line(command, self.folder / "inputs", server.url)]
        mib, hung, started = 0.0, False, time.monotonic()
        with tempfile.TemporaryFile() as output:
            with subprocess.Popen(line, cwd=folder, env=env, stdout=output, stderr=output) as process:
                while process.poll() is None:
                    mib = max(mib, _peak_mib(process.pid))
                    if time.monotonic() - started > DEADLINE:
                        hung = True
                        process.kill()
                    time.sleep(0.02)
            output.seek(0)
            said = output.read().decode("utf-8", "replace")
        status, seconds = process.returncode, time.monotonic() - started
        self.counts["commands run"] += 1
        for most, value in (("peak MiB", mib), ("longest command, seconds", seconds)):
            self.counts[most] = max(self.counts[most], round(value, 1))
        for kind, seen in {
            "hangs": hung,
            "tracebacks": "Traceback" in said,
            "other exits": not hung and status not in (0, 1, 2),
            "too large": mib > MOST_MIB,
            "escapes": UNSEEN.search(said),
        }.items():
            end = f"exit {status} after {seconds:.0f} s, {mib:.0f} MiB: {said[-300:]!r}"
            self.note(kind, where, [end] if seen else [])
        return status, said

    def _compare(self, where: str, command: str, rows: Rows, may_lack: Callable[[Place], bool]) -> None:
        """Note a score that is not the right one, and a missing one unless its row `may_lack` it."""
        for place, undisturbed in self.right[command].items():
            right = _scores(undisturbed)
            scores = _scores(rows[place]) if place in rows else [None] * len(right)
            fault = f"row {place} has {scores}, not {right}"
            if any(score not in (None, true) for score, true in zip(scores, right, strict=True)):
                self.note("rows invented", where, [fault])
            elif None in scores and not may_lack(place):
                self.note("rows lost", where, [fault])
        self.note("rows invented", where, [f"nobody asked for {place}" for place in rows.keys() - self.right[command]])


COUNTED = (
    "HTTP modes", "modes x commands", "commands run", "rows lost", "rows invented", "keys found", "hangs", "tracebacks",
    "other exits", "too large", "escapes", "rows late", "prompts sent elsewhere", "ended badly",
)  # fmt: skip


def run(modes: Sequence[str] = EVERYTHING) -> Findings:
    """Each mode with each of COMMANDS, two at a time."""
    shared = [mode for mode in modes if not ALONE.match(mode)]
    groups = [[mode] for mode in modes if ALONE.match(mode)]
    groups += [shared[at : at + len(HIT)] for at in range(0, len(shared), len(HIT))]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        campaign = _Campaign(Path(folder))
        campaign.counts["HTTP modes"] = len(modes)
        attempts = {
            pool.submit(campaign.disturbed, group, command): f"{' + '.join(group)}, {command}"
            for group in groups
            for command in COMMANDS
        }
        for attempt in as_completed(attempts):
            if error := attempt.exception():
                campaign.note("broke off", attempts[attempt], [repr(error)])
            campaign.tell(f"{campaign.counts['modes x commands']} modes")
    return campaign
