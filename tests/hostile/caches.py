"""The real commands and reply caches that somebody cut, edited, locked, deleted or filled the disk under.

A cache saves money and nothing else: whatever becomes of its file, rows are those of a run that nobody disturbed, no
command breaks off in the middle, and a bad entry is asked for again and replaced. One that cannot be opened at the
start is a line and exit status 2, before anything is asked.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from findings import Findings

from rag_zeval.files import Row, read_jsonl
from rag_zeval.literal_judge import literal_reply
from rag_zeval.scripted_judge import ScriptedJudge

ROOT = Path(__file__).parents[2]
COMMANDS = ("evaluate", "bench")
ROWS = 14  # of `evaluate`, with three scorers; of `bench`, whose rows are two examples each
DEADLINE = 90.0  # seconds for a command; a lock is waited for 10 seconds
IN_THE_MIDDLE = 5  # requests after which harm is done
SHM_LOCKS = (120, 8)  # where SQLite's locks of a cache stand in the file beside it: all of them keep readers out, too
Harm = Callable[[Path], Any]  # done to the file of a cache
Rows = dict[tuple[str, str], list[Any]]  # scores by file and row


def _json_of(entry: str) -> str:
    return entry.partition(" ")[2]


def _vector(content: bytes) -> str:
    return f' ["{base64.b64encode(content).decode()}", 3, null]'


# What may stand in place of an entry, made of it and of another one.
ENTRIES: dict[str, Callable[[str, str], Any]] = {
    "empty": lambda entry, other: "",
    "cut off": lambda entry, other: entry[: len(entry) // 2],
    "cut by a character": lambda entry, other: entry[:-1],
    "without its beginning": lambda entry, other: entry[1:],
    "longer": lambda entry, other: entry + " ",
    "a character changed": lambda entry, other: entry.replace("e", "f", 1),
    "another verdict": lambda entry, other: entry.replace("true", "false").replace('\\"CORRECT', '\\"WRONG'),
    "of another request": lambda entry, other: other,
    "its JSON alone": lambda entry, other: _json_of(entry),
    "another's JSON": lambda entry, other: f"{entry[:64]} {_json_of(other)}",
    "another digest": lambda entry, other: "0" * 64 + entry[64:],
    "not JSON": lambda entry, other: "not JSON",
    "half of JSON": lambda entry, other: '{"text": "',
    **{f"JSON: {value}": lambda entry, other, value=value: value for value in ("null", "7", "[]", "{}", '"x"', "NaN")},
    "of an earlier version": lambda entry, other: json.dumps(
        {"text": "[]", "status": "ok", "prompt_tokens": 1, "completion_tokens": 1}
    ),
    "of a later version": lambda entry, other: json.dumps({"v": 3, "text": "[]", "status": "ok", "cost": 0.1}),
    "a status that failed": lambda entry, other: json.dumps({"text": None, "status": "failed: no"}),
    "a text that is a number": lambda entry, other: json.dumps({"text": 7, "status": "ok"}),
    "tokens without end": lambda entry, other: '{"text": "x", "status": "ok", "prompt_tokens": ' + "9" * 5_000 + "}",
    "a vector of another length": lambda entry, other: entry[:64] + _vector(bytes(12)),
    "a vector of no length": lambda entry, other: entry[:64] + _vector(b""),
    "a vector that is no base64": lambda entry, other: f'{entry[:64]} ["?", 3, null]',
    "a vector of NaN": lambda entry, other: entry[:64] + _vector(bytes([0, 0, 192, 127])),
    "brackets without end": lambda entry, other: "[" * 100_000,
    "huge": lambda entry, other: "x" * 30_000_000,
    "NUL": lambda entry, other: "\0" + entry,
    "half a character": lambda entry, other: r'["\ud800", 7, 5]',
    "bytes": lambda entry, other: entry.encode()[::-1],
    "bytes that are no UTF-8": lambda entry, other: b"\xff\xfe" + entry.encode(),
    "a number": lambda entry, other: 7,
    "the largest number": lambda entry, other: 2**63 - 1,
    "not a number": lambda entry, other: 1e308,
}  # fmt: skip


def _sql(*statements: str) -> Harm:
    def harm(cache: Path) -> None:
        with _opened(cache) as database:
            for statement in statements:
                database.execute(statement)

    return harm


def _written(content: bytes, at: int = 0, suffix: str = "") -> Harm:
    """Bytes over those of the file, or of one beside it."""

    def harm(cache: Path) -> None:
        path = cache.with_name(cache.name + suffix)
        with open(path, "r+b" if path.exists() else "wb") as file:
            file.seek(at)
            file.write(content)

    return harm


def _truncated(size: int, suffix: str = "") -> Harm:
    return lambda cache: os.truncate(cache.with_name(cache.name + suffix), size)


def _replaced(content: bytes) -> Harm:
    def harm(cache: Path) -> None:
        cache.unlink()
        cache.write_bytes(content)

    return harm


def _a_folder(cache: Path) -> None:
    cache.unlink()
    cache.mkdir()


def _gone(cache: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        cache.with_name(cache.name + suffix).unlink(missing_ok=True)


NOISE = random.Random(0).randbytes(1 << 14)
# What may become of the file, before a run or in its middle.
FILES: dict[str, Harm] = {
    "emptied": _truncated(0),
    "cut to its header": _truncated(100),
    "cut to a page": _truncated(4096),
    "cut in a page": _truncated(9_000),
    "noise": _written(NOISE),
    "noise behind the header": _written(NOISE, 100),
    "noise behind a page": _written(NOISE, 4096),
    "noise beside it": _written(NOISE, 0, "-wal"),
    "noise in its index": _written(NOISE, 0, "-shm"),
    "text": _replaced(b"no database at all\n" * 500),
    "a row file": _replaced(b'{"id": "r0|rag_zeval", "scores": [1.0]}\n'),
    "deleted": lambda cache: cache.unlink(),
    "deleted with what is beside it": _gone,
    "without its log": lambda cache: cache.with_name(cache.name + "-wal").unlink(missing_ok=True),
    "a folder": _a_folder,
    "another table": _sql("DROP TABLE replies", "CREATE TABLE persons (name TEXT)"),
    "a table more": _sql("CREATE TABLE persons (name TEXT)"),
    "no table": _sql("DROP TABLE replies"),
    "other columns": _sql("DROP TABLE replies", "CREATE TABLE replies (id INTEGER PRIMARY KEY, text TEXT)"),
    "a view": _sql("DROP TABLE replies", "CREATE VIEW replies AS SELECT 'a' AS key, 'b' AS reply"),
    "NULL": _sql("DROP TABLE replies", "CREATE TABLE replies (key, reply)", "INSERT INTO replies VALUES ('a', NULL)"),
    "another encoding": _sql("DROP TABLE replies", "PRAGMA encoding='UTF-16'", "VACUUM"),
    "other pages": _sql("PRAGMA journal_mode=DELETE", "PRAGMA page_size=512", "VACUUM"),
    "no log any more": _sql("PRAGMA journal_mode=DELETE"),
}


@contextmanager
def _opened(cache: Path) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(cache, isolation_level=None, timeout=5)
    try:
        yield database
    finally:
        database.close()


class _Locks:
    """Locks on a cache that another process holds until it is told to end."""

    CODE = """
