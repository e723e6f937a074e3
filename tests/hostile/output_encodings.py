"""Every command where its output has another encoding, no reader or no room: what it decides and writes is the same.

All texts are full of what ASCII lacks. What a command must end with, and leave, says the same command under UTF-8.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from findings import Findings

from rag_zeval.literal_judge import literal_reply
from rag_zeval.scripted_judge import ScriptedJudge

ROOT = Path(__file__).parents[2]
ROWS = 12
C_LOCALE = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
UTF_8 = {"PYTHONIOENCODING": "utf-8:strict"}
ENCODINGS: dict[str, dict[str, str]] = {  # by mode
    **{name: {"PYTHONIOENCODING": f"{name}:strict"} for name in ("ascii", "latin-1", "cp1252")},
    "C": C_LOCALE,
}
READERS = ("nobody reads", "nobody reads errors", "closed", "errors closed", "full", "errors full")
MODES = (*ENCODINGS, *READERS)
FULL = "error: standard output: No space left on device"
ANSWER = {"result": {"answer": "Zürich → 東京"}, "docs": [{"id": "ß", "text": "Im März ≥ 3 °C"}]}


@dataclass(frozen=True)
class Ended:
    status: int
    out: bytes
    err: bytes


@dataclass(frozen=True)
class Command:
    """same: whether it writes the same bytes each time, for it measures no time. here: as words of `rag-zeval`."""

    words: Sequence[str]
    same: bool = True

    @property
    def here(self) -> Sequence[str]:
        return self.words[1:]


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def _facts(n: int, right: int) -> dict[str, Any]:
    """A question, its contexts and an answer of which so many of three sentences stand in them."""
    facts = [f"Die Größe Nr. {n} Teil {at} ≥ 東京 “{at}” 😀".replace(".", "") for at in range(3)]
    lies = [f"Lüge → {n} Teil {at}" for at in range(3)]
    chunk = {"contexts": [". ".join(facts) + "."], "context_ids": [f"ü{n}"], "gold_chunk_ids": [f"ü{n}"]}
    answer = ". ".join([*facts[:right], *lies[right:]]) + "."
    asked = {
        "id": f"é{n}",
        "question": f"Frage — {n}?",
        "truth": f"{facts[0]}.",
        "slice_tag": "größe" if n % 2 else "ł",
    }
    return {**asked, "answer": answer, **chunk, "origin": "production"}


class Campaign(Findings):
    """Runs commands on files that it makes in a folder, and compares how they end."""

    def __init__(self, folder: Path, run: Callable[[Command, str, Path, dict[str, str]], Ended] | None = None):
        super().__init__("encodings", ("commands run", *KINDS))
        self.folder, self._run = folder, run or in_a_process
        self._judge = ScriptedJudge(literal_reply, keep=False)
        self._system = ScriptedJudge(lambda body: {"status": 200, "body": ANSWER}, keep=False)
        self.commands = self._make_files()
        self._right: dict[str, tuple[Ended, dict[str, bytes]]] = {}

    def close(self) -> None:
        self._judge.close()
        self._system.close()

    def _make_files(self) -> dict[str, Command]:
        made = self.folder / "made"
        for name, right in (("a", 2), ("b", 2), ("worse", 0)):
            _write(made / f"{name}.jsonl", [_facts(n, right - (n == 3 and right > 0)) for n in range(ROWS)])
        (made / "docs").mkdir()
        (made / "docs" / "straße.md").write_text("\n\n".join(_facts(n, 3)["answer"] for n in range(6)), "utf-8")
        texts = ("answer", "poor_answer", "ungrounded_answer")
        wikieval = [
            {"question": f"¿{n}?", "context_v1": [_facts(n, 3)["answer"]], **{t: f"año {n} {t}" for t in texts}}
            for n in range(4)
        ]
        _write(made / "data" / "wikieval" / "rows.jsonl", wikieval)
        (made / "qrels").write_text("".join(f"t{n} 0 dé{n} {n % 3}\n" for n in range(6)), "utf-8")
        model, system = f"--model={self._judge.spec()}", f"--url={self._system.url}/ask"
        for name in ("a", "b", "worse"):
            words = ["evaluate", str(made / f"{name}.jsonl"), model, "--against=both", f"--out={made / name}.results"]
            self._undisturbed(Command(["rag_zeval", *words]))
        a, b, worse = (str(made / f"{name}.results") for name in ("a", "b", "worse"))
        metric = "--metric=rag_zeval@contexts"
        self._undisturbed(Command(["rag_zeval", "sample", a, metric, f"--out={made}/sheet.csv", "--n=12"]))
        self._label(made / "sheet.csv")
        bench = ["eval_benchmarks", "benchmarks=[wikieval]", "scorers=[bleu,rouge_l]", f"data_dir={made}/data"]
        if self._run is in_a_process:
            self._undisturbed(Command([*bench, f"out_dir={made}/bench", "bootstrap.draws=50"]))
        read = [
            "--answer=$.result.answer",
            "--contexts=$.docs[*].text",
            "--context-ids=$.docs[*].id",
            "--system=größer",
        ]
        ours = {
            "version": ["--version"], "scorers": ["scorers"], "help": ["--help"],
            "evaluate": ["evaluate", str(made / "a.jsonl"), model, "--out=rows", "--html=seite.html"],
            "evaluate --dry-run": ["evaluate", str(made / "a.jsonl"), model, "--dry-run", "--out=rows"],
            "report": ["report", a, "--html=seite.html"],
            "compare": ["compare", a, worse, "--html=seite.html", "--out=zahlen.json"],
            "compare three": ["compare", a, b, worse],
            "gate that passes": ["gate", a, b, "--junit=junit.xml", "--summary=summary.md"],
            "gate that fails": ["gate", a, worse, "--junit=junit.xml", "--summary=summary.md"],
            "sample": ["sample", a, metric, "--out=sheet.csv"],
            "audit": ["audit", str(made / "sheet.csv"), a],
            "audit-qrels": ["audit-qrels", str(made / "qrels"), str(made / "qrels")],
            "retrieval": ["retrieval", str(made / "a.jsonl")],
            "failures": ["failures", a, str(made / "a.jsonl"), "--out=klassen.jsonl"],
            "check-set": ["check-set", str(made / "a.jsonl")],
            "questions": ["questions", str(made / "docs"), model, "--out=fragen.jsonl", "--n=3", "--kinds=easy"],
            "collect": ["collect", str(made / "a.jsonl"), system, "--out=antworten.jsonl", *read],
            "smoke": ["smoke", model],
            "no such file": ["gate", str(made / "süß"), b], "no such option": ["gate", "--größe"],
        }  # fmt: skip
        named = (
            "evaluate report serve-report compare gate questions collect check-set retrieval failures sample audit "
            "audit-qrels mock-judge serve smoke"
        )
        timed = ("evaluate", "questions", "collect", "smoke")
        return {
            **{name: Command(["rag_zeval", *words], not name.startswith(timed)) for name, words in ours.items()},
            **{f"{name} --help": Command(["rag_zeval", name, "--help"]) for name in named.split()},
            "bench": Command([*bench, "out_dir=out", "bootstrap.draws=50"], same=False),
            "bench compare": Command(["eval_benchmarks.compare", f"{made}/bench", "bleu", "rouge_l"]),
            "bench, a wrong key": Command(["eval_benchmarks", "größe=1"]),
            **{
                f"{stage} --help": Command([stage, "--help"])
                for stage in (
                    "eval_benchmarks", "eval_benchmarks.compare", "eval_benchmarks.datasets.download", "synthesize",
                    "train", "train.sft", "experiments", "experiments.run_report",
                )
            },
        }  # fmt: skip

    def _undisturbed(self, command: Command) -> None:
        ended = self._run(command, "utf-8", self.folder, UTF_8)
        if ended.status:
            raise RuntimeError(f"{command.words} fails undisturbed: {ended.err.decode()}")

    def _label(self, sheet: Path) -> None:
        with open(sheet, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        with open(sheet, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows({**row, "label": str(at % 2), "note": "schön → 東京"} for at, row in enumerate(rows))

    def check(self, name: str, mode: str) -> None:
        """Run a command in a mode, and note where it ends otherwise than under UTF-8."""
        right, its_files = self._under_utf_8(name)
        ended, files = self._ended(name, mode)
        where = f"{name}, {mode}"
        lost = mode == "full" and bool(right.out)
        status = 2 if lost else right.status
        self.note("other statuses", where, [f"{ended.status}, not {status}: {_tail(ended)}"] * (ended.status != status))
        for word in (b"Traceback", b"Exception ignored", b"UnicodeEncodeError"):
            self.note("tracebacks", where, [_tail(ended)] * (word in ended.err and word not in right.err))
        if self.commands[name].same:
            self.note("other files", where, sorted(at for at in its_files if files.get(at) != its_files[at]))
        else:
            self.note("other files", where, sorted(its_files.keys() - files.keys()))
        self.note("silent", where, ["no output"] * (mode in ENCODINGS and bool(right.out) and not ended.out.strip()))
        self.note("silent", where, [_tail(ended)] * (lost and FULL.encode() not in ended.err))

    def _under_utf_8(self, name: str) -> tuple[Ended, dict[str, bytes]]:
        if name not in self._right:
            self._right[name] = self._ended(name, "utf-8")
        return self._right[name]

    def _ended(self, name: str, mode: str) -> tuple[Ended, dict[str, bytes]]:
        folder = self.folder / f"{self._run.__name__}, {mode}, {name}"
        folder.mkdir()
        self.counts["commands run"] += 1
        ended = self._run(self.commands[name], mode, folder, ENCODINGS.get(mode, UTF_8))
        files = {str(at.relative_to(folder)): at.read_bytes() for at in folder.rglob("*") if at.is_file()}
        return ended, {at: content for at, content in files.items() if not at.endswith(("-shm", "-wal"))}


KINDS = ("other statuses", "other files", "tracebacks", "silent")


def _tail(ended: Ended) -> str:
    return repr(ended.err.decode("utf-8", "replace")[-300:])


def in_a_process(command: Command, mode: str, folder: Path, encoding: dict[str, str]) -> Ended:
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    env |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "100", **encoding}
    line = [sys.executable, "-m", *command.words]
    if mode in ("closed", "errors closed"):
        line = ["/bin/sh", "-c", f'exec "$@" {"2" if mode == "errors closed" else ""}>&-', "sh", *line]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        other = _nowhere(mode)
        streams: list[Any] = [out, err]
        if other is not None:
            streams["errors" in mode] = other
        status = subprocess.run(
            line, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=streams[0], stderr=streams[1]
        ).returncode
        if other is not None:
            os.close(other)
        out.seek(0)
        err.seek(0)
        return Ended(status, out.read(), err.read())


def _nowhere(mode: str) -> int | None:
    """A descriptor that nobody reads, or that has no room; None in other modes."""
    if mode.startswith("nobody reads"):
        reader, writer = os.pipe()
        os.close(reader)
        return writer
    return os.open("/dev/full", os.O_WRONLY) if mode.endswith("full") else None


def in_this_process(command: Command, mode: str, folder: Path, encoding: dict[str, str]) -> Ended:
    """The same for commands of `rag-zeval`, without the start of Python: what it would make of the encoding is done."""
    from rag_zeval.cli import main

    assert command.words[0] == "rag_zeval" and "closed" not in mode
    name, _, errors = encoding["PYTHONIOENCODING"].partition(":")
    before = sys.stdout, sys.stderr, sys.argv, Path.cwd()
    out, err = (io.TextIOWrapper(io.BytesIO(), name, how) for how in (errors, "backslashreplace"))
    streams: list[Any] = [out, err]
    if (other := _nowhere(mode)) is not None:
        streams["errors" in mode] = open(other, "w", encoding="utf-8")  # noqa: SIM115 (closed below)
    sys.stdout, sys.stderr = streams
    sys.argv = ["rag-zeval", *command.here]
    os.chdir(folder)
    status = 0
    try:
        main()
    except SystemExit as stop:
        status = int(stop.code or 0)
    finally:
        sys.stdout, sys.stderr, sys.argv = before[:3]
        os.chdir(before[3])
    for stream in streams:
        stream.flush()  # as Python does in the end
    ended = Ended(status, *(stream.buffer.getvalue() for stream in (out, err)))
    if other is not None:
        with suppress(OSError):
            streams["errors" in mode].close()
    return ended


def run(names: Sequence[str] | None = None, modes: Sequence[str] = MODES) -> Findings:
    """Each command in each mode, two at a time; help texts only where the encoding is another."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        campaign = Campaign(Path(folder))
        try:
            names = [*campaign.commands] if names is None else names
            list(pool.map(campaign._under_utf_8, names))
            pairs = [(name, mode) for name in names for mode in modes if mode in ENCODINGS or "--help" not in name]
            attempts = {pool.submit(campaign.check, name, mode): f"{name}, {mode}" for name, mode in pairs}
            for attempt in as_completed(attempts):
                if error := attempt.exception():
                    campaign.note("broke off", attempts[attempt], [repr(error)])
                campaign.tell(f"{campaign.counts['commands run']} commands")
        finally:
            campaign.close()
    return campaign
