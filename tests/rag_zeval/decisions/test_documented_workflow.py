"""From answers to a decision, by a real judge over HTTP: the steps that the docs tell a team to run."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

import rag_zeval
from rag_zeval.files import json_line
from rag_zeval.scripted_judge import ScriptedJudge

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "compare-and-gate.md").read_text()
SLICES = ("billing", "login", "search", "api")
TRUE = 8  # sentences of ten in an answer
LOST = 3  # true sentences that a damaged answer has less
SYSTEM = "import pathlib; print(pathlib.Path('answers.txt').read_text(), end='')"


def cases(n: int, damaged: str | None = None, reworded: bool = False) -> list[dict[str, Any]]:
    """Answers whose support is known: by the letter, a claim is supported if its sentence stands in the reference."""
    rows = []
    for at in range(n):
        tag = SLICES[at % len(SLICES)]
        spread = at // len(SLICES) % 3  # so that answers differ in their support
        facts = [f"Fact {number} of {at} holds" for number in range(TRUE + 2)]
        true = TRUE - spread - LOST * (tag == damaged)
        wrong = [f"{'Quite another' if reworded else 'A wrong'} thing {number}" for number in range(10 - true)]
        said = [*reversed(wrong), *facts[:true]] if reworded else [*facts[:true], *wrong]
        rows.append(
            {
                "id": f"case {at}",
                "question": f"What of {at}?",
                "reference": ". ".join(facts) + ".",
                "answer": ". ".join(said) + ".",
                "slice_tag": tag,
            }
        )
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(map(json_line, rows)))
    return path


def steps() -> list[dict[str, Any]]:
    """The steps of the page's workflow that run commands."""
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    [job] = yaml.safe_load(text)["jobs"].values()
    assert set(job["env"]) == {"JUDGE", "OPENAI_API_KEY"}
    return [step for step in job["steps"] if "run" in step]


def test_the_workflow_of_the_page_passes_a_good_version_and_stops_a_bad_one(
    literal_judge: ScriptedJudge, tmp_path: Path
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, command in (("rag-zeval", f"{sys.executable} -m rag_zeval"), ("python", sys.executable), ("pip", "true")):
        (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tools / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "JUDGE": literal_judge.spec(),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "shown.md"),
    }
    (tmp_path / "answer.py").write_text(SYSTEM)
    (tmp_path / "questions.jsonl").touch()

    def bash(script: str) -> int:
        return subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment).returncode

    write(tmp_path / "first.jsonl", cases(80))
    assert bash('rag-zeval evaluate first.jsonl --model "$JUDGE" --out baseline.jsonl') == 0

    def job(options: str = "") -> int:
        """Run the steps and return the job's exit status. options: more options of `evaluate`."""
        for left in ("new.jsonl", "gate.md", "gate.xml", "changed.html", "shown.md"):
            (tmp_path / left).unlink(missing_ok=True)
        ended = 0
        for step in steps():
            condition = step.get("if", "")
            is_met = "hashFiles('gate.md')" not in condition or (tmp_path / "gate.md").exists()
            if is_met and (not ended or "!cancelled()" in condition):
                more = f" {options}" if "rag-zeval evaluate" in step["run"] else ""
                ended = bash(step["run"] + more) or ended
        return ended

    for damaged, status, verdict in ((None, 0, "passed"), ("api", 1, "failed")):
        write(tmp_path / "answers.txt", cases(80, damaged, reworded=True))
        assert job() == status
        assert (tmp_path / "shown.md").read_text().startswith(f"### rag-zeval gate: {verdict}")
        assert (tmp_path / "changed.html").exists() and (tmp_path / "gate.xml").exists()

    [limit] = re.findall(r"add `(--prices prices.json --max-cost \d+)` to `evaluate`", PAGE)
    model = literal_judge.spec().removeprefix("openai:").partition("@")[0]
    for dollars, status in ((0.01, 0), (1e4, 1)):  # for a million tokens: a good version that the limit allows, or not
        (tmp_path / "prices.json").write_bytes(json_line({model: {"prompt": dollars, "completion": dollars}}))
        write(tmp_path / "answers.txt", cases(80, reworded=True))
        assert job(limit) == status
        assert (tmp_path / "gate.md").exists() == (not status)


def test_the_python_of_the_page_is_what_the_package_has() -> None:
    [names] = re.findall(r"^from rag_zeval import (.*)$", PAGE, re.MULTILINE)
    assert set(names.split(", ")) <= set(rag_zeval.__all__)
