"""The real commands against a server that breaks the protocol: nothing hangs, floods, leaks, is lost or made up.

In each run some of the rows meet a mode of it, whenever they are asked about; then the same command runs again against
the same server, which has become honest. What the rows must be, a run that nobody disturbed says; of a test set, where
one question takes another's place, the documents and the wording of the honest model say it. `smoke` has one question
and no rows: each mode has a run, and what it prints is compared.
"""

from __future__ import annotations

import itertools
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
from typing import Any

from findings import Findings
from hostile_modes import MODES, OF_ANY
from hostile_server import HostileServer, shows_key

from rag_zeval.files import Row, read_jsonl
from rag_zeval.literal_judge import literal_reply
from rag_zeval.results import SPENT

ROOT = Path(__file__).parents[2]
COMMANDS = ("evaluate", "bench", "questions", "collect", "smoke")
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
HIT = (2, 3, 4, 5, 6, 7, 8, 9)  # numbers of rows, or of documents
ROWS, WIKIEVAL_ROWS = 12, 10  # each of the latter is two examples, of two scorers
EASY = 8  # questions, and as many of another kind; every document is asked about, where some fail
TIMEOUT = 3.0  # seconds for a reply
QUICK_TIMEOUT = 1.5  # of `questions`, which asks about a document ten times, and of `smoke`, which has a run a mode
DEADLINE = 90.0  # seconds for a command: a row may be asked about by two scorers, and a machine may be busy
MOST_MIB = 500
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")  # what a terminal obeys
LATE = re.compile(r"no (answer|score) within")
Place = tuple[str, str]  # a scorer (none but in `bench`) and a row's id
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
    (folder / "documents").mkdir()
    for n in range(ROWS):
        facts = "".join(f"Fact {at} of question {n} is {n * at}. " for at in range(6))
        (folder / "documents" / f"{n}.txt").write_text(facts)
    with open(folder / "in.jsonl", "w") as rows, open(folder / "wikieval" / "rows.jsonl", "w") as wikieval:
        for n in range(ROWS):
            reference, good, poor = _texts(n)
            asked = {"question": f"question {n}"}
            rows.write(json.dumps({**asked, "id": f"r{n}", "reference": reference, "answers": [good, poor]}) + "\n")
            texts = {"answer": good, "poor_answer": poor, "ungrounded_answer": "No fact at all."}
            if n < WIKIEVAL_ROWS:
                wikieval.write(json.dumps({**asked, "context_v1": [reference], **texts}) + "\n")


def _line(command: str, inputs: Path, url: str) -> list[str]:
    timeout = QUICK_TIMEOUT if command in ("questions", "smoke") else TIMEOUT
    limits = ["--timeout", f"{timeout}", "--connect-timeout", f"{timeout}"]
    judge = ["--model", f"openai:judge@{url}", *limits]
    if command == "evaluate":
        words = [str(inputs / "in.jsonl"), *judge, "--out", "rows.jsonl", "--html", "report.html"]
        return ["rag_zeval", command, *words, "--cache", "cache.sqlite"]
    if command == "questions":
        words = [str(inputs / "documents"), *judge, "--out", "rows.jsonl", "--n", f"{2 * EASY}"]
        return ["rag_zeval", command, *words, "--kinds", "easy,unanswerable", "--cache", "cache.sqlite"]
    if command == "collect":
        paths = ["--answer", "$.answer", "--contexts", "$.docs[*].text", "--context-ids", "$.docs[*].id"]
        words = [str(inputs / "in.jsonl"), "--url", url, "--out", "rows.jsonl", "--timeout", f"{TIMEOUT}"]
        return ["rag_zeval", command, *words, *paths, "--header", "Authorization=OPENAI_API_KEY"]
    if command == "smoke":
        return ["rag_zeval", command, *judge]
    words = ["eval_benchmarks", "benchmarks=[wikieval]", "scorers=[rag_zeval,is_correct]", f"data_dir={inputs}"]
    words += [f"models=['openai:judge@{url}']", "out_dir=out", "bootstrap.draws=50"]
    return [*words, f"judge.timeout={TIMEOUT}", f"judge.connect_timeout={TIMEOUT}"]


def _applies(mode: str, command: str) -> bool:
    """Whether a command can meet a mode that others have not met for it: all ask for models in the same way.

    A RAG system has neither models nor chats.
    """
    if command == "collect":
        return mode == REFUSED or mode in OF_ANY
    some = (ON_MODELS + mode for mode in ("hangs", "401", "reset", "drips the body"))
    return command in ("evaluate", "bench") or not mode.startswith(ON_MODELS) or mode in some


