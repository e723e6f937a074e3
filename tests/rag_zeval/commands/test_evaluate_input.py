"""What `rag-zeval evaluate` says of its input before the first call, and the table it writes."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]
ROWS = [
    {"question": "q1?", "answer": "It opens at nine.", "contexts": ["It opens at nine."], "ground_truth": "At ten."},
    {"question": "q2?", "answer": "=It closes at five.", "contexts": ["It closes at six."], "ground_truth": None},
    {"question": "q3?", "answer": None, "contexts": ["It rains."], "ground_truth": "It rains."},
]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_a_dry_run_needs_no_model_and_shows_what_would_be_judged(run: Run, inputs: Path) -> None:
    done = run("evaluate", inputs, "--dry-run", "--against", "both")
    assert done.returncode == 0, done.stderr
    for line in (
        f"{inputs}: 3 cases (columns known by their names)",
        "  ground truth: column 'ground_truth', in 2 of 3",
        "judged by: retrieved contexts, in 3 of 3 cases",
        "judged by: ground truth, in 2 of 3 cases",
    ):
        assert line in done.stderr.splitlines()
    for line in ("  question: q1?", "  answer of in: It opens at nine.", "  retrieved contexts: It opens at nine.",
                 "  ground truth: At ten.", "  ground truth: none", "  answer of in: no answer"):  # fmt: skip
        assert line in done.stdout.splitlines()


def test_what_is_judged_is_said_before_anything_is_asked(run: Run, endpoint: Any, inputs: Path) -> None:
    done = run("evaluate", inputs, "--scorers", "rouge_l", "--map", "contexts=ctx")
    assert done.returncode == 2 and "no row has 'ctx'" in done.stderr
    done = run("evaluate", inputs, "--scorers", "rouge_l")
    assert done.stderr.startswith(f"{inputs}: 3 cases") and "judged by: retrieved contexts" in done.stderr


def test_scores_are_written_in_the_order_of_the_input(run: Run, inputs: Path, tmp_path: Path) -> None:
    done = run("evaluate", inputs, "--scorers", "rouge_l,bleu", "--against", "both", "--csv", "scores.csv")
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "scores.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["question"] for row in rows] == ["q1?", "q2?", "q3?"]
    assert (rows[0]["rouge_l@contexts"], rows[0]["rouge_l@contexts status"]) == ("1.0", "ok")
    assert rows[1]["answer"] == "'=It closes at five."  # no formula
    metrics = [f"{metric}@{source}" for metric in ("rouge_l", "bleu") for source in ("contexts", "truth")]
    assert list(rows[0])[5:] == [name for metric in metrics for name in (metric, f"{metric} status")]


def test_a_large_file_takes_less_memory_than_twice_its_size(run_measured: Any, tmp_path: Path) -> None:
    words = " ".join(f"word{at}" for at in range(3_000))
    for name, rows in (("small.csv", 1), ("large.csv", 2_000)):
        lines = "".join(f'{at},{at}?,It is.,"[""{words} {at}""]",a note\n' for at in range(rows))
        (tmp_path / name).write_text(f"id,question,answer,contexts,note\n{lines}")
    _, least = run_measured("evaluate", "small.csv", "--dry-run")
    _, most = run_measured("evaluate", "large.csv", "--dry-run")
    size = (tmp_path / "large.csv").stat().st_size / 2**20
    assert size > 40 and most - least < 2 * size


def test_systems_are_named_where_files_have_one_name(run: Run, inputs: Path, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.jsonl").write_bytes(inputs.read_bytes())
    words = ("--scorers", "rouge_l", "--out", "o.jsonl")
    refused = run("evaluate", "a/run.jsonl", "b/run.jsonl", *words)
    assert refused.returncode == 2
    assert "both systems are called 'run'. Give them names: old=a/run.jsonl new=b/run.jsonl" in refused.stderr
    done = run("evaluate", "old=a/run.jsonl", "new=b/run.jsonl", *words)
    assert done.returncode == 0, done.stderr
    systems = [json.loads(line)["systems"] for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert systems == [["old"]] * 3 + [["new"]] * 3


def test_bad_rows_are_all_told_and_may_be_skipped(run: Run, inputs: Path, tmp_path: Path) -> None:
    inputs.write_text(inputs.read_text() + '{"question": null, "answer": "a"}\n{"question"\n')
    refused = run("evaluate", inputs, "--scorers", "rouge_l")
    assert refused.returncode == 2 and not (tmp_path / "in.results.jsonl").exists()
    assert refused.stderr.splitlines() == [
        f"error: {inputs}:4: column 'question' is empty: fill it in, or remove the row",
        f"error: {inputs}:5: not valid JSON: Expecting ':' delimiter at column 12",
        "error: 2 of 5 rows cannot be read; fix them, or add --skip-bad-rows",
    ]
    done = run("evaluate", inputs, "--scorers", "rouge_l", "--skip-bad-rows")
    assert done.returncode == 0 and "  skipped: 2 bad rows" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--against", "context"), "--against context: must be one of contexts, truth, reference, both"),
        (("--map", "answer=a", "--map", "answer=b"), "--map answer=b: field 'answer' already has the column 'a'"),
        (("--encoding", "klingon"), "--encoding klingon: unknown encoding"),
    ],
)
def test_what_makes_no_sense_is_one_line(run: Run, inputs: Path, words: tuple[str, ...], message: str) -> None:
    done = run("evaluate", inputs, "--scorers", "rouge_l", *words)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"error: {message}")
