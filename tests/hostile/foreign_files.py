"""Files of others that the commands read back, doctored: no variable is read, nothing hangs, and every command ends.

Each scene is a folder of honest files and the commands that read them. For each attack one of its files is replaced, in
a copy of the folder, by one with a single doctored value (or with no sense at all), and the commands run.
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from findings import Findings

ROOT = Path(__file__).parents[2]
SECRET = "sk-canary+0123456789/abcdefghijklmnopqrstuvwxyz"
DEADLINE = 90.0  # seconds for a command: a machine may be busy
MEMORY = 12 << 30  # bytes of addresses that a command may have
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
class Scene:
    """`make` writes the honest files into a folder; `commands` run there, each the arguments of `python -m`.

    files: those that are doctored.
    """

    name: str
    make: Callable[[Path], None]
    commands: Sequence[Sequence[str]]
    files: Sequence[str]


@dataclass(frozen=True)
class Attack:
    """A scene in which one file has another content."""

    scene: Scene
    file: str
    kind: str
    content: bytes

    @property
    def name(self) -> str:
        return f"{self.scene.name}, {self.file}: {self.kind}"


def _run(command: Sequence[str], folder: Path) -> tuple[int | None, str, float]:
    """Exit status (None: it had not ended in time), what it said on both streams, and its seconds."""
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    env |= {"OPENAI_API_KEY": SECRET, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    env.pop("RAG_ZEVAL_DATA", None)
    started, status = time.monotonic(), None
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder,
            env=env,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
        )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            status = process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        output.seek(0)
        return status, output.read().decode("utf-8", "replace"), time.monotonic() - started


def _honest(folder: Path, *command: str) -> None:
    status, said, _ = _run(command, folder)
    if status != 0:
        raise RuntimeError(f"{' '.join(command)} fails on honest files: {said[-2000:]}")


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = content if path.suffix == ".jsonl" else [content]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _bench(folder: Path) -> None:
    words = ["benchmarks=[nano_eval]", "nano_eval.n=6", "scorers=[bleu,rouge_l]", "models=[]", "bootstrap.draws=50"]
    _honest(folder, "eval_benchmarks", *words, f"out_dir={folder / 'run'}")


def _claims(folder: Path) -> None:
    columns = {"document": "doc", "text": "claim", "label": "label"}
    description: Any = {"texts": "claims", "licence": "mine", "test": {"files": "claims.jsonl", "rows": 4}}
    description |= {"columns": columns, "readings": [{"says": "as it is", "labels": {"1": True, "0": False}}]}
    description |= {"published": [{"metric": "all/auroc", "source": "a table", "values": {"a judge": 0.5}}]}
    _write(folder / "set.yaml", description)
    _write(
        folder / "claims.jsonl", [{"doc": f"It is {n}.", "claim": f"It is {n // 2}.", "label": n % 2} for n in range(8)]
    )
    _write(folder / "prices.json", {"a judge": {"prompt": 0.5, "completion": 1.5}})


def _result(case: int, shift: int) -> dict[str, Any]:
    claims = [
        {
            "claim": f"Claim {n}.",
            "is_supported": bool((case + n + shift) % 3),
            "grounding_evidence": ["so"],
            "analysis": "a",
        }
        for n in range(2)
    ]
    score = sum(claim["is_supported"] for claim in claims) / len(claims)
    row = {"id": f"{case}|rag_zeval", "case": str(case), "slice_tag": "law", "metric": "rag_zeval", "trial": 0}
    row |= {"systems": ["answer"], "question": f"Question {case}?", "reference": "It is so.", "answers": ["It is so."]}
    row |= {
        "scores": [score],
        "statuses": ["ok"],
        "status": "ok",
        "latency_s": 0.5,
        "reply": "[]",
        "parts": {"strict": 1},
    }
    row |= {"trajectory": [{"id": "A", "answer": "It is so.", "atomic_claims": claims}], "calls": 1, "cached": 0}
    return {**row, "prompt_tokens": 5, "completion_tokens": 5, "seconds": 0.1, "identity": "i", "prompt_hash": "h"}


def _results(folder: Path) -> None:
    for name, shift in (("a.jsonl", 0), ("b.jsonl", 1)):
        _write(folder / name, [_result(case, shift) for case in range(20)])
    _honest(folder, "rag_zeval", "sample", "a.jsonl", "--n", "10", "--out", "sheet.csv")
    sheet = (folder / "sheet.csv").read_text().splitlines(keepends=True)
    (folder / "sheet.csv").write_text(
        sheet[0] + "".join(re.sub(r'"",""$', '"yes","a note"', line) for line in sheet[1:])
    )


def _report(folder: Path) -> None:
    def row(model: str, value: float, minus: str | None) -> dict[str, Any]:
        known = {
            "benchmark": "nano_eval",
            "scorer": "rag_zeval",
            "metric": "ranking_accuracy",
            "n": 500,
            "coverage": 1.0,
        }
        known |= {"ci_low": value - 0.01, "ci_high": value + 0.01, "published": 0.3, "calls": 1, "prompt_tokens": 1}
        return {**known, "completion_tokens": 1, "model": model, "value": value, "minus": minus}

    at = {"alpha": 0, "answers": 300, "n_tokens": 23.0, "unfinished": 0.0, "empty": 0.0, "repetition": 0.1}
    at |= {"true_support": 0.5, "true_support_low": 0.4, "true_support_high": 0.6}
    statistics = {
        "answered": 300,
        "questions": 300,
        "identical": {"any": 0.5},
        "strictly_ordered": 0.25,
        "by_alpha": [at],
    }
    logged = {"reward_extra/score/mean": 0.5, "reward_extra/claims/mean": 4.0}
    _write(folder / "synthesize/manifest.json", {"statistics": statistics})
    _write(folder / "train/manifest.json", {"steps": 5, "minutes": 3.21, "attempts": 2})
    _write(folder / "bench/summary.json", [row("a", 0.2, None), row("b", 0.3, None), row("b minus a", 0.1, "a")])
    _write(folder / "bench/manifest.json", {"notes": ["left out: something"]})
    _write(folder / "train/metrics.jsonl", [{"step": step, "data": logged} for step in range(1, 6)])


def _experiment(folder: Path) -> None:
    shutil.copytree(ROOT / "docs" / "nano-results" / "proof", folder / "results" / "proof")


def _run_of_answers(folder: Path) -> None:
    answer = {"alpha": 0, "text": "It is so.", "n_tokens": 3, "finished": True, "true_support": None}
    config = {"alphas": [0], "chat_template": True, "max_new_tokens": 8, "dtype": "float32", "engine": "transformers"}
    made_with = {"model_sha256": "0" * 64, "prompt_hash": "h"}
    _write(folder / "run/manifest.json", {"config": config, "made_with": made_with})
    _write(folder / "run/responses.jsonl", [{"id": "a", "status": "ok", "responses": [answer]}])


def _model(folder: Path) -> None:
    for name in ("config.json", "rag_zeval.json"):
        (folder / "model").mkdir(exist_ok=True)
        shutil.copy(ROOT / "checkpoints" / "nano-judge" / name, folder / "model")
    _write(folder / "in.jsonl", [{"id": "a", "question": "q", "reference": "It is so.", "answers": ["It is so."]}])


NO_JUDGE = ["scorers=[bleu]", "models=[]", "prices=prices.json"]
EXPERIMENT = ["experiments", "only_tables=true", "results_dir=results", "runs_dir=runs", "draws=50", "seeds=[1,2,3]"]
ENDPOINT = ["--model", "openai:a judge@http://127.0.0.1:9/v1"]
REPORTED = ["train/metrics.jsonl", "bench/summary.json"]
SCENES = (
    Scene(
        "bench",
        _bench,
        [["eval_benchmarks.compare", "run", "bleu", "rouge_l"]],
        ["run/manifest.json", "run/rows/*bleu*.jsonl"],
    ),
    Scene(
        "set",
        _claims,
        [
            ["eval_benchmarks", "benchmarks=[set.yaml]", "data_dir=.", "out_dir=out", "bootstrap.draws=50", *NO_JUDGE],
        ],
        ["set.yaml", "claims.jsonl", "prices.json"],
    ),
    Scene(
        "results",
        _results,
        [
            ["rag_zeval", "compare", "a.jsonl", "b.jsonl", "--html", "page.html", "--out", "numbers.json"],
            ["rag_zeval", "gate", "a.jsonl", "b.jsonl", "--junit", "gate.xml", "--summary", "gate.md"],
            ["rag_zeval", "report", "a.jsonl", "--html", "report.html"],
            ["rag_zeval", "audit", "sheet.csv", "a.jsonl"],
        ],
        ["a.jsonl"],
    ),
    Scene("sheet", _results, [["rag_zeval", "audit", "sheet.csv", "a.jsonl"]], ["sheet.csv.json", "sheet.csv"]),
    Scene(
        "report",
        _report,
        [["experiments.run_report", "."]],
        [*(f"{stage}/manifest.json" for stage in ("synthesize", "train", "bench")), *REPORTED],
    ),
    Scene("experiment", _experiment, [EXPERIMENT], ["results/proof/base.json", "results/proof/judge-seed1.json"]),
    Scene(
        "answers",
        _run_of_answers,
        [["synthesize.answer_set", "set.parquet", "run"]],
        ["run/manifest.json", "run/responses.jsonl"],
    ),
    Scene(
        "model",
        _model,
        [
            ["rag_zeval", "serve", "model"],
            ["rag_zeval", "evaluate", "in.jsonl", *ENDPOINT, "--dry-run"],
        ],
        ["model/rag_zeval.json", "in.jsonl"],
    ),
)


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


def attacks(scene: Scene, folder: Path) -> Iterator[Attack]:
    """Every attack on the honest files of a scene, which are in the folder."""
    for pattern in scene.files:
        [path] = folder.glob(pattern)
        file, honest = str(path.relative_to(folder)), path.read_bytes()
        for kind, content in {**WHOLE, "half of it": honest[: len(honest) // 2]}.items():
            yield Attack(scene, file, kind, content)
        if path.suffix == ".csv":
            for kind, text in TEXTS.items():
                yield Attack(scene, file, f"{kind} for a note", honest.replace(b"a note", text.encode()))
        elif path.suffix == ".jsonl":
            first, *rows = map(json.loads, honest.splitlines())
            for kind, row in _doctored(first):
                lines = "".join(json.dumps(one) + "\n" for one in (row, *rows))
                yield Attack(scene, file, kind, lines.encode())
        else:
            for kind, content in _doctored(json.loads(honest)):
                yield Attack(scene, file, kind, json.dumps(content).encode())


class _Campaign(Findings):
    """`tracebacks` are counted by the place they come from; a command that ends with one did end."""

    def __init__(self) -> None:
        super().__init__("foreign", ("attacks", "commands run", "hangs", "keys found", "other exits", "tracebacks"))
        self.places: dict[str, str] = {}

    def attack(self, attack: Attack, honest: Path, folder: Path) -> None:
        shutil.copytree(honest, folder)
        (folder / attack.file).write_bytes(attack.content)
        for command in attack.scene.commands:
            status, said, seconds = _run(command, folder)
            end = f"{' '.join(command)}: exit {status} after {seconds:.0f} s: {said[-300:]!r}"
            self.counts["commands run"] += 1
            self.counts["longest command, seconds"] = max(self.counts["longest command, seconds"], round(seconds, 1))
            self.note("hangs", attack.name, [end] if status is None else [])
            self.note("other exits", attack.name, [end] if status not in (None, 0, 1, 2) else [])
            self.note("keys found", attack.name, [end] if SECRET in said else [])
            if "Traceback" in said:
                self.counts["tracebacks"] += 1
                place = re.findall(rf'File "{ROOT}/(.*), in ', said)[-1:] + said.strip().splitlines()[-1:]
                self.places.setdefault(": ".join(place)[:200], f"{attack.name}: {' '.join(command)}")
        written = [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        self.note("keys found", attack.name, [path.relative_to(folder) for path in written])
        self.counts["attacks"] += 1
        shutil.rmtree(folder)


def run(only: str = "", scenes: Sequence[Scene] = SCENES) -> Findings:
    """Every attack whose name the pattern `only` finds, two at a time."""
    campaign = _Campaign()
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(2) as pool:
        pending = {}
        for scene in scenes:
            honest = Path(root) / scene.name
            honest.mkdir()
            scene.make(honest)
            for attack in attacks(scene, honest):
                if re.search(only, attack.name):
                    folder = Path(root) / f"{scene.name}-{len(pending)}"
                    pending[pool.submit(campaign.attack, attack, honest, folder)] = attack.name
        for done in as_completed(pending):
            if error := done.exception():
                campaign.note("broke off", pending[done], [repr(error)])
            campaign.tell(f"{campaign.counts['attacks']} of {len(pending)} attacks")
    for place, where in campaign.places.items():
        print(f"traceback: {place}  ({where})", flush=True)
    return campaign


if __name__ == "__main__":
    found = run(*sys.argv[1:2])
    print(*found.faults, dict(found.counts), sep="\n")
