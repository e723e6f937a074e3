"""Kills and races: a stage that is killed at any moment and started again ends as one that nobody disturbed.

`python -m rag_zeval evaluate`, `python -m eval_benchmarks` and `python -m synthesize` run as processes of their own.
The judge counts what it is paid for, and refuses one question in six: so failed rows are taken out at every start.
"""

import json
import random
import shutil
import signal
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commands import ROOT, Command, Ended, write_rows
from findings import Findings

from eval_benchmarks.datasets.nano_eval import NanoEval
from rag_zeval.files import Row
from rag_zeval.judge.prompt import judge_messages
from rag_zeval.literal_judge import literal_reply
from rag_zeval.results import SPENT
from rag_zeval.scripted_judge import ScriptedJudge

CONCURRENCY = 2
DELAY = 0.03  # seconds that the judge takes for a reply
HANG = 180.0  # seconds after which a process is said to hang
ROWS = 48
COMMANDS = {
    "evaluate": f"rag_zeval evaluate {{folder}}/in.jsonl --model={{judge}} --concurrency={CONCURRENCY}",
    "bench": (
        "eval_benchmarks benchmarks=[nano_eval] scorers=[rag_zeval] models=['{judge}'] bootstrap.draws=20 "
        f"judge.concurrency={CONCURRENCY} nano_eval.n={ROWS // 2} nano_eval.seed_ranked=1 nano_eval.seed_pairs=2"
    ),
    "synthesize": "synthesize n_questions=40 batch_size=2 max_new_tokens=64 device=cpu",
}
ASKING = ("evaluate", "bench")  # a judge
FILES = {"evaluate": "o.jsonl", "bench": "rows/*.jsonl", "synthesize": "responses.jsonl"}
REFUSED = 6  # one question in so many
COSTS = frozenset({"seconds", "calls", "cached", "retries", "failures", "paid_tokens"})  # of a row

Rows = dict[tuple[str, str], Row]  # by file and id


@dataclass(frozen=True)
class Stage:
    """words: its command, but for where it writes; files: its row files in its output folder.

    paid: ids of the rows for which a judge was paid, in order of asking; none where a model of its own answers.
    """

    name: str
    words: list[str]
    files: str
    paid: list[str]

    def command(self, out: Path) -> list[str]:
        if self.name != "evaluate":
            return [*self.words, f"out_dir={out}"]
        cached = [f"--cache={out}/replies.sqlite"] * (len(out.name) % 2)
        return [*self.words, f"--out={out}/o.jsonl", f"--html={out}/o.html", *cached]


