"""Files of others that the commands read back, doctored: no variable is read, nothing hangs, and every command ends.

Each scene (foreign_scenes.yaml) is a folder of honest files and the commands that read them. For each attack one of its
files is replaced, in a copy of the folder, by one with a single doctored value (or with no sense at all), and the
commands run.
"""

import copy
import json
import random
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from commands import ROOT, Ended, run_command, write_rows
from findings import Findings

SCENES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("foreign_scenes.yaml").read_text())
SECRET = "sk-canary+0123456789/abcdefghijklmnopqrstuvwxyz"
DEADLINE = 90.0  # seconds for a command: a machine may be busy
MEMORY_KIB = 12 << 20  # of addresses that a command may have
SHARPEST, MOST_LEAVES = ("a variable", "10**12"), 25  # these are put in so many places of a file, others in one

TEXTS = {
    "a variable": "${oc.env:OPENAI_API_KEY}",
    "a decoded variable": "${oc.decode:'${oc.env:OPENAI_API_KEY}'}",
    "an escaped variable": r"\${oc.env:OPENAI_API_KEY}",
    "a shell's variable": "$OPENAI_API_KEY ${OPENAI_API_KEY} %(OPENAI_API_KEY)s",
    "templates": "{{ environ }}{% for x in range(10 ** 12) %}x{% endfor %}{0.__class__}{environ}%s%n",
    "a device": "/dev/zero",
    "a parent": "../../../../../../etc/passwd",
    "a long text": "x" * 1_000_000,
}
NUMBERS: dict[str, Any] = {
    "10**12": 10**12,
    "10**290": 10**290,
    "10**400": 10**400,
    "-1": -1,
    "a tiny number": 1e-320,
    "NaN": float("nan"),
    "infinity": float("-inf"),
    "a variable for a number": "${oc.env:OPENAI_API_KEY}",
}
KINDS: dict[str, Any] = {
    "null": None,
    "a list": [[]],
    "an object": {"a": {}},
    "true": True,
    "a number": 7,
    "a text": "7",
}
DEEP: Any = 0
for _ in range(400):
    DEEP = [DEEP]
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
WHOLE = {
    "nothing": b"",
    "no text": b"\xff\xfe\x00\x01",
    "a list of lists": b"[[]]\n",
    "brackets without end": b"[" * 200_000,
    "braces without end": b'{"a":' * 200_000,
    "aliases of aliases": BOMB.encode(),
    "a number of a megabyte": b"a: " + b"1:" * 500_000,
    "a variable alone": b"${oc.env:OPENAI_API_KEY}\n",
}


@dataclass(frozen=True)
class Attack:
    """A scene in which one file has another content."""

    scene: str
    file: str
    kind: str
    content: bytes

    @property
    def name(self) -> str:
        return f"{self.scene}, {self.file}: {self.kind}"


def _run(line: str, folder: Path) -> Ended:
    limited = ["bash", "-c", f'ulimit -v {MEMORY_KIB}; exec "$@"', "bash"]
    return run_command(line.split(), folder, DEADLINE, before=limited, OPENAI_API_KEY=SECRET)


def _honest(line: str, folder: Path) -> None:
    ended = _run(line, folder)
    if ended.status:
        raise RuntimeError(f"{line} fails on honest files: {ended}")


def _result(case: int, shift: int) -> dict[str, Any]:
    claims = [
        {"claim": f"Claim {n}.", "is_supported": bool((case + n + shift) % 3), "grounding_evidence": ["so"]}
        for n in range(2)
    ]
    return {
        "id": f"{case}|rag_zeval", "case": str(case), "slice_tag": "law", "metric": "rag_zeval", "trial": 0,
        "systems": ["answer"], "question": f"Question {case}?", "reference": "It is so.", "answers": ["It is so."],
        "scores": [sum(claim["is_supported"] for claim in claims) / len(claims)], "statuses": ["ok"], "status": "ok",
        "latency_s": 0.5, "reply": "[]", "parts": {"strict": 1},
        "trajectory": [
            {"id": "A", "answer": "It is so.", "atomic_claims": [{**claim, "analysis": "a"} for claim in claims]}
        ],
        "calls": 1, "cached": 0, "prompt_tokens": 5, "completion_tokens": 5, "seconds": 0.1, "identity": "i",
        "prompt_hash": "h",
    }  # fmt: skip


def _write_results(folder: Path) -> None:
    """Two files of results, and a labelled sheet of the first."""
    for name, shift in (("a.jsonl", 0), ("b.jsonl", 1)):
        write_rows(folder / name, [_result(case, shift) for case in range(20)])
    _honest("rag_zeval sample a.jsonl --n 10 --out sheet.csv", folder)
    sheet = (folder / "sheet.csv").read_text()
    (folder / "sheet.csv").write_text(re.sub(r'"",""$', '"yes","a note"', sheet, flags=re.MULTILINE))


