"""Every command where its output has another encoding, no reader or no room: what it decides and writes is the same.

All texts are full of what ASCII lacks. What a command must end with, and leave, says the same command under UTF-8.
"""

import csv
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from commands import Ended, new_folder, run_command, write_rows
from findings import Findings

from rag_zeval import cli
from rag_zeval.literal_judge import literal_reply
from rag_zeval.scripted_judge import ScriptedJudge

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


Runner = Callable[[str, str, Path], Ended]  # of a command's words, in a mode, in a folder
NAMED = [name for group in cli.COMMANDS.values() for name in group]
STAGES = (
    "eval_benchmarks eval_benchmarks.compare eval_benchmarks.datasets.download synthesize train train.sft experiments "
    "experiments.run_report"
)
BENCH = "eval_benchmarks benchmarks=[wikieval] scorers=[bleu,rouge_l] bootstrap.draws=50 data_dir={made}/data"
COMMANDS = {  # {made} is a folder of files that are made first
    "version": "rag_zeval --version",
    "scorers": "rag_zeval scorers",
    "help": "rag_zeval --help",
    "evaluate": "rag_zeval evaluate {made}/a.jsonl {model} --out=rows --html=seite.html",
    "evaluate --dry-run": "rag_zeval evaluate {made}/a.jsonl {model} --dry-run --out=rows",
    "report": "rag_zeval report {made}/a.results --html=seite.html",
    "compare": "rag_zeval compare {made}/a.results {made}/worse.results --html=seite.html --out=zahlen.json",
    "compare three": "rag_zeval compare {made}/a.results {made}/b.results {made}/worse.results",
    "gate that passes": "rag_zeval gate {made}/a.results {made}/b.results --junit=junit.xml --summary=summary.md",
    "gate that fails": "rag_zeval gate {made}/a.results {made}/worse.results --junit=junit.xml --summary=summary.md",
    "sample": "rag_zeval sample {made}/a.results --metric=rag_zeval@contexts --out=sheet.csv",
    "audit": "rag_zeval audit {made}/sheet.csv {made}/a.results",
    "judge-card": "rag_zeval judge-card {made}/sheet.csv {made}/a.results --out=karte.md",
    "keep-labels": "rag_zeval keep-labels {made}/sheet.csv {made}/a.results --person=ann --labels=ł.jsonl",
    "reuse-labels": "rag_zeval reuse-labels {made}/labels.jsonl {made}/b.results --metric=rag_zeval@contexts",
    "dashboard": "rag_zeval dashboard {made}/a.results {made}/worse.results --html=seite.html",
    "chunks": "rag_zeval chunks {made}/docs --out=stücke.csv",
    "audit-qrels": "rag_zeval audit-qrels {made}/qrels {made}/qrels",
    "retrieval": "rag_zeval retrieval {made}/a.jsonl",
    "failures": "rag_zeval failures {made}/a.results {made}/a.jsonl --out=klassen.jsonl",
    "metrics": "rag_zeval metrics {made}/a.results {made}/worse.results --html=seite.html --csv=zahlen.csv",
    "consistency": "rag_zeval consistency {made}/a.results {made}/worse.results",
    "check-set": "rag_zeval check-set {made}/a.jsonl",
    "questions": "rag_zeval questions {made}/docs {model} --out=fragen.jsonl --n=3 --kinds=easy",
    "collect": (
        "rag_zeval collect {made}/a.jsonl --url={url}/ask --out=antworten.jsonl --answer=$.result.answer "
        "--contexts=$.docs[*].text --context-ids=$.docs[*].id --system=größer"
    ),
    "smoke": "rag_zeval smoke {model}",
    "no such file": "rag_zeval gate {made}/süß {made}/b.results",
    "no such option": "rag_zeval gate --größe",
    **{f"{name} --help": f"rag_zeval {name} --help" for name in NAMED},
    "bench": f"{BENCH} out_dir=out",
    "bench compare": "eval_benchmarks.compare {made}/bench bleu rouge_l",
    "bench, a wrong key": "eval_benchmarks größe=1",
    **{f"{stage} --help": f"{stage} --help" for stage in STAGES.split()},
}
# These write seconds, which are never the same, or names of files, which the C locale reads otherwise.
TIMED = ("evaluate", "questions", "chunks", "collect", "smoke", "bench")


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

    def __init__(self, folder: Path, run: Runner | None = None):
        super().__init__("encodings", ("commands run", *KINDS))
        self.folder, self._run = folder, run or in_a_process
        self._judge = ScriptedJudge(literal_reply, keep=False)
        self._system = ScriptedJudge(lambda body: {"status": 200, "body": ANSWER}, keep=False)
        self._places = {
            "made": folder / "made",
            "model": f"--model={self._judge.spec()}",
            "url": self._system.url,
        }
        self._make_files()
        self._right: dict[str, tuple[Ended, dict[str, bytes]]] = {}

    def close(self) -> None:
        self._judge.close()
        self._system.close()

    def _make_files(self) -> None:
        made = self.folder / "made"
        texts = ("answer", "poor_answer", "ungrounded_answer")
        wikieval = [
            {"question": f"¿{n}?", "context_v1": [_facts(n, 3)["answer"]], **{t: f"año {n} {t}" for t in texts}}
            for n in range(4)
        ]
        write_rows(made / "data" / "wikieval" / "rows.jsonl", wikieval)
        (made / "docs").mkdir()
        (made / "docs" / "straße.md").write_text("\n\n".join(_facts(n, 3)["answer"] for n in range(6)), "utf-8")
        (made / "qrels").write_text("".join(f"t{n} 0 dé{n} {n % 3}\n" for n in range(6)), "utf-8")
        for name, right in (("a", 2), ("b", 2), ("worse", 0)):
            write_rows(made / f"{name}.jsonl", [_facts(n, right - (n == 3 and right > 0)) for n in range(ROWS)])
            evaluate = (
                f"rag_zeval evaluate {{made}}/{name}.jsonl {{model}} --against=both --out={{made}}/{name}.results"
            )
            self._undisturbed(evaluate)
        self._undisturbed("rag_zeval sample {made}/a.results --metric=rag_zeval@contexts --out={made}/sheet.csv --n=12")
        self._label(made / "sheet.csv")
        self._undisturbed(
            "rag_zeval keep-labels {made}/sheet.csv {made}/a.results --person=ann --labels={made}/labels.jsonl"
        )
        if self._run is in_a_process:
            self._undisturbed(f"{BENCH} out_dir={{made}}/bench")

    def _undisturbed(self, line: str) -> None:
        ended = self._run(line.format(**self._places), "utf-8", self.folder)
        if ended.status:
            raise RuntimeError(f"{line} fails undisturbed: {ended}")

    def _label(self, sheet: Path) -> None:
        with open(sheet, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        with open(sheet, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows({**row, "label": str(at % 2), "note": "schön → 東京"} for at, row in enumerate(rows))

    def check(self, name: str, mode: str) -> None:
        """Run a command in a mode, and note where it ends otherwise than under UTF-8."""
        right, its_files = self.under_utf_8(name)
        ended, files = self._ended(name, mode)
        where = f"{name}, {mode}"
        lost = mode == "full" and bool(right.out)
        status = 2 if lost else right.status
        self.note_if(ended.status != status, "other statuses", where, f"{ended}, not {status}")
        for word in (b"Traceback", b"Exception ignored", b"UnicodeEncodeError"):
            self.note_if(word in ended.err and word not in right.err, "tracebacks", where, ended)
        changes = name.startswith(TIMED)
        other = [at for at, content in its_files.items() if at not in files or not (changes or files[at] == content)]
        self.note("other files", where, sorted(other))
        self.note_if(mode in ENCODINGS and right.out and not ended.out.strip(), "silent", where, "no output")
        self.note_if(lost and FULL.encode() not in ended.err, "silent", where, ended)

    def under_utf_8(self, name: str) -> tuple[Ended, dict[str, bytes]]:
        if name not in self._right:
            self._right[name] = self._ended(name, "utf-8")
        return self._right[name]

    def _ended(self, name: str, mode: str) -> tuple[Ended, dict[str, bytes]]:
        folder = new_folder(self.folder, f"{mode}, {name}")
        self.counts["commands run"] += 1
        ended = self._run(COMMANDS[name].format(**self._places), mode, folder)
        files = {str(at.relative_to(folder)): at.read_bytes() for at in folder.rglob("*") if at.is_file()}
        return ended, {at: content for at, content in files.items() if not at.endswith(("-shm", "-wal"))}


KINDS = ("other statuses", "other files", "tracebacks", "silent")


def in_a_process(line: str, mode: str, folder: Path, run: Callable[..., Ended] = run_command) -> Ended:
    closing = {"closed": 'exec "$@" >&-', "errors closed": 'exec "$@" 2>&-'}.get(mode)
    before = ["/bin/sh", "-c", closing, "sh"] if closing else []
    other = nowhere(mode)
    streams = {} if other is None else {"stderr" if "errors" in mode else "stdout": other}
    try:
        return run(line.split(), folder, before=before, streams=streams, **ENCODINGS.get(mode, UTF_8))
    finally:
        for descriptor in streams.values():
            os.close(descriptor)


def nowhere(mode: str) -> int | None:
    """A descriptor that nobody reads, or that has no room; None in other modes."""
    if mode.startswith("nobody reads"):
        reader, writer = os.pipe()
        os.close(reader)
        return writer
    return os.open("/dev/full", os.O_WRONLY) if mode.endswith("full") else None


def run(names: Sequence[str] = tuple(COMMANDS), modes: Sequence[str] = MODES) -> Findings:
    """Each command in each mode, two at a time; help texts only where the encoding is another."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder))
        campaign.attempt({f"{name}, utf-8": partial(campaign.under_utf_8, name) for name in names}, "commands run")
        pairs = [(name, mode) for name in names for mode in modes if mode in ENCODINGS or "--help" not in name]
        campaign.attempt({", ".join(pair): partial(campaign.check, *pair) for pair in pairs}, "commands run")
        campaign.close()
    return campaign