def _server(command: str, port: int = 0) -> HostileServer:
    if command == "collect":
        return HostileServer(lambda body: f"Fact: what was asked is {body['question']}.", port=port, is_system=True)
    return HostileServer(literal_reply, port=port)


def _rows(command: str, folder: Path) -> Rows:
    paths = folder.glob("out/rows/*.jsonl" if command == "bench" else "rows.jsonl")  # BENCHMARK__SCORER__MODEL.jsonl
    rows = [(path, row) for path in paths for row in read_jsonl(path) if row["id"] != SPENT]
    return {(path.name.partition("__")[2].split("__")[0], row["id"]): row for path, row in rows}


def _values(row: Row) -> list[Any]:
    """What must be right in a row, each None if it is not there: its scores, or what a system said."""
    if "collected" in row:
        return [row["answer"], row.get("contexts"), row.get("context_ids")]
    return [score["value"] if isinstance(score, dict) else score for score in row["scores"]]


def _is_bad_question(row: Row, documents: Path, hit: bool) -> bool:
    """Whether no document has what a question of a test set rests on, or the honest model words it otherwise.

    hit: whether a mode may have changed the wording. What answers a question stands in its documents in any case.
    """
    text = " ".join((documents / name).read_text() for name in row["documents"])
    easy = row["slice_tag"] == "easy"
    if len(row["snippets"]) != easy or not all(snippet in text for snippet in row["snippets"]):
        return True
    if hit or not easy:
        return "Lie" in row["question"]
    return bool(row["question"] != f"Is it so that {row['truth']}?" or [row["truth"]] != row["snippets"])


def _is_hit(place: Place) -> bool:
    return int(re.findall(r"\d+", place[1])[0]) in HIT


