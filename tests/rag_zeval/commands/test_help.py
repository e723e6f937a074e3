"""What the commands say of themselves: the first screen, and an example for each command that works as it stands."""

import csv
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import typer

from rag_zeval.cli import COMMANDS, FIRST_HOUR, app
from rag_zeval.scripted_judge import ScriptedJudge

Run = Callable[..., CompletedProcess[str]]
COMMAND = typer.main.get_command(app)
EXAMPLES = {name: example for commands in COMMANDS.values() for name, (_, example) in commands.items()}
NEED_MORE = {"mock-judge", "serve-report", "serve", "collect"}  # they run until Ctrl-C, or ask a RAG system
STATUSES = {"check-set": 1, "audit": 1}  # twelve questions are too few, and these people are of another mind


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_files(name: str, tmp_path: Path, judge: ScriptedJudge, run: Run) -> None:
    """Write the files that the example of this command names."""
    cases: list[dict[str, Any]] = [
        {
            "id": str(n),
            "question": f"What of {n}?",
            "answer": f"Ann has {n} cats. Bob has {n % 3} dogs.",
            "contexts": [f"Ann has {n} cats.", "Bob has 1 dogs."],
            "truth": f"Ann has {n} cats.",
            "slice_tag": "pets",
            "context_ids": ["a", "b"],
            "gold_chunk_ids": ["a"],
        }
        for n in range(12)
    ]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    for file in ("answers.jsonl", "golden.jsonl"):
        (tmp_path / file).write_text(lines)
    lists = ("contexts", "context_ids", "gold_chunk_ids")
    write_csv(
        tmp_path / "answers.csv", [{**case, **{field: json.dumps(case[field]) for field in lists}} for case in cases]
    )
    by = "both" if name == "failures" else "contexts"  # which wants to know what is correct, and what is supported
    scorers = ["--scorers", "umbrela"] if name == "qrels" else []
    made = run("evaluate", "answers.csv", "--model", judge.spec(), "--against", by, *scorers)
    assert made.returncode == 0, made.stderr
    for version in ("old", "new", "run1", "run2", "run3"):
        (tmp_path / f"{version}.results.jsonl").write_bytes((tmp_path / "answers.results.jsonl").read_bytes())
    (tmp_path / "manuals").mkdir()
    for at, town in enumerate("ABCDEFGHIJKLMNOPQRST"):
        shire = f"{town} lies in Shire{at // 4}."  # which documents share, so that questions may join them
        facts = [f"The ferry to {town}{n} goes at {n} in the morning from pier {n}{town}." for n in range(1, 9)]
        (tmp_path / "manuals" / f"{town}.txt").write_text("\n\n".join([shire, *facts]))
    for qrels in ("people.qrels", "judge.qrels"):
        (tmp_path / qrels).write_text("".join(f"t{n % 3} 0 d{n} {n % 2}\n" for n in range(12)))
    if name in ("audit", "judge-card", "keep-labels", "reuse-labels"):
        write_labels(tmp_path, run)
    if name == "reuse-labels":
        assert run("keep-labels", "sheet.csv", "answers.results.jsonl", "--person", "ann").returncode == 0
        (tmp_path / "sheet.csv").unlink()
        (tmp_path / "sheet.csv.json").unlink()


def write_labels(tmp_path: Path, run: Run) -> None:
    assert run("sample", "answers.results.jsonl").returncode == 0
    with open(tmp_path / "sheet.csv", encoding="utf-8-sig", newline="") as file:
        sheet = [{**row, "label": "no" if n % 4 == 0 else "yes"} for n, row in enumerate(csv.DictReader(file))]
    write_csv(tmp_path / "sheet.csv", sheet)


def parse(words: Sequence[str]) -> None:
    """Read a command line without running it; what it does not know raises."""
    assert isinstance(COMMAND, typer.core.TyperGroup)
    command = COMMAND.commands[words[1]]
    command.make_context(words[1], list(words[2:]))


def test_each_help_begins_with_its_example(run: Run) -> None:
    for name, example in EXAMPLES.items():
        parse(shlex.split(example))
        shown = run(name, "--help").stdout
        usage, first, *_ = [line.strip() for line in shown.splitlines() if line.strip()]
        assert usage.startswith("Usage:") and first == f"$ {example}"


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - NEED_MORE))
def test_the_example_runs(name: str, tmp_path: Path, literal_judge: ScriptedJudge, run: Run) -> None:
    write_files(name, tmp_path, literal_judge, run)
    words = shlex.split(EXAMPLES[name].replace("http://127.0.0.1:8001/v1", literal_judge.url))
    done = run(*words[1:])
    assert done.returncode == STATUSES.get(name, 0), done.stdout + done.stderr


def test_the_first_screen_shows_the_first_hour_and_where_the_rest_is(run: Run) -> None:
    done = run()
    assert done.returncode == 0
    assert [line.strip() for line in done.stdout.splitlines() if line.startswith("  rag-zeval ")] == [
        EXAMPLES[name] for name in FIRST_HOUR
    ]
    assert all(f" {name}" in done.stdout for name in EXAMPLES)
    assert all(panel in done.stdout and panel in run("--help").stdout for panel in COMMANDS)
