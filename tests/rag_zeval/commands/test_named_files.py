"""No command writes over a file that it reads, and none writes two things into one file."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from rag_zeval.cli import COMMANDS

RESULT = {
    "id": "0|m", "case": "0", "slice_tag": None, "metric": "m@truth", "trial": 0, "systems": ["s"], "question": "q?",
    "reference": "r", "answers": ["a"], "scores": [1.0], "statuses": ["ok"], "status": "ok", "latency_s": None,
    "trajectory": [{"atomic_claims": []}], "reply": None, "parts": {}, "calls": 0, "cached": 0, "prompt_tokens": 0,
    "completion_tokens": 0, "seconds": 0.0,
}  # fmt: skip
CASE = {"id": "0", "question": "q?", "answer": "a", "truth": "r", "context_ids": ["d"], "gold_chunk_ids": ["d"]}
FILES = {
    "a.jsonl": RESULT, "b.jsonl": RESULT, "x.csv.json": RESULT, "figures/means.png": RESULT, "in.jsonl": CASE,
    "prices.json": {"judge": {"prompt": 1, "completion": 1}}, "doc.md": "It is so.",
}  # fmt: skip
EVALUATE = "evaluate in.jsonl --scorers rouge_l --prices prices.json --out o.jsonl"
QUESTIONS = "questions doc.md --model openai:judge@http://127.0.0.1:9/v1"
LINES = {  # each command that writes files, with every option that names one
    "evaluate": [
        *(f"{EVALUATE} --{kind} {file}" for kind in ("html", "csv", "cache") for file in ("in.jsonl", "prices.json")),
        "evaluate in.jsonl --scorers rouge_l --out in.jsonl",
        "evaluate in.jsonl --scorers rouge_l --prices prices.json --out prices.json",
        f"{EVALUATE} --html x --csv x",
        f"{EVALUATE} --join a.jsonl --csv a.jsonl",
    ],
    "report": [
        "report a.jsonl --html a.jsonl", "report figures/means.png --figures figures",
        "report a.jsonl --labels doc.md --html doc.md", "report a.jsonl --labels x.csv --html x.csv.json",
    ],
    "compare": [
        f"compare a.jsonl b.jsonl {more}"
        for more in ("--html a.jsonl", "--out b.jsonl", "--html x --out x", "--labels doc.md --out doc.md")
    ],
    "gate": [
        f"gate a.jsonl b.jsonl --junit {more}"
        for more in ("a.jsonl", "x --summary b.jsonl", "x --summary x", "doc.md --labels doc.md")
    ],
    "dashboard": ["dashboard a.jsonl b.jsonl --html a.jsonl"],
    "failures": ["failures a.jsonl in.jsonl --out in.jsonl", "failures a.jsonl in.jsonl --out a.jsonl"],
    "chunks": ["chunks doc.md --out doc.md", "chunks . --out doc.md", "chunks . --out new.md"],
    "questions": [f"{QUESTIONS} --out {more}" for more in ("doc.md", "o.jsonl --cache doc.md", "x --cache x")]
    + [f"{QUESTIONS.replace('doc.md', '.')} --out doc.md"],
    "collect": [
        f"collect in.jsonl --url http://127.0.0.1:9/ --answer $.a --body prices.json --out {file}"
        for file in ("in.jsonl", "prices.json")
    ],
    "qrels": ["qrels a.jsonl --out a.jsonl"],
    "metrics": [f"metrics a.jsonl b.jsonl {more}" for more in ("--html b.jsonl", "--csv a.jsonl", "--csv x --html x")],
    "keep-labels": [f"keep-labels doc.md a.jsonl --person p --labels {file}" for file in ("doc.md", "a.jsonl")],
    "reuse-labels": [f"reuse-labels doc.md a.jsonl --out {file}" for file in ("doc.md", "a.jsonl")],
    "sample": [
        "sample a.jsonl --out a.jsonl", "sample x.csv.json --out x.csv", "sample a.jsonl --more doc.md --out doc.md"
    ],
    "audit": [f"audit x.csv a.jsonl {more}" for more in ("--csv a.jsonl", "--csv x.csv", "doc.md --csv doc.md")],
    "judge-card": [
        f"judge-card x.csv a.jsonl --prices prices.json --out {file}"
        for file in ("a.jsonl", "x.csv.json", "prices.json")
    ],
}  # fmt: skip
WRITTEN = {"out", "html", "csv", "cache", "figures", "junit", "summary"}
READ = {
    "prices", "results", "questions", "sheet", "sheet2", "docs", "gold", "file", "people", "judge", "replies", "served",
    "labels", "more", "against", "body", "qrels", "join",
}  # fmt: skip


@pytest.mark.parametrize("line", [line for lines in LINES.values() for line in lines])
def test_a_file_is_not_written_over(line: str, run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    for name, content in FILES.items():
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content) + "\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    refused = run(*line.split())
    told = "would be one of the documents in ." if " . " in line else "is the same file as"
    assert (refused.returncode, told in refused.stderr) == (2, True), refused.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_every_option_that_names_a_file_is_known_here() -> None:
    for name, (function, _) in {name: one for group in COMMANDS.values() for name, one in group.items()}.items():
        hints = inspect.get_annotations(function, eval_str=True)
        paths = {option for option, hint in hints.items() if Path in (hint, *_types(hint))}
        assert paths <= WRITTEN | READ, name
        tried = {word.lstrip("-") for line in LINES.get(name, ()) for word in line.split() if word.startswith("--")}
        assert paths & WRITTEN <= tried, name


def _types(hint: Any) -> list[Any]:
    return [inner for one in get_args(hint) for inner in (one, *_types(one))]