import fcntl, sqlite3, sys
path, kind = sys.argv[1:]
if kind == "all":  # nobody may even read
    file = open(path + "-shm", "r+b")
    fcntl.lockf(file, fcntl.LOCK_EX, {1}, {0})
else:
    database = sqlite3.connect(path, isolation_level=None, timeout=5)
    database.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
""".format(*SHM_LOCKS)

    def __init__(self, kind: str, seconds: float | None):
        self._kind, self._seconds = kind, seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, cache: Path) -> None:
        line = [sys.executable, "-c", self.CODE, str(cache), self._kind]
        self._process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()
        if self._seconds is not None:
            threading.Timer(self._seconds, self.end).start()

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def _texts(number: int) -> tuple[str, str, str]:
    facts = [f"Fact {at} of {number} is so" for at in range(3)]
    return ". ".join(facts) + ".", f"{facts[0]}. {facts[number % 3]}.", f"{facts[1]}. Lie of {number}."


class _Campaign(Findings):
    def __init__(self, folder: Path, commands: Iterable[str]):
        super().__init__("caches", COUNTED)
        self.folder = folder
        self._numbers = itertools.count()
        (folder / "wikieval").mkdir(parents=True)
        with open(folder / "in.jsonl", "w") as rows, open(folder / "wikieval" / "rows.jsonl", "w") as wikieval:
            for n in range(ROWS):
                reference, good, poor = _texts(n)
                row = {"id": f"r{n}", "question": f"question {n}", "answer": good, "truth": reference}
                rows.write(json.dumps({**row, "contexts": [reference]}) + "\n")
                texts = {"answer": good, "poor_answer": poor, "ungrounded_answer": "No fact at all."}
                wikieval.write(json.dumps({"question": f"question {n}", "context_v1": [reference], **texts}) + "\n")
        self.right: dict[str, Rows] = {}
        self.undisturbed: dict[str, Path] = {}
        for command in commands:
            with self._judged(command) as (place, judge):
                status, said = self._run(command, place, judge, "undisturbed")
            self.right[command], self.undisturbed[command] = _rows(place), place
            if status or not self.right[command] or any(None in scores for scores in self.right[command].values()):
                raise RuntimeError(f"{command} fails undisturbed: {said}")

    @contextmanager
    def _judged(self, command: str) -> Iterator[tuple[Path, ScriptedJudge]]:
        """A folder for a command, and a judge."""
        place = self.folder / f"{next(self._numbers)}-{command}"
        place.mkdir()
        judge = ScriptedJudge(literal_reply)
        judge.delay = 0.01
        try:
            yield place, judge
        finally:
            judge.close()

    def _kept(self, command: str, place: Path, judge: ScriptedJudge, where: str) -> Path:
        """The cache that a run without harm has left; its rows are gone."""
        self._run(command, place, judge, f"{where}, at first")
        _forget_rows(place)
        judge.requests.clear()
        return _cache(command, place)

    def _run(
        self, command: str, place: Path, judge: ScriptedJudge, where: str, most_kib: int | None = None
    ) -> tuple[int, str]:
        """Run a command to its end; its exit status, and what it said. Notes what no command may do."""
        env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        env |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        started = time.monotonic()
        line = [sys.executable, "-m", *_line(command, self.folder, judge)]
        if most_kib is not None:  # of any file that it writes
            line = ["bash", "-c", f'ulimit -f {most_kib}; exec "$@"', "bash", *line]
        process = subprocess.Popen(line, cwd=place, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        timer = threading.Timer(DEADLINE, process.send_signal, (signal.SIGKILL,))
        timer.start()
        said = process.communicate()[0].decode("utf-8", "replace")
        timer.cancel()
        seconds = time.monotonic() - started
        self.counts["commands run"] += 1
        most = "longest command, seconds"
        self.counts[most] = max(self.counts[most], round(seconds, 1))
        end = f"exit {process.returncode} after {seconds:.0f} s: {said[-400:]!r}"
        self.note("hangs", where, [end] if process.returncode == -signal.SIGKILL else [])
        self.note("tracebacks", where, [end] if "Traceback" in said else [])
        self.note("warned twice", where, [end] if said.count("warning: ") > 1 else [])
        return process.returncode, said

    def _compare(self, where: str, command: str, place: Path, whole: bool) -> None:
        rows = _rows(place)
        for at, right in self.right[command].items():
            scores = rows.get(at, [None] * len(right))
            if any(score not in (None, true) for score, true in zip(scores, right, strict=True)):
                self.note("rows invented", where, [f"{at}: {scores}, not {right}"])
            elif whole and None in scores:
                self.note("rows lost", where, [f"{at}: {scores}, not {right}"])

    def entries(self, command: str, turn: int) -> None:
        """Other entries, a kind after the other: all are asked for again, each once, and replaced by good ones."""
        where = f"other entries, turn {turn}, {command}"
        with self._judged(command) as (place, judge):
            with _opened(self._kept(command, place, judge, where)) as database:
                entries = database.execute("SELECT key, reply FROM replies ORDER BY key").fetchall()
                kinds = list(ENTRIES)
                for at, (key, entry) in enumerate(entries):
                    kind = kinds[(at + turn) % len(kinds)]
                    changed = ENTRIES[kind](entry, entries[at - 1][1])
                    changed = changed if changed != entry else entry[:-2]
                    database.execute("UPDATE replies SET reply = ? WHERE key = ?", (changed, key))
                    self.counts["entries changed"] += 1
            for again, asked in (("", len(entries)), (", once more", 0)):
                status, said = self._run(command, place, judge, f"{where}{again}")
                self.note("ended badly", where + again, [said[-300:]] if status or "warning: " in said else [])
                self._compare(where + again, command, place, whole=True)
                wrong = [f"{len(judge.requests)} times, not {asked}"] * (len(judge.requests) != asked)
                self.note("asked otherwise", where + again, wrong)
                _forget_rows(place)
                judge.requests.clear()

    def broken_before(self, command: str, kind: str) -> None:
        """A file that was harmed: refused before anything is asked, or as good as none."""
        where = f"{kind} before, {command}"
        with self._judged(command) as (place, judge):
            FILES[kind](self._kept(command, place, judge, where))
            status, said = self._run(command, place, judge, where)
            self.counts["refused at the start"] += status == 2
            if status == 2:
                named = _cache(command, place).name in said.splitlines()[-1]
                self.note("ended badly", where, [said[-300:]] if not named or judge.requests else [])
            else:
                self.note("ended badly", where, [said[-300:]] if status else [])
                self._compare(where, command, place, whole=True)

    def broken_in_the_middle(self, command: str, kind: str, harm: Harm) -> None:
        """Harm done while a run asks: it ends with all rows. The same command finds them, or refuses the cache."""
        where = f"{kind} in the middle, {command}"
        with self._judged(command) as (place, judge):
            lock, done = threading.Lock(), threading.Event()

            def reply(body: dict[str, Any]) -> str | None:
                with lock:
                    if len(judge.requests) > IN_THE_MIDDLE and not done.is_set():
                        done.set()
                        with suppress(OSError, sqlite3.Error):  # it may be in use at this moment
                            harm(_cache(command, place))
                return literal_reply(body)

            judge.replies = reply
            status, said = self._run(command, place, judge, where)
            if isinstance(harm, _Locks):
                harm.end()
            self.counts["warned of a cache"] += "warning: " in said
            self.note("ended badly", where, [said[-300:]] if status or not done.is_set() else [])
            self._compare(where, command, place, whole=True)
            status, said = self._run(command, place, judge, f"{where}, again")
            self.note("ended badly", f"{where}, again", [said[-300:]] if status not in (0, 2) else [])
            self._compare(f"{where}, again", command, place, whole=True)

    def locked_before(self, command: str, kind: str, seconds: float | None) -> None:
        """A lock held when a run starts: it is waited for, and one that stays is a line and status 2."""
        where = f"a lock of {kind} before, for {seconds} s, {command}"
        with self._judged(command) as (place, judge):
            cache = self._kept(command, place, judge, where)
            held = sqlite3.connect(cache)  # keeps the files beside it there
            held.execute("SELECT count(*) FROM replies").fetchall()
            lock = _Locks(kind, seconds)
            lock(cache)
            status, said = self._run(command, place, judge, where)
            lock.end()
            held.close()
            wanted = 2 if seconds is None else 0
            well = status == wanted and (wanted == 0 or "keeps it locked" in said.splitlines()[-1])
            self.note("ended badly", where, [] if well and not (wanted and judge.requests) else [said[-300:]])
            if not wanted:
                self._compare(where, command, place, whole=True)

    def full_disk(self, command: str) -> None:
        """No file may grow beyond what rows and reports need: the cache, which needs more, is not what a run needs."""
        where = f"a full disk, {command}"
        largest = max(
            path.stat().st_size
            for path in self.undisturbed[command].rglob("*")
            if path.is_file() and "sqlite" not in path.name
        )
        with self._judged(command) as (place, judge):
            status, said = self._run(command, place, judge, where, most_kib=max(largest // 1024 + 4, 40))
            self.counts["warned of a cache"] += "warning: " in said
            self.note("ended badly", where, [said[-300:]] if status or "warning: " not in said else [])
            self._compare(where, command, place, whole=True)
            _forget_rows(place)
            status, said = self._run(command, place, judge, f"{where}, again")
            self.note("ended badly", f"{where}, again", [said[-300:]] if status else [])
            self._compare(f"{where}, again", command, place, whole=True)


COUNTED = (
    "commands run", "entries changed", "refused at the start", "warned of a cache", "rows lost", "rows invented",
    "asked otherwise", "hangs", "tracebacks", "warned twice", "ended badly",
)  # fmt: skip


def _line(command: str, inputs: Path, judge: ScriptedJudge) -> list[str]:
    if command == "evaluate":
        words = [
            "rag_zeval",
            "evaluate",
            str(inputs / "in.jsonl"),
            "--scorers",
            "rag_zeval,is_correct,embedding_similarity",
        ]
        words += ["--model", judge.spec(), "--embeddings", judge.spec("vectors"), "--concurrency", "2"]
        return [*words, "--against", "contexts", "--out", "rows.jsonl", "--cache", "cache.sqlite"]
    words = ["eval_benchmarks", "benchmarks=[wikieval]", "scorers=[is_correct]", f"data_dir={inputs}", "out_dir=out"]
    return [*words, f"models=['{judge.spec()}']", "bootstrap.draws=20", "judge.concurrency=2", "judge.trials=1"]


def _cache(command: str, place: Path) -> Path:
    return place / ("cache.sqlite" if command == "evaluate" else "out/replies.sqlite")


def _row_files(place: Path) -> list[Path]:
    return [*place.glob("rows.jsonl"), *place.glob("out/rows/*.jsonl")]


def _rows(place: Path) -> Rows:
    """Scores by file and row; the name of a file of `bench` ends in what its model's URL is hashed into."""
    rows: list[tuple[Path, Row]] = [(path, row) for path in _row_files(place) for row in read_jsonl(path)]
    return {(re.split("__openai|-openai", path.name)[0], row["id"]): _scores(row) for path, row in rows}


