"""The real commands against a server that breaks the protocol: nothing hangs, floods, leaks, is lost or made up.

In each run some of the rows meet a mode of it, whenever they are asked about; then the same command runs again against
the same server, which has become honest. What the rows must be, a run that nobody disturbed says; of a test set, where
one question takes another's place, the documents and the wording of the honest model say it. `smoke` has one question
and no rows: each mode has a run, and what it prints is compared.
"""

import json
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from commands import UNSEEN, Ended, Place, new_folder, read_rows, run_command, scores_of, write_rows, write_wikieval
from findings import Findings
from hostile_modes import MODES, OF_ANY
from hostile_server import HostileServer

from rag_zeval.files import Row
from rag_zeval.literal_judge import literal_reply

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
LATE = re.compile(r"no (answer|score) within")
Rows = dict[Place, Row]
COMMANDS = {  # `questions` asks about a document ten times, and `smoke` has a run a mode: they wait less
    "evaluate": (
        "rag_zeval evaluate {inputs}/in.jsonl --out rows.jsonl --html report.html --cache cache.sqlite "
        f"--model openai:judge@{{url}} --timeout {TIMEOUT} --connect-timeout {TIMEOUT}"
    ),
    "bench": (
        "eval_benchmarks benchmarks=[wikieval] scorers=[rag_zeval,is_correct] data_dir={inputs} out_dir=out "
        "models=['openai:judge@{url}'] bootstrap.draws=50 "
        f"judge.timeout={TIMEOUT} judge.connect_timeout={TIMEOUT}"
    ),
    "questions": (
        f"rag_zeval questions {{inputs}}/documents --out rows.jsonl --n {2 * EASY} --kinds easy,unanswerable "
        f"--cache cache.sqlite --model openai:judge@{{url}} --timeout {QUICK_TIMEOUT} --connect-timeout {QUICK_TIMEOUT}"
    ),
    "collect": (
        "rag_zeval collect {inputs}/in.jsonl --url {url} --out rows.jsonl --header Authorization=OPENAI_API_KEY "
        f"--answer $.answer --contexts $.docs[*].text --context-ids $.docs[*].id --timeout {TIMEOUT}"
    ),
    "smoke": (
        f"rag_zeval smoke --model openai:judge@{{url}} --timeout {QUICK_TIMEOUT} --connect-timeout {QUICK_TIMEOUT}"
    ),
}


def _texts(number: int) -> tuple[str, str, str]:
    """A reference of four facts, and two answers of which it holds another share for each row."""
    rng = random.Random(number)
    facts = [f"Fact {at} of {number} is {rng.randrange(100)}" for at in range(4)]
    lies = [f"Lie {at} of {number} is {rng.randrange(100)}" for at in range(3)]
    first = [*facts[: 1 + number % 3], *lies[: number % 2]]
    return ". ".join(facts) + ".", ". ".join(first) + ".", ". ".join([facts[0], *lies[: 1 + number % 3]]) + "."


def _write_inputs(folder: Path) -> None:
    (folder / "documents").mkdir(parents=True)
    for n in range(ROWS):
        facts = "".join(f"Fact {at} of question {n} is {n * at}. " for at in range(6))
        (folder / "documents" / f"{n}.txt").write_text(facts)
    texts = [_texts(n) for n in range(ROWS)]
    asked = [{"id": f"r{n}", "question": f"question {n}"} for n in range(ROWS)]
    rows = zip(asked, texts, strict=True)
    write_rows(folder / "in.jsonl", [{**row, "reference": true, "answers": said} for row, (true, *said) in rows])
    write_wikieval(folder, texts[:WIKIEVAL_ROWS])


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