@contextmanager
def opened(name: str, folder: Path) -> Iterator[Stage]:
    """A stage by name, with its judge, which replies by the letter, and its input in `folder`."""
    paid: list[str] = []
    suffix = "|rag_zeval" if name == "evaluate" else ""
    examples = [] if name == "synthesize" else NanoEval(ROWS // 2, 1, 2).examples
    ids = {
        judge_messages("paper", one.question, one.reference, one.answers)[0]["content"]: one.id + suffix
        for one in examples
    }

    def reply(body: dict[str, Any]) -> str | None:
        prompt = body["messages"][0]["content"]
        refused = zlib.crc32(prompt.encode()) % REFUSED == 0
        if not refused:
            paid.append(ids[prompt])
        time.sleep(DELAY)
        return None if refused else literal_reply(body)

    fields = ("id", "question", "reference", "answers")
    write_rows(folder / "in.jsonl", [{name: getattr(example, name) for name in fields} for example in examples])
    judge = ScriptedJudge(reply)
    line = COMMANDS[name].format(folder=folder, judge=judge.spec())
    yield Stage(name, line.split(), FILES[name], paid)
    judge.close()


def good(row: Row) -> bool:
    """Whether a row is done for good: no run asks for it again."""
    return bool(row.get("final", not row.get("status", "").startswith("failed")))


def start(stage: Stage, out: Path) -> Command:
    out.mkdir(parents=True, exist_ok=True)
    return Command(stage.command(out), ROOT)


def rows_of(stage: Stage, out: Path) -> tuple[Rows, list[str]]:
    """Whole rows on disk; ids that stand twice."""
    rows: Rows = {}
    doubled = []
    for path in sorted(out.glob(stage.files)):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                row = json.loads(line)
                if row["id"] == SPENT:
                    continue
                if (path.name, row["id"]) in rows:
                    doubled.append(f"{path.name}: {row['id']}")
                rows[path.name, row["id"]] = row
    return rows, doubled


@dataclass(frozen=True)
class Whole:
    """An undisturbed run: its rows, its output folder, and the seconds to its first row, and from there to its end."""

    rows: Rows
    out: Path
    start: float
    work: float


def undisturbed(stage: Stage, out: Path) -> Whole:
    began = time.monotonic()
    command = start(stage, out)
    wait(command, HANG, lambda: size(stage, out) > 0)
    first = time.monotonic()
    ended = command.ended(HANG)
    rows, doubled = rows_of(stage, out)
    if ended.status or doubled or not rows:
        raise RuntimeError(f"{stage.name}: the undisturbed run: {ended}; {len(rows)} rows")
    return Whole(rows, out, first - began, time.monotonic() - first)


def wait(command: Command, seconds: float, until: Callable[[], bool] = lambda: False, pause: float = 0.001) -> None:
    """Wait while a command runs, at most so many seconds, for something to be so."""
    limit = time.monotonic() + seconds
    while command.runs and time.monotonic() < limit and not until():
        time.sleep(pause)


def wait_for_calls(stage: Stage) -> None:
    """Wait until the judge has read what a killed process had asked: on a busy machine it comes in late."""
    known = -1
    while known != len(stage.paid):
        known = len(stage.paid)
        time.sleep(0.1)


def size(stage: Stage, out: Path) -> int:
    return sum(path.stat().st_size for path in out.glob(stage.files))


def settling(stage: Stage, out: Path) -> bool:
    """Whether rows are being taken out of a file, or were when the process was killed."""
    return any(out.glob(stage.files + ".part"))


def kill(command: Command, stage: Stage, out: Path, whole: Whole, chance: random.Random) -> None:
    """SIGKILL the group at a moment drawn: before the first new row, while rows are taken out, or after it."""
    mode = chance.random()
    if mode < 0.2:
        wait(command, chance.uniform(0, whole.start))
    elif mode < 0.5 and not all(map(good, rows_of(stage, out)[0].values())):
        wait(command, HANG, lambda: settling(stage, out), pause=0.0)
        time.sleep(chance.choice([0.0, chance.uniform(0, 0.003)]))
    else:
        sizes = [size(stage, out)]  # a file may shrink at first, when rows are taken out

        def grows() -> bool:
            sizes.append(size(stage, out))
            return sizes[-1] > min(sizes)

        wait(command, HANG, grows)
        time.sleep(chance.uniform(0, whole.work / 2))
    command.kill()


def kills(name: str, count: int, seed: int, folder: Path) -> Findings:
    """Kill a stage `count` times, going on after each kill; every end is compared with the undisturbed run."""
    chance, findings = random.Random(f"{name} {seed}"), Findings(name)
    with opened(name, folder) as stage:
        whole = undisturbed(stage, folder / "whole")
        struck = runs = starts = 0
        killed = False
        while struck < count or killed:
            if starts == 4 * count + 20:
                findings.note("too few kills", f"{starts} starts", [f"{struck} of {count}"])
                break
            starts += 1
            out = folder / str(runs)
            before, _ = rows_of(stage, out)
            stage.paid.clear()
            command = start(stage, out)
            if struck < count:
                kill(command, stage, out, whole, chance)
            ended = command.ended(HANG)
            killed = ended.status == -signal.SIGKILL
            struck, runs = struck + killed, runs + (not killed)
            findings.counts["killed while rows were taken out"] += settling(stage, out)
            if killed:
                wait_for_calls(stage)
            check(findings, f"start {starts}", stage, before, out, None if killed else whole)
            findings.note_if(ended.status and not killed, "ended badly", f"start {starts}", ended)
            findings.tell(f"{struck} of {count} kills, {runs} runs")
    findings.counts.update({f"{name} kills": struck, f"{name} runs": runs})
    return findings


def check(findings: Findings, where: str, stage: Stage, before: Rows, out: Path, whole: Whole | None) -> None:
    """Note what a process broke that was there with the rows `before`, and whether it ended what was `whole`.

    At a kill, as many replies may be paid and not yet written as may be asked at once. A folder that is whole goes.
    """
    rows, doubled = rows_of(stage, out)
    wanted = [at for at, row in before.items() if good(row)] + list(whole.rows if whole else [])
    was_good, is_good = ({id_ for (_, id_), row in each.items() if good(row)} for each in (before, rows))
    unwritten = sorted(set(stage.paid) - is_good)
    changed = []
    if whole:
        right = {at: without_costs(row) for at, row in whole.rows.items()}
        changed = [
            f"{at} is {row}, not {right.get(at)}" for at, row in rows.items() if without_costs(row) != right.get(at)
        ]
        findings.counts["rows compared"] += len(whole.rows)
        shutil.rmtree(out)
    for kind, broken in {
        "rows lost": [at for at in dict.fromkeys(wanted) if at not in rows],
        "rows doubled": doubled,
        "rows changed": changed,
        "paid twice": [id_ for id_, times in Counter(stage.paid).items() if times > 1 or id_ in was_good],
        "paid for nothing": unwritten if whole or len(unwritten) > CONCURRENCY else [],
    }.items():
        findings.note(kind, where, broken)


def without_costs(row: Row) -> Row:
    """A row without what two runs may differ in."""
    return {name: value for name, value in row.items() if name not in COSTS}


def races(name: str, count: int, seed: int, folder: Path) -> Findings:
    """Start a stage twice at once on a file with failed rows and a torn last line, `count` times.

    One of them does what is left; the other is refused, or finds all done.
    """
    chance, findings = random.Random(f"{name} race {seed}"), Findings(name)
    with opened(name, folder) as stage:
        whole = undisturbed(stage, folder / "whole")
        for number in range(count):
            where, out = f"race {number}", folder / str(2 * number)
            half_done(stage, whole, out, chance)
            before, _ = rows_of(stage, out)
            stage.paid.clear()
            first = start(stage, out)
            time.sleep(chance.choice([0.0, chance.uniform(0, whole.work / 2)]))
            ends = [command.ended(HANG) for command in (start(stage, out), first)]
            refused = [_is_refused(ended) for ended in ends]
            well = all(ended.status == 0 or _is_refused(ended) for ended in ends) and not all(refused)
            check(findings, where, stage, before, out, whole)
            findings.note_if(not well, "ended badly", where, [*map(str, ends)])
            findings.counts.update({f"{name} races": 1, "refused": sum(refused)})
            findings.tell(f"{number + 1} of {count} races")
    return findings


def _is_refused(ended: Ended) -> bool:
    return ended.status == 2 and "another run is writing this file" in ended.last_line


def half_done(stage: Stage, whole: Whole, out: Path, chance: random.Random) -> None:
    """The row files of an undisturbed run with some good rows taken out, and a last line that a kill tore."""
    for path in whole.out.glob(stage.files):
        lines = path.read_bytes().splitlines(keepends=True)
        chance.shuffle(lines)
        kept = [line for line in lines[1:] if chance.random() < 0.6 or not good(json.loads(line))]
        place = out / path.relative_to(whole.out)
        place.parent.mkdir(parents=True)
        place.write_bytes(b"".join(kept) + lines[0][: chance.randrange(1, len(lines[0]) - 1)])


def run(folder: Path, kills_each: int = 50, races_each: int = 20, seed: int = 0) -> Findings:
    """All of it, in `folder`."""
    total = Findings("kills")
    attacks = [*((kills, name, kills_each) for name in COMMANDS), *((races, name, races_each) for name in ASKING)]
    for attack, name, times in attacks:
        place = folder / f"{attack.__name__}-{name}"
        total.add(attack(name, times, seed, place))
        total.tell(f"{times} {attack.__name__} of {name}")
    return total