def _scores(row: Row) -> list[Any]:
    return [score["value"] if isinstance(score, dict) else score for score in row["scores"]]


def _forget_rows(place: Path) -> None:
    for path in _row_files(place):
        path.unlink()


MIDDLE: dict[str, Callable[[], Harm]] = {
    **{kind: lambda harm=harm: harm for kind, harm in FILES.items()},
    "locked for writers for a while": lambda: _Locks("writers", 2.0),
    "locked for writers for good": lambda: _Locks("writers", None),
    "locked for all for a while": lambda: _Locks("all", 2.0),
    "locked for all for good": lambda: _Locks("all", None),
}


def run(
    turns: int = 12,
    before: Sequence[str] = tuple(FILES),
    middle: Sequence[str] = tuple(MIDDLE),
    locks: Sequence[float | None] = (2.0, None),
    disk: bool = True,
    commands: Sequence[str] = COMMANDS,
) -> Findings:
    """All kinds of entries in `turns` orders, and all harm to files, by each command; two commands at a time."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        campaign = _Campaign(Path(folder), commands)
        attempts = {}
        for command in commands:
            for turn in range(turns):
                attempts[pool.submit(campaign.entries, command, turn)] = f"entries, {command}"
            for kind in before:
                attempts[pool.submit(campaign.broken_before, command, kind)] = f"{kind} before, {command}"
            for kind in middle:
                attempt = pool.submit(campaign.broken_in_the_middle, command, kind, MIDDLE[kind]())
                attempts[attempt] = f"{kind} in the middle, {command}"
            for kind in ("writers", "all"):
                for seconds in locks:
                    attempts[pool.submit(campaign.locked_before, command, kind, seconds)] = f"a lock before, {command}"
            if disk:
                attempts[pool.submit(campaign.full_disk, command)] = f"a full disk, {command}"
        for attempt in as_completed(attempts):
            if error := attempt.exception():
                campaign.note("broke off", attempts[attempt], [repr(error)])
            campaign.tell(f"{campaign.counts['commands run']} commands")
    return campaign