def _values(row: Row) -> list[Any]:
    """What must be right in a row, each None if it is not there: its scores, or what a system said."""
    return [row["answer"], row.get("contexts"), row.get("context_ids")] if "collected" in row else scores_of(row)


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
        self.folder = folder
        _write_inputs(folder / "inputs")
        self.smoke_scores: list[str] = []
        with ThreadPoolExecutor(2) as pool:
            self.right = dict(zip(commands, pool.map(self._undisturbed, commands), strict=True))

    def _undisturbed(self, command: str) -> Rows:
        server = _server(command)
        folder = new_folder(self.folder, f"undisturbed, {command}")
        ended = self._run(command, folder, server, f"undisturbed, {command}")
        rows = read_rows(folder)
        server.close()
        wanted = {"bench": 4 * WIKIEVAL_ROWS, "questions": 2 * EASY, "smoke": 0}.get(command, ROWS)
        whole = command == "questions" or not any(None in _values(row) for row in rows.values())
        if ended.status or len(rows) != wanted or not whole:
            raise RuntimeError(f"{command} fails undisturbed: {ended.said}")
        if command == "smoke":
            self.smoke_scores = _printed_scores(ended)
        return rows

    def disturbed(self, modes: Sequence[str], command: str) -> None:
        """One mode, or several that share the rows; then the same command again, and an honest server."""
        where = f"{' + '.join(modes)}, {command}"
        folder = new_folder(self.folder, where)
        server = _server(command)
        if modes[0] == REFUSED:
            server.close()
        elif modes[0].startswith(ON_MODELS):
            server.set(modes[0].removeprefix(ON_MODELS), on_models=True)
        elif command == "smoke":
            server.set(modes[0])
        else:
            server.mix({number: modes[at % len(modes)] for at, number in enumerate(HIT)})
        first = self._run(command, folder, server, where)
        runs = [first]
        if modes[0] == REFUSED:
            server = _server(command, server.server_port)
        if command == "smoke":
            self._look_at_smoke(where, first)
        else:
            rows = read_rows(folder)
            if command == "questions":
                self._look_at_questions(where, rows, 0 if first.status == 2 else ROWS - len(HIT))
            else:
                late = {at for at, row in rows.items() if LATE.search(json.dumps(row))}
                unanswered = first.status == 2 or modes[0] == REFUSED
                self._compare(where, command, rows, lambda at: unanswered or at in late or _is_hit(at))
                self.counts["rows late"] += sum(not _is_hit(at) for at in late)
            server.set("good")
            runs.append(self._again(where, command, folder, server, rows))
        self.note_if(server.elsewhere, "prompts sent elsewhere", where, "to another server")
        server.close()
        self.note_keys(where, folder, runs, self.key)
        self.counts["modes x commands"] += len(modes)

    def _again(self, where: str, command: str, folder: Path, server: HostileServer, before: Rows) -> Ended:
        """Run the same command with a server that is honest now: it ends well, with all rows."""
        where = f"{where}, again"
        ended = self._run(command, folder, server, where)
        rows = read_rows(folder)
        if command == "questions":
            self._look_at_questions(where, rows, EASY)
            self.note("rows lost", where, [at for at, row in before.items() if rows.get(at) != row])
        else:
            answered = "final" if command == "bench" else "status"  # a reply came, and what it says counts
            done = {at for at, row in rows.items() if row.get(answered) in (True, "ok")}
            self._compare(where, command, rows, lambda at: command != "evaluate" and at in done and _is_hit(at))
        self.note_if(ended.status, "ended badly", where, ended)
        return ended

    def _look_at_smoke(self, where: str, ended: Ended) -> None:
        """Note scores that are not those of an honest judge, and a status that does not say whether there are any."""
        scores = _printed_scores(ended)
        invented = scores not in ([], ["no score"] * len(self.smoke_scores), self.smoke_scores)
        self.note_if(invented, "rows invented", where, f"{scores}, not {self.smoke_scores}")
        self.note_if((ended.status == 0) != (scores == self.smoke_scores), "ended badly", where, ended)

    def _look_at_questions(self, where: str, rows: Rows, least: int) -> None:
        """Note a question that rests on no document, and fewer than `least` easy ones."""
        documents = self.folder / "inputs" / "documents"
        for row in rows.values():
            hit = any(_is_hit(("", name)) for name in row["documents"])
            self.note_if(_is_bad_question(row, documents, hit), "rows invented", where, row)
        easy = sum(row["slice_tag"] == "easy" for row in rows.values())
        self.note_if(easy < least, "rows lost", where, f"{easy} easy questions")

    def _run(self, command: str, folder: Path, server: HostileServer, where: str) -> Ended:
        """Run a command to its end, and note what no command may do."""
        words = COMMANDS[command].format(inputs=self.folder / "inputs", url=server.url).split()
        ended = run_command(words, folder, DEADLINE, OPENAI_API_KEY=self.key)
        self.note_end(where, ended)
        self.most("peak MiB", ended.mib)
        self.note_if(not ended.hung and ended.status not in (0, 1, 2), "other exits", where, ended)
        self.note_if(ended.mib > MOST_MIB, "too large", where, ended)
        self.note_if(UNSEEN.search(ended.said), "escapes", where, ended)
        return ended

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


def _printed_scores(ended: Ended) -> list[str]:
    """The scores that `smoke` prints, one for each answer."""
    return re.findall(r"^[AB] {7}(no score|\d\.\d{3})  ", ended.said, re.M)


COUNTED = (
    "HTTP modes", "modes x commands", "commands run", "rows lost", "rows invented", "keys found", "hangs", "tracebacks",
    "other exits", "too large", "escapes", "rows late", "prompts sent elsewhere", "ended badly",
)  # fmt: skip


def run(modes: Sequence[str] = EVERYTHING, commands: Sequence[str] = tuple(COMMANDS)) -> Findings:
    """Each mode with each command that can meet it, two at a time."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = _Campaign(Path(folder), commands)
        campaign.counts["HTTP modes"] = len(modes)
        attempts = {
            f"{' + '.join(group)}, {command}": partial(campaign.disturbed, group, command)
            for command in commands
            for group in _groups([mode for mode in modes if _applies(mode, command)], command)
        }
        campaign.attempt(attempts, "modes x commands")
    return campaign


def _groups(modes: Sequence[str], command: str) -> Iterator[Sequence[str]]:
    """The modes that share a run: one on each row that is hit, where a command has rows."""
    alone = [mode for mode in modes if command == "smoke" or ALONE.match(mode)]
    shared = [mode for mode in modes if mode not in alone]
    yield from ([mode] for mode in alone)
    yield from (shared[at : at + len(HIT)] for at in range(0, len(shared), len(HIT)))
