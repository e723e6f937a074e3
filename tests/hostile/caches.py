"""The real commands and reply caches that somebody cut, edited, locked, deleted or filled the disk under.

A cache saves money and nothing else: whatever becomes of its file, rows are those of a run that nobody disturbed, no
command breaks off in the middle, and a bad entry is asked for again and replaced. One that cannot be opened at the
start is a line and exit status 2, before anything is asked.
"""

import base64
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from commands import Ended, Place, new_folder, read_rows, row_files, run_command, scores_of, write_rows, write_wikieval
from findings import Findings

from rag_zeval.literal_judge import literal_reply
from rag_zeval.scripted_judge import ScriptedJudge

COMMANDS = {
    "evaluate": (
        "rag_zeval evaluate {inputs}/in.jsonl --scorers rag_zeval,is_correct,embedding_similarity --model {judge} "
        "--embeddings {vectors} --concurrency 2 --against contexts --out rows.jsonl --cache cache.sqlite"
    ),
    "bench": (
        "eval_benchmarks benchmarks=[wikieval] scorers=[is_correct] data_dir={inputs} out_dir=out models=['{judge}'] "
        "bootstrap.draws=20 judge.concurrency=2 judge.trials=1"
    ),
}
CACHES = {"evaluate": "cache.sqlite", "bench": "out/replies.sqlite"}
ROWS = 14  # of `evaluate`, with three scorers; of `bench`, whose rows are two examples each
DEADLINE = 90.0  # seconds for a command; a lock is waited for 10 seconds
IN_THE_MIDDLE = 5  # requests after which harm is done
SHM_LOCKS = (120, 8)  # where SQLite's locks of a cache stand in the file beside it: all of them keep readers out, too
Harm = Callable[[Path], Any]  # done to the file of a cache
Scores = dict[Place, list[Any]]


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
        texts = [_texts(n) for n in range(ROWS)]
        rows = [{"answer": good, "truth": reference, "contexts": [reference]} for reference, good, _ in texts]
        asked = [{"id": f"r{n}", "question": f"question {n}", **row} for n, row in enumerate(rows)]
        write_rows(folder / "in.jsonl", asked)
        write_wikieval(folder, texts)
        self.right: dict[str, Scores] = {}
        self.undisturbed: dict[str, Path] = {}
        for command in commands:
            with self._judged(command) as (place, judge):
                ended = self._run(command, place, judge, "undisturbed")
            self.right[command], self.undisturbed[command] = _scores(place), place
            if ended.status or not self.right[command] or any(None in some for some in self.right[command].values()):
                raise RuntimeError(f"{command} fails undisturbed: {ended.said}")

    @contextmanager
    def _judged(self, command: str) -> Iterator[tuple[Path, ScriptedJudge]]:
        """A folder for a command, and a judge."""
        judge = ScriptedJudge(literal_reply)
        judge.delay = 0.01
        try:
            yield new_folder(self.folder, command), judge
        finally:
            judge.close()

    def _kept(self, command: str, place: Path, judge: ScriptedJudge, where: str) -> Path:
        """The cache that a run without harm has left; its rows are gone."""
        self._run(command, place, judge, f"{where}, at first")
        _forget(place, judge)
        return place / CACHES[command]

    def _run(self, command: str, place: Path, judge: ScriptedJudge, where: str, before: Sequence[str] = ()) -> Ended:
        """Run a command to its end. Notes what no command may do."""
        line = COMMANDS[command].format(inputs=self.folder, judge=judge.spec(), vectors=judge.spec("vectors"))
        ended = run_command(line.split(), place, DEADLINE, before=before)
        self.note_end(where, ended)
        self.note_if(ended.said.count("warning: ") > 1, "warned twice", where, ended)
        return ended

    def _compare(self, where: str, command: str, place: Path) -> None:
        """Every score must be there, as in an undisturbed run."""
        found = _scores(place)
        for at, right in self.right[command].items():
            scores = found.get(at, [None] * len(right))
            invented = any(score not in (None, true) for score, true in zip(scores, right, strict=True))
            self.note_if(invented, "rows invented", where, f"{at}: {scores}, not {right}")
            self.note_if(None in scores and not invented, "rows lost", where, f"{at}: {scores}, not {right}")

    def _run_well(self, where: str, command: str, place: Path, judge: ScriptedJudge, **how: Any) -> Ended:
        """Run a command that must end well, with all scores."""
        ended = self._run(command, place, judge, where, **how)
        self.note_if(ended.status, "ended badly", where, ended)
        self._compare(where, command, place)
        return ended

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
                ended = self._run_well(where + again, command, place, judge)
                self.note_if("warning: " in ended.said, "ended badly", where + again, ended)
                times = len(judge.requests)
                self.note_if(times != asked, "asked otherwise", where + again, f"{times} times, not {asked}")
                _forget(place, judge)

    def broken_before(self, command: str, kind: str) -> None:
        """A file that was harmed: refused before anything is asked, or as good as none."""
        where = f"{kind} before, {command}"
        with self._judged(command) as (place, judge):
            cache = self._kept(command, place, judge, where)
            FILES[kind](cache)
            ended = self._run(command, place, judge, where)
            self.counts["refused at the start"] += ended.status == 2
            if ended.status == 2:
                well = cache.name in ended.last_line and not judge.requests
                self.note_if(not well, "ended badly", where, ended)
            else:
                self.note_if(ended.status, "ended badly", where, ended)
                self._compare(where, command, place)

    def broken_in_the_middle(self, command: str, kind: str) -> None:
        """Harm done while a run asks: it ends with all rows. The same command finds them, or refuses the cache."""
        where = f"{kind} in the middle, {command}"
        harm = MIDDLE[kind]()
        with self._judged(command) as (place, judge):
            lock, done = threading.Lock(), threading.Event()

            def reply(body: dict[str, Any]) -> str | None:
                with lock:
                    if len(judge.requests) > IN_THE_MIDDLE and not done.is_set():
                        done.set()
                        with suppress(OSError, sqlite3.Error):  # it may be in use at this moment
                            harm(place / CACHES[command])
                return literal_reply(body)

            judge.replies = reply
            ended = self._run_well(where, command, place, judge)
            if isinstance(harm, _Locks):
                harm.end()
            self.counts["warned of a cache"] += "warning: " in ended.said
            self.note_if(not done.is_set(), "ended badly", where, "nothing was harmed")
            ended = self._run(command, place, judge, f"{where}, again")
            self.note_if(ended.status not in (0, 2), "ended badly", f"{where}, again", ended)
            self._compare(f"{where}, again", command, place)

    def locked_before(self, command: str, kind: str, seconds: float | None) -> None:
        """A lock held when a run starts: it is waited for, and one that stays is a line and status 2."""
        where = f"a lock of {kind} before, for {seconds} s, {command}"
        with self._judged(command) as (place, judge):
            cache = self._kept(command, place, judge, where)
            held = sqlite3.connect(cache)  # keeps the files beside it there
            held.execute("SELECT count(*) FROM replies").fetchall()
            lock = _Locks(kind, seconds)
            lock(cache)
            if seconds is None:
                ended = self._run(command, place, judge, where)
                well = ended.status == 2 and "keeps it locked" in ended.last_line and not judge.requests
                self.note_if(not well, "ended badly", where, ended)
            else:
                self._run_well(where, command, place, judge)
            lock.end()
            held.close()

    def full_disk(self, command: str) -> None:
        """No file may grow beyond what rows and reports need: the cache, which needs more, is not what a run needs."""
        where = f"a full disk, {command}"
        files = [path for path in self.undisturbed[command].rglob("*") if path.is_file() and "sqlite" not in path.name]
        most_kib = max(max(path.stat().st_size for path in files) // 1024 + 4, 40)
        with self._judged(command) as (place, judge):
            limited = ["bash", "-c", f'ulimit -f {most_kib}; exec "$@"', "bash"]
            ended = self._run_well(where, command, place, judge, before=limited)
            self.counts["warned of a cache"] += "warning: " in ended.said
            self.note_if("warning: " not in ended.said, "ended badly", where, ended)
            _forget(place, judge)
            self._run_well(f"{where}, again", command, place, judge)


COUNTED = (
    "commands run", "entries changed", "refused at the start", "warned of a cache", "rows lost", "rows invented",
    "asked otherwise", "hangs", "tracebacks", "warned twice", "ended badly",
)  # fmt: skip


def _scores(place: Path) -> Scores:
    return {at: scores_of(row) for at, row in read_rows(place).items()}


def _forget(place: Path, judge: ScriptedJudge) -> None:
    """The rows, and what was asked for them."""
    for path in row_files(place):
        path.unlink()
    judge.requests.clear()


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
    commands: Sequence[str] = tuple(COMMANDS),
) -> Findings:
    """All kinds of entries in `turns` orders, and all harm to files, by each command; two commands at a time."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = _Campaign(Path(folder), commands)
        attempts: dict[str, Callable[[], None]] = {}
        for command in commands:
            some = {f"entries, turn {turn}": partial(campaign.entries, command, turn) for turn in range(turns)}
            some |= {f"{kind} before": partial(campaign.broken_before, command, kind) for kind in before}
            some |= {f"{kind} in the middle": partial(campaign.broken_in_the_middle, command, kind) for kind in middle}
            for seconds in locks:
                for kind in ("writers", "all"):
                    some[f"a lock of {kind} for {seconds} s"] = partial(campaign.locked_before, command, kind, seconds)
            if disk:
                some["a full disk"] = partial(campaign.full_disk, command)
            attempts |= {f"{where}, {command}": attempt for where, attempt in some.items()}
        campaign.attempt(attempts, "commands run")
    return campaign
