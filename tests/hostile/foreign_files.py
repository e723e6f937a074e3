"""Files of others that the commands read back, doctored: no traceback, no hang, no variable read, nothing forged.

Each scene (foreign_scenes.yaml) is a folder of honest files and the commands that read them. For each attack one of its
files is replaced by one with a single doctored value (or cut, or with no sense at all), and all commands of the scene
run, in this process: thousands of attacks take minutes.
"""

from __future__ import annotations

import copy
import csv
import faulthandler
import io
import json
import multiprocessing
import random
import re
import resource
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import yaml
from commands import ROOT, UNSEEN, Ended, run_here, write_rows
from findings import Checked, Findings

from rag_zeval.literal_judge import literal_reply
from rag_zeval.scripted_judge import ScriptedJudge

SCENES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("foreign_scenes.yaml").read_text())
SECRET = "sk-canary+0123456789/abcdefghijklmnopqrstuvwxyz"
DEADLINE = 60  # seconds for a command: a machine may be busy
MEMORY = 12 << 30  # bytes of addresses that a worker may have
CUTS, FLIPS = 12, 12  # of each file
MANY = 4  # places of a file at which each value is tried beside those of the first row

COMMAND = re.compile(r"^\s*::|##\w*\[", re.MULTILINE)  # what build servers obey in a log
FORGED = "\x1b[31mred\x1b[8m\x9b1m\x07\r\n::error::forged\n##[error]forged\n##vso[task.complete]\u202eforged @everyone"
TEXTS: dict[str, Any] = {
    "a variable": "${oc.env:OPENAI_API_KEY}",
    "a decoded variable": "${oc.decode:'${oc.env:OPENAI_API_KEY}'}",
    "templates": r"\${oc.env:OPENAI_API_KEY} $OPENAI_API_KEY %(OPENAI_API_KEY)s {{ environ }}{0.__class__}{environ}%s",
    "a device": "/dev/zero",
    "a parent": "../../../../../../etc/passwd",
    "a long text": "x" * 200_000,
    "controls": FORGED,
    "a command of a build": "::error::forged",
    "half an emoji": "\ud83d",
    "no text": "",
    "a number in a text": "7",
    "NUL": "a\0b",
}
NUMBERS: dict[str, Any] = {
    "0": 0,
    "-1": -1,
    "-0.0": -0.0,
    "0.5": 0.5,
    "10**12": 10**12,
    "10**290": 10**290,
    "10**400": 10**400,
    "1e308": 1e308,
    "-1e308": -1e308,
    "a tiny number": 1e-320,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
}
DEEP: Any = 0
DEEP_OBJECT: Any = 0
for _ in range(400):
    DEEP, DEEP_OBJECT = [DEEP], {"a": DEEP_OBJECT}
OTHERS: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "an empty list": [],
    "a list": [[]],
    "a list of null": [None],
    "texts": ["a", "b"],
    "an empty object": {},
    "an object": {"a": {}},
    "a deep list": DEEP,
    "a deep object": DEEP_OBJECT,
}
VALUES = {**TEXTS, **NUMBERS, **OTHERS}
MISSING = object()
Made = tuple[str, Callable[[], bytes]]  # a kind of doctored content, and what makes it
TEMPLATES = (  # of chat
    "{{ ''.__class__.__mro__ }}",
    "{{ messages.append(1) }}",
    "{% for x in range(10 ** 12) %}x{% endfor %}",
    "{{ 1 / 0 }}",
    "{{ raise_exception('no') }}",
    "{{ messages[0].content.nothing.at.all }}",
    "{{ messages[7]['content'] }}",
    "{% if",
    "{{ 'x' * 10 ** 12 }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% include '/etc/passwd' %}",
    "{{ messages | map('nothing') }}",
    "{{ 7 | int + 'x' }}",
    "",
    "{# nothing #}",
)
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
WHOLE = {
    "nothing": b"",
    "a blank line": b"\n",
    "no text": b"\xff\xfe\x00\x01",
    "zeros": bytes(1000),
    "a list of lists": b"[[]]\n",
    "null": b"null\n",
    "a text": b'"text"\n',
    "an empty object": b"{}\n",
    "an empty list": b"[]\n",
    "brackets without end": b"[" * 200_000,
    "braces without end": b'{"a":' * 200_000,
    "aliases of aliases": BOMB.encode(),
    "a number of a megabyte": b"a: " + b"1:" * 500_000,
    "a variable alone": b"${oc.env:OPENAI_API_KEY}\n",
    "forged lines": FORGED.encode(),
}


class Late(BaseException):
    """A command ran for longer than it may."""


