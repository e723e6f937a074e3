"""`--criteria`: every command of docs/criteria.md; a run of 30 answers, killed, resumed, retried and paid for once.

The 30 answers are RAGChecker's where RAG_ZEVAL_DATA has them: texts that people wrote, most of which cite, and those of
models, which do not. Elsewhere they are made up.
"""

import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_zeval import evaluate
from rag_zeval.files import read_jsonl
from rag_zeval.literal_judge import read_prompt
from rag_zeval.results import SPENT
from rag_zeval.scripted_judge import ScriptedJudge

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "criteria.md"
CITES = ROOT / "docs" / "example" / "cites_source.yaml"
DATA = Path(os.environ.get("RAG_ZEVAL_DATA", "data")) / "ragchecker_meta" / "human_labeled_data.json"
PAID = 1000 * 7 / 1e6 + 2000 * 5 / 1e6  # dollars for a call of 7 and 5 tokens
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def answers() -> list[dict[str, Any]]:
    """15 questions with two answers."""
    if not DATA.exists():
        texts = [(f"What of {n}?", f"It is {n} [{n}].", f"It is {n}.") for n in range(15)]
    else:
        rows = {row["query"]: row for row in json.loads(DATA.read_text())}
        texts = [(query, row["gt_answer"], row["model1"]["response"]) for query, row in list(rows.items())[:15]]
    return [{"question": query, "answers": {"people": first, "model": second}} for query, first, second in texts]


def cites(text: str) -> bool:
    return re.search(r"\[\d+\]", text) is not None


@pytest.fixture
def citing(scripted_judge: ScriptedJudge) -> ScriptedJudge:
    """A judge that looks for a number in brackets."""

    def reply(body: Any) -> str:
        prompt, inputs = read_prompt(body["messages"][0]["content"])
        assert prompt == "criteria" and "cites" in inputs["criteria"]["purpose"]
        return json.dumps({"reason": "I looked.", "verdict": "yes" if cites(inputs["answer"]) else "no"})

    scripted_judge.replies = reply
    return scripted_judge


@pytest.fixture
def score(run: Run, citing: ScriptedJudge, tmp_path: Path) -> Run:
    """Scores the 30 answers by the criteria file that lies in the folder."""
    shutil.copy(CITES, tmp_path)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers()))
    (tmp_path / "prices.json").write_text('{"judge": {"prompt": 1000, "completion": 2000}}')
    words = ["evaluate", "in.jsonl", "--criteria", "cites_source.yaml", "--prices", "prices.json", "--out", "o.jsonl"]
    return lambda *more: run(*words, "--model", citing.spec(), *more)


def found(path: Path) -> dict[str, list[float | None]]:
    return {row["question"]: row["scores"] for row in read_jsonl(path) if row["id"] != SPENT}


EXPECTED = {row["question"]: [float(cites(text)) for text in row["answers"].values()] for row in answers()}


