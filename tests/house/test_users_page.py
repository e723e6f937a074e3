"""Every command of docs/evaluate.md, in its order, by what the wheel ships, as processes of their own."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.scripted_judge import ScriptedJudge

ROOT = Path(__file__).resolve().parents[2]
STATUSES = {"gate": {0, 1}, "audit": {0, 1}, "check-set": {1}}  # else 0; a set of six questions is no golden set
SLICES = ("billing", "login")


def commands() -> list[list[str]]:
    """The commands in the page's blocks, without their comments; `...` stands for the judge."""
    text = (ROOT / "docs" / "evaluate.md").read_text()
    lines = re.findall(r"^    (rag-zeval .*?)(?:\s+#.*)?$", text, re.MULTILINE)
    return [shlex.split(line.replace("...", "--model openai:gpt-4o-mini")) for line in lines]


def rows(worse: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "question": f"What of {n}?",
            "answer": f"Ann has {n} cats. Bob has {n + (worse and n % 2)} dogs.",
            "contexts": json.dumps([f"Ann has {n} cats.", f"Bob has {n} dogs."]),
            "truth": f"Ann has {n} cats. Bob has {n} dogs.",
            "slice_tag": SLICES[n % 2],
        }
        for n in range(1, 61)
    ]


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, worse in {"answers": False, "old": False, "new": True}.items():
        write_csv(tmp_path / f"{name}.csv", rows(worse))
    outputs, docs = [{"text": "Ann has cats."}], [{"body": "Ann has cats."}]
    logged = {"inputs": {"question": "Who?"}, "outputs": outputs, "docs": docs}
    (tmp_path / "log.jsonl").write_text(json.dumps(logged) + "\n")
    (tmp_path / "prices.json").write_text('{"judge": {"prompt": 0.1, "completion": 0.1}}')
    (tmp_path / "manuals").mkdir()
    for at, town in enumerate("ABCDEFGHIJKLMNOPQRST"):
        shire = [f"{town} lies in Shire{at // 4}."]  # which documents share, so that questions may join them
        facts = shire + [f"The ferry to {town}{n} goes at {n} in the morning from pier {n}{town}." for n in range(1, 9)]
        (tmp_path / "manuals" / f"{town}.txt").write_text("\n\n".join(facts))
    return tmp_path


@pytest.fixture
def judge(site: Path, no_proxy: None) -> Iterator[str]:
    line = [sys.executable, "-m", "rag_zeval", "mock-judge"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    with subprocess.Popen(line, env=environment, cwd=site, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield re.findall(r"openai:\S+/v1", process.stdout.readline())[0]
        process.kill()


@pytest.fixture
def rag_system(scripted_judge: ScriptedJudge) -> str:
    """A RAG system that finds two chunks and answers with the first."""
    docs = [{"id": f"A.txt#{n}", "text": f"The ferry to A{n} goes at {n}."} for n in (1, 2)]
    scripted_judge.replies = lambda body: {"status": 200, "body": {"answer": docs[0]["text"], "docs": docs}}
    return f"{scripted_judge.url}/ask"


def label(sheet: Path) -> None:
    """Fill in a labelling sheet: nine of ten claims are supported."""
    with open(sheet, encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        labelled = [{**row, "label": "no" if at % 10 == 0 else "yes"} for at, row in enumerate(reader)]
    write_csv(sheet, labelled)


def test_every_command_of_the_users_page_runs(folder: Path, site: Path, judge: str, rag_system: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "200"}
    shown = {}
    ran = commands()
    assert {words[1] for words in ran} >= {
        "evaluate", "compare", "gate", "questions", "collect", "check-set", "retrieval", "failures", "sample", "audit"
    }  # fmt: skip
    for words in ran:
        if words[1] == "mock-judge":
            continue
        if words[1] == "audit":
            label(folder / "sheet.csv")
        arguments = [
            re.sub(r"^openai:(gpt-4o-mini|judge@.*)$", judge, word).replace("http://my-rag/ask", rag_system)
            for word in words[1:]
        ]
        line = [sys.executable, "-m", "rag_zeval", *arguments]
        done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode in STATUSES.get(words[1], {0}), f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
        shown[words[1]] = done.stdout
    assert (folder / "report.html").stat().st_size > 10_000
    assert "billing" in shown["compare"] and "login" in shown["compare"]
    assert "kappa" in shown["audit"].lower() and "nDCG" in shown["retrieval"]