@dataclass(frozen=True)
class Attack:
    """A scene in which one file has another content, which is made when the attack is."""

    scene: str
    file: str
    kind: str
    content: Callable[[], bytes]

    @property
    def name(self) -> str:
        return f"{self.scene}, {self.file}: {self.kind}"


def _run(line: str, folder: Path) -> Ended:
    """A command that holds a key and has a deadline, in this process."""
    signal.setitimer(signal.ITIMER_REAL, DEADLINE)
    try:
        return run_here(line.split(), folder, OPENAI_API_KEY=SECRET, HF_HUB_OFFLINE="1")
    except Late:
        return Ended(-9, b"", b"", DEADLINE, 0, hung=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _result(case: int, shift: int) -> dict[str, Any]:
    claims = [
        {"claim": f"Claim {n}.", "is_supported": bool((case + n + shift) % 3), "grounding_evidence": ["so"]}
        for n in range(2)
    ]
    return {
        "id": f"{case}|rag_zeval", "case": str(case), "slice_tag": "law" if case % 2 else "art", "metric": "rag_zeval",
        "trial": 0, "systems": ["answer"], "question": f"Question {case}?", "reference": "It is so.",
        "reference_kind": "truth", "chunks": ["It is so."], "answers": ["It is so."],
        "scores": [sum(claim["is_supported"] for claim in claims) / len(claims)], "statuses": ["ok"], "status": "ok",
        "latency_s": 0.5, "reply": "[]", "parts": {"strict": 1, "answers": [{"claims": 2}], "pieces": [{}]},
        "trajectory": [
            {"id": "A", "answer": "It is so.", "atomic_claims": [{**claim, "analysis": "a"} for claim in claims]}
        ],
        "calls": 1, "cached": 0, "prompt_tokens": 5, "completion_tokens": 5, "paid_tokens": [5, 5], "bounded": 0,
        "seconds": 0.1, "model": "m", "sampling": {"temperature": 0.1, "top_p": 0.9}, "variant": "paper",
        "identity": "i", "prompt_hash": "h",
    }  # fmt: skip


def _write_results(folder: Path) -> None:
    """Two files of results, what was judged, and a labelled sheet of the first."""
    for name, shift in (("a.jsonl", 0), ("b.jsonl", 1)):
        write_rows(folder / name, [_result(case, shift) for case in range(6)])
    ids = {"context_ids": ["d1", "d2"], "gold_chunk_ids": ["d2"]}
    asked = [{"id": str(case), "question": f"Question {case}?", "answer": "It is so.", **ids} for case in range(6)]
    write_rows(folder / "gold.jsonl", asked)
    _honest("rag_zeval sample a.jsonl --n 10 --out sheet.csv", folder)
    sheet = (folder / "sheet.csv").read_text()
    (folder / "sheet.csv").write_text(re.sub(r'"",""(?=\r?$)', '"yes","a note"', sheet, flags=re.MULTILINE))


def _honest(line: str, folder: Path) -> None:
    ended = _run(line, folder)
    if (ended.status not in (0, 1) and "vllm" not in ended.said) or "Traceback" in ended.said:
        raise RuntimeError(f"{line} fails on honest files: {ended}")


def write_scene(name: str, folder: Path, judge: str) -> None:
    """The honest files of a scene. judge: the address of a mock judge."""
    scene = SCENES[name]
    for file, content in scene.get("files", {}).items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            (folder / file).write_text(content)
        else:
            write_rows(folder / file, content if file.endswith(".jsonl") else [content])
    for file, source in scene.get("copies", {}).items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, folder / file)
    if name in ("results", "sheet"):
        _write_results(folder)
    for line in scene.get("prepare", ()):
        _honest(line.replace("JUDGE", judge), folder)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each value stands, those that hold others too; of a long list its first three items and its last."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        if isinstance(value, dict) or key < 3 or key == len(value) - 1:
            yield from _places(part, (*path, key))