def test_thirty_answers_are_scored_and_their_cost_is_counted(score: Run, citing: ScriptedJudge, tmp_path: Path) -> None:
    planned = score("--dry-run")
    assert re.search(r"cites_source +│ 15 +│ 30 ", planned.stdout) and not citing.requests
    done = score("--html", "o.html", "--csv", "o.csv")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "o.jsonl") == EXPECTED and len(citing.requests) == 30
    assert re.search(rf"dollars +│ {30 * PAID:.4f} ", done.stdout)
    assert '"I looked."' in (tmp_path / "o.html").read_text()
    with open(tmp_path / "o.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["cites_source"]) for row in rows] == [score for scores in EXPECTED.values() for score in scores]
    assert {row["cites_source status"] for row in rows} == {"ok"}
    results = evaluate(answers(), criteria=CITES, model=citing.spec())
    assert {(one.question, one.system): one.score for one in results} == {
        (question, system): score
        for question, scores in EXPECTED.items()
        for system, score in zip(("people", "model"), scores, strict=True)
    }


def test_a_killed_run_resumes_and_pays_for_nothing_twice(
    score: Run, citing: ScriptedJudge, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    out = tmp_path / "o.jsonl"
    citing.delay = 0.02
    line = [sys.executable, "-m", "rag_zeval", "evaluate", "in.jsonl", "--criteria", "cites_source.yaml"]
    line += ["--model", citing.spec(), "--out", "o.jsonl", "--prices", "prices.json", "--concurrency", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(line, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: out.exists() and len(out.read_bytes().splitlines()) > 3, 60, process)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    kept = out.read_bytes().rpartition(b"\n")[0]
    assert 3 <= kept.count(b"\n") < 14
    done = score()
    assert done.returncode == 0, done.stderr
    assert found(out) == EXPECTED and out.read_bytes().startswith(kept)
    assert len(citing.requests) <= 30 + 2  # what was under way


def test_lost_and_unreadable_replies_are_failures_and_are_asked_for_again(
    score: Run, citing: ScriptedJudge, tmp_path: Path
) -> None:
    citing.faults = ["ok", "refusal", {"status": 400}, "length", "fenced"]
    assert score("--limit", 5).returncode == 0
    statuses = [status for row in read_jsonl(tmp_path / "o.jsonl") for status in row["statuses"]]
    assert sum(status.startswith("failed: ") for status in statuses) == 3
    done = score()
    assert done.returncode == 0 and found(tmp_path / "o.jsonl") == EXPECTED, done.stderr
    assert "retrying " in done.stderr


def test_an_edited_file_is_not_mixed_with_old_rows(score: Run, citing: ScriptedJudge, tmp_path: Path) -> None:
    assert score("--limit", 2).returncode == 0
    path, asked = tmp_path / "cites_source.yaml", len(citing.requests)
    path.write_text(f"# a comment\n{path.read_text()}")
    assert score("--limit", 2).returncode == 0
    path.write_text(path.read_text().replace("at least one source", "at least two sources"))
    refused = score("--limit", 2)
    assert refused.returncode == 2 and "was made with a different prompt_hash; choose another --out" in refused.stderr
    assert len(citing.requests) == asked


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: [", "cites_source.yaml: cannot be read as YAML: while parsing a flow node"),
        ("purpose: x", "cites_source.yaml: inputs: must be a list of what the judge sees"),
    ],
)
def test_a_bad_file_is_one_line_before_any_call(
    score: Run, citing: ScriptedJudge, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "cites_source.yaml").write_text(text)
    refused = score()
    assert refused.returncode == 2 and refused.stderr.startswith(f"error: {said}") and refused.stderr.count("\n") == 1
    assert not citing.requests and not (tmp_path / "o.jsonl").exists()


def test_a_text_to_judge_by_must_be_there_only_if_a_scorer_needs_it(score: Run, citing: ScriptedJudge) -> None:
    refused = score("--scorers", "rag_zeval")  # the file has questions and answers alone
    assert refused.returncode == 2 and "no column found for the retrieved contexts" in refused.stderr
    refused = score("--against", "truth")
    assert refused.returncode == 2 and "no column found for the ground truth" in refused.stderr
    assert not citing.requests


def test_no_output_replaces_the_criteria_file(score: Run, tmp_path: Path) -> None:
    refused = score("--csv", "cites_source.yaml")
    assert refused.returncode == 2 and "--csv cites_source.yaml is the same file as INPUT" in refused.stderr
    assert (tmp_path / "cites_source.yaml").read_bytes() == CITES.read_bytes()


def test_every_command_of_the_page_runs_and_its_file_is_the_one_that_it_shows(
    run: Run, literal_judge: ScriptedJudge, tmp_path: Path
) -> None:
    text = PAGE.read_text()
    assert re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL) == [CITES.read_text()]
    shutil.copytree(CITES.parent, tmp_path / "docs" / "example")
    commands = re.findall(r"^    rag-zeval (evaluate .*?)(?:\s+#.*)?$", text, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        done = run(*shlex.split(command.replace("http://127.0.0.1:8001/v1", literal_judge.url)))
        assert done.returncode == 0 and re.search(r"cites_source +│", done.stdout), done.stderr
    assert re.search(r"relevance +│ old", done.stdout) and "rag_zeval" not in done.stdout
    assert (tmp_path / "report.html").exists() and (tmp_path / "scores.csv").exists()
    [block] = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"judge": literal_judge.spec()}
    exec(compile(block, PAGE, "exec"), names)
    assert {one.metric for one in names["results"]} == {"cites_source", "relevance"}
