"""Kills and races: a stage that is killed at any moment and started again ends as one that nobody disturbed.

`python -m rag_zeval evaluate`, `python -m eval_benchmarks` and `python -m synthesize` run as processes of their own.
The judge counts what it is paid for, and refuses one question in six: so failed rows are taken out at every start.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_benchmarks.datasets.nano_eval import NanoEval
from rag_zeval.inputs import read_examples
from rag_zeval.literal_judge import literal_reply, read_prompt
from rag_zeval.scripted_judge import ScriptedJudge

ROOT = Path(__file__).parents[2]
STAGES = ("evaluate", "bench", "synthesize")
CONCURRENCY = 2
DELAY = 0.03  # seconds that the judge takes for a reply
HANG = 180.0  # seconds after which a process is said to hang
ROWS = 48
REFUSED = 6  # one question in so many
COSTS = frozenset({"seconds", "calls", "cached", "retries", "failures", "paid_tokens"})  # of a row
TOLD = 15.0  # seconds between lines of progress

Row = dict[str, Any]
Rows = dict[tuple[str, str], Row]  # by file and id
Counts = dict[str, int | float]


class Judge:
    """Replies by the letter, and knows for which rows it was paid: `paid`, in order of asking."""

    def __init__(self, ids: Mapping[tuple[str, ...], str]):
        self.ids, self.paid = ids, list[str]()
        self.server = ScriptedJudge(self.reply)

    def reply(self, body: dict[str, Any]) -> str | None:
        prompt = body["messages"][0]["content"]
        inputs = read_prompt(prompt)[1]
        refused = zlib.crc32(prompt.encode()) % REFUSED == 0
        if not refused:
            self.paid.append(self.ids[key(inputs["reference"], inputs["candidates"].values())])
        time.sleep(DELAY)
        return None if refused else literal_reply(body)


def key(reference: str, answers: Any) -> tuple[str, ...]:
    return reference, *answers


@dataclass(frozen=True)
class Stage:
    """words: its command, but for where it writes; files: its row files in its output folder.

    judge: who is paid; None where a model of its own answers.
    """

    name: str
    words: list[str]
    files: str
    judge: Judge | None = None

    def command(self, out: Path) -> list[str]:
        if self.name != "evaluate":
            return [*self.words, f"out_dir={out}"]
        cached = [f"--cache={out}/replies.sqlite"] * (len(out.name) % 2)
        return [*self.words, f"--out={out}/o.jsonl", f"--html={out}/o.html", *cached]


@contextmanager
def opened(name: str, folder: Path) -> Iterator[Stage]:
    """A stage by name, with its judge and its input in `folder`."""
    if name == "synthesize":
        words = ["n_questions=40", "batch_size=2", "max_new_tokens=64", "device=cpu"]
        yield Stage(name, ["synthesize", *words], "responses.jsonl")
        return
    rows = [
        {
            "id": f"r{n}",
            "question": f"What is {n}?",
            "reference": f"It is {n}. It is a number.",
            "answers": [f"It is {n}. It is {n % 5}.", "It is a number."],
        }
        for n in range(ROWS)
    ]
    source = folder / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    examples = read_examples(source) if name == "evaluate" else NanoEval(ROWS // 2, 1, 2).examples
    judge = Judge({key(example.reference, example.answers): example.id for example in examples})
    spec = judge.server.spec()
    if name == "evaluate":
        words = ["rag_zeval", "evaluate", str(source), f"--model={spec}", f"--concurrency={CONCURRENCY}"]
        yield Stage(name, words, "o.jsonl", judge)
    else:
        words = ["eval_benchmarks", "benchmarks=[nano_eval]", "scorers=[rag_zeval]", f"models=['{spec}']"]
        words += [f"judge.concurrency={CONCURRENCY}", "bootstrap.draws=20", f"nano_eval.n={ROWS // 2}"]
        yield Stage(name, [*words, "nano_eval.seed_ranked=1", "nano_eval.seed_pairs=2"], "rows/*.jsonl", judge)
    judge.server.close()


def good(row: Row) -> bool:
    """Whether a row is done for good: no run asks for it again."""
    return bool(row.get("final", not row.get("status", "").startswith("failed")))


def start(stage: Stage, out: Path) -> subprocess.Popen[str]:
    """The stage's command, in a process group of its own."""
    out.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "NO_PROXY": "127.0.0.1"}
    line = [sys.executable, "-m", *stage.command(out)]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(line, cwd=ROOT, env=environment, start_new_session=True, **quiet)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status and its last line on stderr; one that hangs is killed, and its status is then -9."""
    timer = threading.Timer(HANG, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    errors = process.communicate()[1]
    timer.cancel()
    return process.returncode, errors.splitlines()[-1] if errors else ""


def rows_of(stage: Stage, out: Path) -> tuple[Rows, list[str]]:
    """Whole rows on disk, those that wait beside their file while it is rewritten among them; ids that stand twice."""
    rows: Rows = {}
    doubled = []
    for path in sorted(out.glob(stage.files)):
        for kept in (False, True):
            place = path.with_name(path.name + ".kept") if kept else path
            for line in place.read_bytes().splitlines(keepends=True) if place.exists() else []:
                if line.endswith(b"\n"):
                    row = json.loads(line)
                    if not kept and (path.name, row["id"]) in rows:
                        doubled.append(f"{path.name}: {row['id']}")
                    rows[path.name, row["id"]] = row
    return rows, doubled


def compared(rows: Rows) -> Rows:
    """The rows without what two runs may differ in."""
    return {at: {name: row[name] for name in row if name not in COSTS} for at, row in rows.items()}


@dataclass(frozen=True)
class Whole:
    """An undisturbed run: its rows, its output folder, and the seconds to its first row, and from there to its end."""

    rows: Rows
    out: Path
    start: float
    work: float


def undisturbed(stage: Stage, out: Path) -> Whole:
    began = time.monotonic()
    process = start(stage, out)
    while process.poll() is None and not size(stage, out):
        time.sleep(0.005)
    first = time.monotonic()
    status, error = ended(process)
    rows, doubled = rows_of(stage, out)
    if status or doubled or not rows:
        raise RuntimeError(f"{stage.name}: the undisturbed run ended with {status}: {error}; {len(rows)} rows")
    return Whole(rows, out, first - began, time.monotonic() - first)


def size(stage: Stage, out: Path) -> int:
    return sum(path.stat().st_size for path in out.glob(stage.files))


def settling(stage: Stage, out: Path) -> bool:
    """Whether rows are being taken out of a file, or were when the process was killed."""
    return any(out.glob(stage.files + ".kept*"))


def kill(process: subprocess.Popen[str], stage: Stage, out: Path, whole: Whole, chance: random.Random) -> None:
    """SIGKILL the group at a moment drawn: before the first new row, while rows are taken out, or after it."""
    mode = chance.random()
    limit = time.monotonic() + HANG
    if mode < 0.2:
        limit = time.monotonic() + chance.uniform(0, whole.start)
        while process.poll() is None and time.monotonic() < limit:
            time.sleep(0.001)
    elif mode < 0.5 and not all(map(good, rows_of(stage, out)[0].values())):
        while process.poll() is None and time.monotonic() < limit and not settling(stage, out):
            pass
        time.sleep(chance.choice([0.0, chance.uniform(0, 0.003)]))
    else:
        least = size(stage, out)
        while process.poll() is None and time.monotonic() < limit and size(stage, out) <= least:
            least = min(least, size(stage, out))
            time.sleep(0.001)
        time.sleep(chance.uniform(0, whole.work / 2))
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


class Tally:
    """What the starts of a stage came to: counts, a line for each promise seen broken, and progress now and then."""

    def __init__(self, name: str):
        self.name, self.counts, self.faults, self._told = name, Counter[str](), list[str](), time.monotonic()

    def note(self, where: str, checks: Mapping[str, list[str]]) -> None:
        for kind, broken in checks.items():
            self.counts[kind] += len(broken)
            self.faults += [f"{self.name}, {where}: {kind}: {each}" for each in broken]

    def tell(self, progress: str) -> None:
        if time.monotonic() - self._told > TOLD:
            self._told = time.monotonic()
            print(f"{self.name}: {progress}, {len(self.faults)} faults", flush=True)


def kills(name: str, count: int, seed: int, folder: Path) -> tuple[Counts, list[str]]:
    """Kill a stage `count` times, going on after each kill; every end is compared with the undisturbed run."""
    chance, tally = random.Random(f"{name} {seed}"), Tally(name)
    with opened(name, folder) as stage:
        whole = undisturbed(stage, folder / "whole")
        struck = runs = starts = 0
        ending = True
        while struck < count or not ending:
            if starts == 4 * count + 20:
                tally.faults.append(f"{name}: {starts} starts, and not {count} kills")
                break
            starts += 1
            out = folder / str(runs)
            before, _ = rows_of(stage, out)
            paid_before = len(stage.judge.paid) if stage.judge else 0
            process = start(stage, out)
            if struck < count:
                kill(process, stage, out, whole, chance)
            status, error = ended(process)
            ending = status != -signal.SIGKILL
            struck, runs = struck + (not ending), runs + ending
            tally.counts["killed while rows were taken out"] += settling(stage, out)
            time.sleep(0 if ending else 2 * DELAY)  # what it had asked is still coming in
            paid = stage.judge.paid[paid_before:] if stage.judge else []
            tally.note(f"start {starts}", check(stage, before, out, paid, whole if ending else None))
            if ending:
                tally.note(f"start {starts}", {"ended badly": [f"{status}: {error}"] * bool(status)})
                tally.counts["rows compared"] += len(whole.rows)
                shutil.rmtree(out)
            tally.tell(f"{struck} of {count} kills, {runs} runs")
    return {f"{name} kills": struck, f"{name} runs": runs, **tally.counts}, tally.faults


def check(
    stage: Stage, before: Rows, out: Path, paid: Sequence[str], whole: Whole | None, flying: int = CONCURRENCY
) -> dict[str, list[str]]:
    """What a process broke: `before` it were these rows, it was `paid` for those, and ended what was `whole` or not.

    At a kill, as many replies may be paid and not yet written as may be asked at once (`flying`).
    """
    rows, doubled = rows_of(stage, out)
    wanted = [at for at, row in before.items() if good(row)] + list(whole.rows if whole else [])
    was_good, is_good = ({id_ for (_, id_), row in each.items() if good(row)} for each in (before, rows))
    twice = [id_ for id_, times in Counter(paid).items() if times > 1 or id_ in was_good]
    unwritten = sorted(set(paid) - is_good)
    changed = []
    if whole:
        found, right = compared(rows), compared(whole.rows)
        changed = [f"{at} is {row}, not {right.get(at)}" for at, row in found.items() if row != right.get(at)]
    return {
        "rows lost": [str(at) for at in dict.fromkeys(wanted) if at not in rows],
        "rows doubled": doubled,
        "rows changed": changed,
        "paid twice": twice,
        "paid for nothing": unwritten if whole or len(unwritten) > flying else [],
    }


def races(name: str, count: int, seed: int, folder: Path) -> tuple[Counts, list[str]]:
    """Start a stage twice at once on a file with failed rows and a torn last line, `count` times.

    One of them does what is left; the other is refused, or finds all done.
    """
    chance, tally = random.Random(f"{name} race {seed}"), Tally(name)
    with opened(name, folder) as stage:
        assert stage.judge
        whole = undisturbed(stage, folder / "whole")
        for number in range(count):
            out = folder / str(2 * number)
            half_done(stage, whole, out, chance)
            before, _ = rows_of(stage, out)
            paid_before = len(stage.judge.paid)
            first = start(stage, out)
            time.sleep(chance.choice([0.0, chance.uniform(0, whole.work / 2)]))
            ends = [ended(process) for process in (start(stage, out), first)]
            refused = [status == 2 and "another run is writing this file" in error for status, error in ends]
            well = all(status == 0 or no for (status, _), no in zip(ends, refused, strict=True)) and not all(refused)
            tally.note(f"race {number}", check(stage, before, out, stage.judge.paid[paid_before:], whole))
            tally.note(f"race {number}", {"ended badly": [] if well else [str(ends)]})
            tally.counts["refused"] += sum(refused)
            tally.counts["rows compared"] += len(whole.rows)
            shutil.rmtree(out)
            tally.tell(f"{number + 1} of {count} races")
    return {f"{name} races": count, **tally.counts}, tally.faults


def half_done(stage: Stage, whole: Whole, out: Path, chance: random.Random) -> None:
    """The row files of an undisturbed run with some good rows taken out, and a last line that a kill tore."""
    for path in whole.out.glob(stage.files):
        lines = path.read_bytes().splitlines(keepends=True)
        chance.shuffle(lines)
        kept = [line for line in lines[1:] if chance.random() < 0.6 or not good(json.loads(line))]
        place = out / path.relative_to(whole.out)
        place.parent.mkdir(parents=True)
        place.write_bytes(b"".join(kept) + lines[0][: chance.randrange(1, len(lines[0]) - 1)])


def run(
    folder: Path, seed: int = 0, kills_each: int = 50, races_each: int = 20, stages: Sequence[str] = STAGES
) -> tuple[Counts, list[str]]:
    """All of it, in `folder`: the counts, and a line for each promise seen broken."""
    total, faults = Counter[str](), list[str]()
    for what, times, names in (
        (kills, kills_each, stages),
        (races, races_each, [name for name in stages if name != "synthesize"]),
    ):
        for name in names:
            place = folder / f"{what.__name__}-{name}"
            place.mkdir(parents=True)
            counts, found = what(name, times, seed, place)
            total.update(counts)
            faults += found
            print(f"{name}: {times} {what.__name__}, {len(found)} faults", flush=True)
    return dict(total), faults