class _Campaign(Findings):
    """Runs commands in folders of their own, and compares their rows with those of commands that nobody disturbed."""

    def __init__(self, folder: Path, commands: Sequence[str]):
        super().__init__("HTTP", COUNTED)
        rng = random.Random(0)
        letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
        self.key = "sk-{}+{}/{}".format(*("".join(rng.choices(letters, k=16)) for _ in range(3)))
        self.folder, self._numbers = folder, itertools.count()
        _write_inputs(folder / "inputs")
        self.smoke_scores: list[str] = []
        self.right = {command: self._undisturbed(command) for command in commands}

    def _undisturbed(self, command: str) -> Rows:
        server = _server(command)
        folder = self._folder("undisturbed", command)
        status, said = self._run(command, folder, server, f"undisturbed, {command}")
        rows = _rows(command, folder)
        server.close()
        wanted = {"bench": 4 * WIKIEVAL_ROWS, "questions": 2 * EASY, "smoke": 0}.get(command, ROWS)
        whole = command == "questions" or not any(None in _values(row) for row in rows.values())
        if status or len(rows) != wanted or not whole:
            raise RuntimeError(f"{command} fails undisturbed: {said}")
        if command == "smoke":
            self.smoke_scores = _printed_scores(said)
        return rows

    def disturbed(self, modes: Sequence[str], command: str) -> None:
        """One mode, or several that share the rows; then the same command again, and an honest server."""
        where = f"{' + '.join(modes)}, {command}"
        folder = self._folder(modes[0], command)
        server = _server(command)
        if modes[0] == REFUSED:
            server.close()
        elif modes[0].startswith(ON_MODELS):
            server.set(modes[0].removeprefix(ON_MODELS), on_models=True)
        elif command == "smoke":
            server.set(modes[0])
        else:
            server.mix({number: modes[at % len(modes)] for at, number in enumerate(HIT)})
        first_status, said = self._run(command, folder, server, where)
        if modes[0] == REFUSED:
            server = _server(command, server.server_port)
        if command == "smoke":
            self._look_at_smoke(where, first_status, said)
        else:
            rows = _rows(command, folder)
            if command == "questions":
                self._look_at_questions(where, rows, 0 if first_status == 2 else ROWS - len(HIT))
            else:
                late = {at for at, row in rows.items() if LATE.search(json.dumps(row))}
                unanswered = first_status == 2 or modes[0] == REFUSED
                self._compare(where, command, rows, lambda at: unanswered or at in late or _is_hit(at))
                self.counts["rows late"] += sum(not _is_hit(at) for at in late)
            server.set("good")
            said += self._again(where, command, folder, server, rows)
        self.note("prompts sent elsewhere", where, ["to another server"] * server.elsewhere)
        server.close()
        files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for name, content in {"the output": said.encode(), **files}.items():
            self.note("keys found", where, [f"{piece} in {name}" for piece in shows_key(content, self.key)[:1]])
        self.counts["modes x commands"] += len(modes)

    def _again(self, where: str, command: str, folder: Path, server: HostileServer, before: Rows) -> str:
        """Run the same command with a server that is honest now: it ends well, with all rows; what it said."""
        where = f"{where}, again"
        status, said = self._run(command, folder, server, where)
        rows = _rows(command, folder)
        if command == "questions":
            self._look_at_questions(where, rows, EASY)
            self.note("rows lost", where, [at for at, row in before.items() if rows.get(at) != row])
        else:
            answered = "final" if command == "bench" else "status"  # a reply came, and what it says counts
            done = {at for at, row in rows.items() if row.get(answered) in (True, "ok")}
            self._compare(where, command, rows, lambda at: command != "evaluate" and at in done and _is_hit(at))
        self.note("ended badly", where, [said[-300:]] if status else [])
        return said

    def _look_at_smoke(self, where: str, status: int, said: str) -> None:
        """Note scores that are not those of an honest judge, and a status that does not say whether there are any."""
        scores = _printed_scores(said)
        invented = scores not in ([], ["no score"] * len(self.smoke_scores), self.smoke_scores)
        self.note("rows invented", where, [f"{scores}, not {self.smoke_scores}"] if invented else [])
        self.note("ended badly", where, [said[-300:]] if (status == 0) != (scores == self.smoke_scores) else [])

    def _look_at_questions(self, where: str, rows: Rows, least: int) -> None:
        """Note a question that rests on no document, and fewer than `least` easy ones."""
        documents = self.folder / "inputs" / "documents"
        for row in rows.values():
            hit = any(_is_hit(("", name)) for name in row["documents"])
            self.note("rows invented", where, [row] if _is_bad_question(row, documents, hit) else [])
        easy = sum(row["slice_tag"] == "easy" for row in rows.values())
        self.note("rows lost", where, [f"{easy} easy questions"] if easy < least else [])

    def _folder(self, mode: str, command: str) -> Path:
        folder = self.folder / f"{next(self._numbers)}-{command}-{re.sub(r'[^a-z0-9]+', '-', mode.lower())[:60]}"
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
        """Note a value that is not the right one, and a missing one unless its row `may_lack` it.

        What a system says is its own affair where a mode may have it say something else, but never another's answer.
        """
        for place, undisturbed in self.right[command].items():
            right = _values(undisturbed)
            values = _values(rows[place]) if place in rows else [None] * len(right)
            fault = f"row {place} has {str(values)[:300]}, not {right}"
            if command == "collect" and _is_hit(place):
                values = [None if "Lie" not in str(value) else value for value in values]
            if any(value not in (None, true) for value, true in zip(values, right, strict=True)):
                self.note("rows invented", where, [fault])
            elif None in values and not may_lack(place):
                self.note("rows lost", where, [fault])
        self.note("rows invented", where, [f"nobody asked for {place}" for place in rows.keys() - self.right[command]])


def _printed_scores(said: str) -> list[str]:
    """The scores that `smoke` prints, one for each answer."""
    return re.findall(r"^[AB] {7}(no score|\d\.\d{3})  ", said, re.M)


COUNTED = (
    "HTTP modes", "modes x commands", "commands run", "rows lost", "rows invented", "keys found", "hangs", "tracebacks",
    "other exits", "too large", "escapes", "rows late", "prompts sent elsewhere", "ended badly",
)  # fmt: skip


def run(modes: Sequence[str] = EVERYTHING, commands: Sequence[str] = COMMANDS) -> Findings:
    """Each mode with each command that can meet it, two at a time."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        campaign = _Campaign(Path(folder), commands)
        campaign.counts["HTTP modes"] = len(modes)
        attempts = {
            pool.submit(campaign.disturbed, group, command): f"{' + '.join(group)}, {command}"
            for command in commands
            for group in _groups([mode for mode in modes if _applies(mode, command)], command)
        }
        for attempt in as_completed(attempts):
            if error := attempt.exception():
                campaign.note("broke off", attempts[attempt], [repr(error)])
            campaign.tell(f"{campaign.counts['modes x commands']} modes")
    return campaign


def _groups(modes: Sequence[str], command: str) -> list[Sequence[str]]:
    """The modes that share a run: one on each row that is hit, where a command has rows."""
    alone = [mode for mode in modes if command == "smoke" or ALONE.match(mode)]
    shared = [mode for mode in modes if mode not in alone]
    return [*([mode] for mode in alone), *(shared[at : at + len(HIT)] for at in range(0, len(shared), len(HIT)))]