def write_scene(name: str, folder: Path) -> None:
    """The honest files of a scene."""
    scene = SCENES[name]
    for file, content in scene.get("files", {}).items():
        write_rows(folder / file, content if file.endswith(".jsonl") else [content])
    for file, source in scene.get("copies", {}).items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, folder / file)
    for line in scene.get("prepare", ()):
        _honest(line, folder)
    if name in ("results", "sheet"):
        _write_results(folder)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Where each value stands that holds no others, and the value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from _leaves(part, (*path, key))
    if not isinstance(value, dict | list):
        yield path, value


def _changed(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    content = copy.deepcopy(content)
    if not path:
        return value
    part = content
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return content


def _doctored(content: Any) -> Iterator[tuple[str, Any]]:
    """The content with one value that is another, or with all its texts a variable."""
    rng, leaves = random.Random(0), list(_leaves(content))
    texts = [leaf for leaf in leaves if isinstance(leaf[1], str)]
    numbers = [leaf for leaf in leaves if isinstance(leaf[1], int | float) and not isinstance(leaf[1], bool)]
    for kinds, places in ((TEXTS, texts), (NUMBERS, numbers), ({**KINDS, "a deep list": DEEP}, leaves)):
        for kind, value in kinds.items():
            count = MOST_LEAVES if kind in SHARPEST else 1
            for path, _ in rng.sample(places, min(count, len(places))):
                yield f"{kind} as {'.'.join(map(str, path))}", _changed(content, path, value)
    everywhere = content
    for path, _ in texts:
        everywhere = _changed(everywhere, path, TEXTS["a variable"])
    yield "a variable in every text", everywhere


def attacks(scene: str, folder: Path) -> Iterator[Attack]:
    """Every attack on the honest files of a scene, which are in the folder."""
    for pattern in SCENES[scene]["doctored"]:
        [path] = folder.glob(pattern)
        file, honest = str(path.relative_to(folder)), path.read_bytes()
        contents = {**WHOLE, "half of it": honest[: len(honest) // 2]}
        if path.suffix == ".csv":
            contents |= {f"{kind} for a note": honest.replace(b"a note", text.encode()) for kind, text in TEXTS.items()}
        else:
            first, *rows = honest.splitlines(keepends=True) if path.suffix == ".jsonl" else [honest]
            for kind, content in _doctored(json.loads(first)):
                contents[kind] = b"".join([json.dumps(content).encode() + b"\n", *rows])
        yield from (Attack(scene, file, kind, content) for kind, content in contents.items())


class _Campaign(Findings):
    """`tracebacks` are counted by the place they come from; a command that ends with one did end."""

    def __init__(self) -> None:
        super().__init__("foreign", ("attacks", "commands run", "hangs", "keys found", "other exits", "tracebacks"))
        self.places: dict[str, str] = {}

    def attack(self, attack: Attack, honest: Path, folder: Path) -> None:
        shutil.copytree(honest, folder)
        (folder / attack.file).write_bytes(attack.content)
        for line in SCENES[attack.scene]["commands"]:
            ended, where = _run(line, folder), f"{attack.name}: {line}"
            self.note_end(where, ended, traced=True)
            self.note_if(not ended.hung and ended.status not in (0, 1, 2), "other exits", where, ended)
            self.note_if(SECRET in ended.said, "keys found", where, ended)
            if "Traceback" in ended.said:
                self.counts["tracebacks"] += 1
                place = [*re.findall(rf'File "{ROOT}/(.*), in ', ended.said)[-1:], ended.last_line]
                self.places.setdefault(": ".join(place)[:200], where)
        written = [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        self.note("keys found", attack.name, [path.relative_to(folder) for path in written])
        self.counts["attacks"] += 1
        shutil.rmtree(folder)


def run(only: str = "", scenes: Sequence[str] = tuple(SCENES)) -> Findings:
    """Every attack whose name the pattern `only` finds, two at a time."""
    campaign = _Campaign()
    with tempfile.TemporaryDirectory() as root:
        attempts = {}
        for scene in scenes:
            honest = Path(root, scene)
            honest.mkdir()
            write_scene(scene, honest)
            for attack in attacks(scene, honest):
                if re.search(only, attack.name):
                    attempts[attack.name] = partial(campaign.attack, attack, honest, Path(root, f"{len(attempts)}"))
        campaign.attempt(attempts, "attacks")
    for place, where in campaign.places.items():
        print(f"traceback: {place}  ({where})", flush=True)
    return campaign