def _changed(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    content = copy.copy(content)
    if len(path) > 1:
        content[path[0]] = _changed(content[path[0]], path[1:], value)
    elif value is MISSING:
        del content[path[0]]
    else:
        content[path[0]] = value
    return content


def _doctored(content: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """How to make the content with one value that is another or is missing, or with all its texts a variable."""
    places = list(_places(content))
    for path in places:
        at = ".".join(map(str, path)) or "the row"
        for kind, value in VALUES.items():
            yield f"{kind} as {at}", partial(_changed, content, path, value)
        if path:
            yield f"{at} is missing", partial(_changed, content, path, MISSING)
    yield "a variable in every text", partial(_all_texts, content, TEXTS["a variable"])


def _all_texts(value: Any, text: str) -> Any:
    """The value with this text in place of each of its own."""
    if isinstance(value, dict):
        return {key: _all_texts(inner, text) for key, inner in value.items()}
    if isinstance(value, list):
        return [_all_texts(inner, text) for inner in value]
    return text if isinstance(value, str) else value


def _rows(honest: bytes) -> Iterator[Made]:
    """JSON lines with one that is doctored: the first in every way, others in some; twice the same, none, torn."""
    lines = honest.splitlines(keepends=True)
    for kind, change in _doctored(json.loads(lines[0])):
        yield kind, partial(_json_line, change, [], lines[1:])
    rng = random.Random(0)
    if len(lines) > 1:
        last = json.loads(lines[-1])
        places = list(_places(last))
        for kind, value in VALUES.items():
            for path in rng.sample(places, min(MANY, len(places))):
                where = f"{kind} as {'.'.join(map(str, path))} of the last"
                yield where, partial(_json_line, partial(_changed, last, path, value), lines[:-1], [])
    yield "a row twice", lambda: honest + lines[0]
    yield "rows in one line", lambda: honest.replace(b"\n", b" ")
    yield "a name twice", lambda: honest.replace(b"{", b'{"id": "x", ', 1)


def _json_line(change: Callable[[], Any], before: Sequence[bytes] = (), after: Sequence[bytes] = ()) -> bytes:
    return b"".join([*before, json.dumps(change()).encode(), b"\n", *after])


def _cells(honest: bytes) -> Iterator[Made]:
    """CSV of which one cell, of the header or of two rows, is another, or a column is missing or stands twice."""
    rows = list(csv.reader(io.StringIO(honest.decode("utf-8-sig"), newline="")))
    cells = [(at, column) for at in (0, 1, len(rows) - 1) for column in range(len(rows[0]))]
    for at, column in cells:
        for kind, value in {**VALUES, "several lines": "a\nb", "a formula": "=1;=2"}.items():
            changed = [list(row) for row in rows]
            changed[at][column] = value if isinstance(value, str) else json.dumps(value)
            yield f"{kind} in row {at}, column {column}", partial(_csv, changed)
    for column in range(len(rows[0])):
        yield f"without column {column}", partial(_csv, [[*row[:column], *row[column + 1 :]] for row in rows])
        yield f"column {column} twice", partial(_csv, [[*row, row[column]] for row in rows])
    yield "a row twice", partial(_csv, [*rows, rows[-1]])
    yield "with semicolons", partial(_csv, rows, ";")
    yield "a quote without end", lambda: honest + b'"'


def _csv(rows: Sequence[Sequence[str]], mark: str = ",") -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=mark).writerows(rows)
    return file.getvalue().encode("utf-8", "surrogatepass")


def _broken(honest: bytes) -> Iterator[tuple[str, bytes]]:
    """The file cut off, or with bytes that are others."""
    rng = random.Random(0)
    for _ in range(CUTS):
        end = rng.randrange(len(honest))
        yield f"the first {end} bytes", honest[:end]
    for _ in range(FLIPS):
        at, byte = rng.randrange(len(honest)), rng.randrange(256)
        yield f"byte {at} is {byte}", honest[:at] + bytes([byte]) + honest[at + 1 :]


def attacks(scene: str, folder: Path) -> Iterator[Attack]:
    """Every attack on the honest files of a scene, which are in the folder."""
    for pattern in SCENES[scene]["doctored"]:
        [path] = folder.glob(pattern)
        file, honest = str(path.relative_to(folder)), path.read_bytes()
        found: list[Made] = [(kind, partial(bytes, content)) for kind, content in [*WHOLE.items(), *_broken(honest)]]
        if path.suffix in (".csv", ".tsv"):
            found += _cells(honest)
        elif path.suffix == ".jsonl":
            found += _rows(honest)
        elif path.suffix in (".json", ".yaml"):
            found += [(kind, partial(_json_line, change)) for kind, change in _doctored(json.loads(honest))]
        elif path.suffix == ".qrels":
            values = {kind: value for kind, value in TEXTS.items() if isinstance(value, str)}
            words = honest.split(b" ")
            for at in range(4):
                for kind, value in values.items():
                    changed = [*words[:at], value.encode("utf-8", "replace"), *words[at + 1 :]]
                    found.append((f"{kind} as word {at}", partial(b" ".join, changed)))
        elif path.suffix == ".jinja":
            found += [(f"template: {text}", text.encode) for text in TEMPLATES]
        most = min(SCENES[scene]["most"], len(found))
        chosen = sorted(random.Random(0).sample(range(len(found)), most))
        yield from (Attack(scene, file, *found[at]) for at in chosen)


class _Ground:
    """The scenes of a worker, each in a folder of its own, with all attacks on them; `attack` makes one of them."""

    def __init__(self, root: Path, scenes: Sequence[str], only: str):
        self.judge = ScriptedJudge(literal_reply, keep=False)
        self.folders = {scene: root / scene for scene in scenes}
        self.attacks: list[Attack] = []
        self.honest: dict[str, dict[Path, bytes]] = {}
        for scene, folder in self.folders.items():
            folder.mkdir()
            write_scene(scene, folder, self.judge.url)
            self.honest[scene] = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            for line in SCENES[scene]["commands"]:
                _honest(line.replace("JUDGE", self.judge.url), folder)
                self._restore(folder, self.honest[scene])
            self.attacks += [attack for attack in attacks(scene, folder) if re.search(only, attack.name)]

    def attack(self, attack: Attack) -> Checked:
        seen: Counter[tuple[str, ...]] = Counter([("attacks",)])
        faults: list[str] = []
        folder, honest = self.folders[attack.scene], self.honest[attack.scene]
        for line in SCENES[attack.scene]["commands"]:
            self._restore(folder, honest)
            (folder / attack.file).write_bytes(attack.content())
            ended, where = _run(line.replace("JUDGE", self.judge.url), folder), f"foreign, {attack.name}: {line}"
            seen["commands run",] += 1
            for kind, fault in self._faults(ended, folder, honest):
                seen[kind,] += 1
                faults.append(f"{where}: {kind}: {fault}")
        self._restore(folder, honest)
        return seen, faults

    def _restore(self, folder: Path, honest: dict[Path, bytes]) -> None:
        for path in folder.rglob("*"):
            if path.is_file() and path not in honest:
                path.unlink()
        for path, content in honest.items():
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    def _faults(self, ended: Ended, folder: Path, honest: dict[Path, bytes]) -> Iterator[tuple[str, object]]:
        said = ended.said
        if ended.hung:
            yield "hangs", ended
        elif ended.status not in (0, 1, 2):
            yield "other exits", ended
        if "Traceback" in said or "RuntimeWarning" in said:
            places = re.findall(rf'File "{ROOT}/((?!\.venv).*), in (\w+)', said)
            yield "tracebacks", [*places[-1:], ended.last_line[:200]]
        if found := UNSEEN.search(said):
            yield "controls on the terminal", repr(said[max(0, found.start() - 60) : found.end() + 20])
        if found := COMMAND.search(said):
            yield "commands of a build server", repr(said[max(0, found.start() - 60) : found.end() + 20])
        written = [path for path in folder.rglob("*") if path.is_file() and path not in honest]
        for name, content in [("the output", said.encode()), *((str(path), path.read_bytes()) for path in written)]:
            if SECRET.encode() in content:
                yield "keys found", name


def _take_ground(only: str, scenes: Sequence[str]) -> _Ground:
    """The ground of this process, which becomes one that has bounds."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, _late)
    return _Ground(Path(tempfile.mkdtemp(prefix="foreign-")), scenes, only)


def _late(number: int, frame: FrameType | None) -> None:
    raise Late


def _share(part: int, parts: int, only: str, scenes: Sequence[str], sample: int | None) -> Checked:
    """Every so many-th attack, from the one of this number on; a sample of all, with a fixed seed."""
    faulthandler.dump_traceback_later(3600, exit=True)  # what no signal stops ends loudly
    ground = _take_ground(only, scenes)
    chosen = ground.attacks if sample is None else random.Random(0).sample(ground.attacks, sample)
    seen: Counter[tuple[str, ...]] = Counter()
    faults: list[str] = []
    told = time.monotonic()
    for attack in chosen[part::parts]:
        some, more = ground.attack(attack)
        seen.update(some)
        faults += more
        if time.monotonic() - told > 15:
            told = time.monotonic()
            print(f"foreign: {seen['attacks',]:,} of {len(chosen) // parts:,}, {len(faults)} faults", flush=True)
    faulthandler.cancel_dump_traceback_later()
    shutil.rmtree(next(iter(ground.folders.values())).parent)
    return seen, faults


def run(only: str = "", scenes: Sequence[str] = tuple(SCENES), sample: int | None = None, parts: int = 2) -> Findings:
    """Every attack whose name the pattern `only` finds, or a sample of them, in so many processes."""
    kinds = ("attacks", "commands run", "hangs", "keys found", "other exits", "tracebacks")
    campaign = Findings("foreign", (*kinds, "controls on the terminal", "commands of a build server"))
    with ProcessPoolExecutor(parts, multiprocessing.get_context("spawn")) as pool:
        shares = [pool.submit(_share, part, parts, only, scenes, sample) for part in range(parts)]
        for share in shares:
            seen, faults = share.result()
            campaign.counts.update({kind: count for (kind,), count in seen.items()})
            campaign.faults += faults
    return campaign
