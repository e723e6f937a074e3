"""Runs of several scorers on one's own files: columns, sources of truth, costs before and after; the same in Python."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_zeval import Evaluator, evaluate, open_backend
from rag_zeval.errors import InputError
from rag_zeval.files import read_jsonl
from rag_zeval.literal_judge import count_tokens, literal_reply
from rag_zeval.results import SPENT
from rag_zeval.scripted_judge import ScriptedJudge

Run = Callable[..., Any]
FAMILIES = "rag_zeval,bleu,is_correct,ragchecker_precision,ragchecker_recall,umbrela,trulens_groundedness"
PRICES = '{"judge": {"prompt": 1000, "completion": 2000}}'


def rows(count: int = 12) -> list[dict[str, Any]]:
    """Answers of two sentences: of every third one both stand in the context, of the others one; truth has both."""
    return [
        {
            "id": f"r{n}",
            "question": f"What of {n}?",
            "answer": f"Ann has {n} cats. Bob has {n} dogs.",
            "contexts": [f"Ann has {n} cats.", f"Bob has {n if n % 3 == 0 else 'no'} dogs."],
            "truth": f"Ann has {n} cats. Bob has {n} dogs.",
            "slice_tag": "thirds" if n % 3 == 0 else "others",
        }
        for n in range(count)
    ]


@pytest.fixture
def letter(scripted_judge: ScriptedJudge) -> ScriptedJudge:
    scripted_judge.replies, scripted_judge.count = literal_reply, count_tokens
    return scripted_judge


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    path = tmp_path / "new.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    return path


def scores(path: Path) -> dict[tuple[str, str], list[float | None]]:
    return {(row["metric"], row["case"]): row["scores"] for row in read_jsonl(path) if row["id"] != SPENT}


def test_many_scorers_on_one_file_each_with_its_sources(run: Run, letter: Any, answers: Path, tmp_path: Path) -> None:
    done = run("evaluate", answers, "--model", letter.spec(), "--scorers", FAMILIES, "--against", "both", "--out", "o")
    assert done.returncode == 0, done.stderr
    found = scores(tmp_path / "o")
    metrics = list(dict.fromkeys(metric for metric, _ in found))
    assert {
        "rag_zeval@contexts", "rag_zeval@truth", "bleu@contexts", "bleu@truth", "is_correct", "ragchecker_precision",
        "ragchecker_recall", "umbrela", "trulens_groundedness@contexts", "trulens_groundedness@truth",
    } == {*metrics}  # fmt: skip
    assert [found["rag_zeval@contexts", f"r{n}"] for n in range(3)] == [[1.0], [0.5], [0.5]]
    assert all(found["rag_zeval@truth", f"r{n}"] == [1.0] for n in range(12))
    assert "thirds" in done.stdout and done.stdout.index("others") < done.stdout.index("thirds")  # the worst first
    requests = len(letter.requests)
    assert run("evaluate", answers, "--model", letter.spec(), "--scorers", FAMILIES, "--against", "both", "--out", "o")
    assert len(letter.requests) == requests


def test_files_are_systems_and_share_questions(run: Run, letter: Any, answers: Path, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text(answers.read_text().replace("Ann has", "Eve has", 1))
    done = run("evaluate", answers, "old.jsonl", "--model", letter.spec(), "--against", "truth", "--out", "o")
    assert done.returncode == 0, done.stderr
    assert {(row["systems"][0], row["case"]) for row in read_jsonl(tmp_path / "o")} == {
        (system, f"r{n}") for system in ("new", "old") for n in range(12)
    }
    lines = [line for line in done.stdout.splitlines() if "rag_zeval@truth" in line]
    assert "new" in lines[0] and "1.000 " in lines[0] and "old" in lines[1] and "0.958 " in lines[1]


def test_a_dry_run_asks_nothing_and_tells_the_calls_that_a_run_then_makes(
    run: Run, letter: Any, answers: Path, tmp_path: Path
) -> None:
    (tmp_path / "prices.json").write_text(PRICES)
    options = ["--model", letter.spec(), "--scorers", FAMILIES, "--against", "contexts", "--prices", "prices.json"]
    told = run("evaluate", answers, *options, "--dry-run")
    assert told.returncode == 0 and not letter.requests and not list(tmp_path.glob("*.results.jsonl"))
    calls = sum(int(line.split("│")[3].replace(",", "")) for line in told.stdout.splitlines() if "│" in line)
    assert run("evaluate", answers, *options).returncode == 0
    assert len(letter.requests) == calls > 12


def test_a_limit_stops_the_run_and_a_larger_one_goes_on(run: Run, letter: Any, answers: Path, tmp_path: Path) -> None:
    """What servers may do to a limit is in tests/hostile/money.py."""
    (tmp_path / "prices.json").write_text(PRICES)
    options = ["--model", letter.spec(), "--scorers", "rag_zeval,bleu", "--prices", "prices.json", "--out", "o"]
    stopped = run("evaluate", answers, *options, "--max-cost", 1)
    asked = len(letter.requests)
    assert stopped.returncode == 1 and 0 < asked < 12
    assert f"stopped at --max-cost 1.0: {12 - asked} rows are not judged" in stopped.stderr
    assert re.search(rf"rows not judged +│ {12 - asked} ", stopped.stdout)
    kept = (tmp_path / "o").read_text()
    assert len(kept.splitlines()) == asked + 12  # what costs nothing is done
    again = run("evaluate", answers, *options, "--max-cost", 1)
    assert again.returncode == 1 and len(letter.requests) == asked and (tmp_path / "o").read_text() == kept
    assert run("evaluate", answers, *options, "--max-cost", 100).returncode == 0 and len(letter.requests) == 12


def test_failed_rows_are_kept_where_there_is_no_money_to_try_them_again(
    run: Run, letter: Any, answers: Path, tmp_path: Path
) -> None:
    (tmp_path / "prices.json").write_text(PRICES)
    letter.replies = "I cannot judge this."
    options = ["--model", letter.spec(), "--limit", 2, "--prices", "prices.json", "--out", "o", "--cache", "c"]
    failed = run("evaluate", answers, *options, "--max-cost", 100)
    kept = (tmp_path / "o").read_text()
    assert failed.returncode == 1 and "stopped" not in failed.stderr and len(letter.requests) == 2
    stopped = run("evaluate", answers, *options, "--max-cost", 0.001)
    assert stopped.returncode == 1 and "2 rows are not judged" in stopped.stderr
    assert (tmp_path / "o").read_text() == kept and len(letter.requests) == 2


def test_replies_from_the_cache_cost_nothing(run: Run, letter: Any, answers: Path, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text(PRICES)
    options = ["--model", letter.spec(), "--prices", "prices.json", "--cache", "c"]
    assert run("evaluate", answers, *options, "--out", "first").returncode == 0
    done = run("evaluate", answers, *options, "--out", "second", "--max-cost", 0.001)
    assert done.returncode == 0 and "dollars" in done.stdout and "0.0000" in done.stdout and len(letter.requests) == 12


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--max-cost", "nan"], "--max-cost is nan, but must be more than 0 dollars"),
        (["--max-cost", "inf"], "--max-cost is inf, but must be more than 0 dollars"),
        (["--max-cost", "-1"], "--max-cost is -1.0, but must be more than 0 dollars"),
        (["--max-cost", "0"], "--max-cost is 0.0, but must be more than 0 dollars"),
        (["--max-cost", "1", "--prices", "others.json"], "--max-cost needs the price of openai:judge@"),
        (
            ["--max-cost", "1", "--prices", "prices.json", "--model", "folder"],
            "--max-cost works for endpoints only, and folder is not one",
        ),
    ],
)
def test_a_limit_that_could_not_be_kept_is_refused(
    run: Run, letter: Any, answers: Path, tmp_path: Path, options: list[str], line: str
) -> None:
    (tmp_path / "prices.json").write_text(PRICES.replace("}}", '}, "folder": {"prompt": 1, "completion": 1}}'))
    (tmp_path / "others.json").write_text("{}")
    refused = run("evaluate", answers, "--model", letter.spec(), "--prices", "prices.json", *options)
    assert refused.returncode == 2 and refused.stderr.startswith(f"error: {line}") and not letter.requests
    assert refused.stderr.count("\n") == 1


def test_a_sample_is_always_the_same_and_a_limit_is_the_first(run: Run, letter: Any, answers: Path) -> None:
    for name in ("a", "b"):
        assert run("evaluate", answers, "--model", letter.spec(), "--sample", 5, "--out", name).returncode == 0
    drawn = [set(scores(answers.parent / name)) for name in ("a", "b")]
    assert drawn[0] == drawn[1] and len(drawn[0]) == 5
    assert run("evaluate", answers, "--model", letter.spec(), "--limit", 2, "--out", "c").returncode == 0
    assert {case for _, case in scores(answers.parent / "c")} == {"r0", "r1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scorers", "blue"], "--scorers: unknown scorer 'blue' (did you mean 'bleu'?)"),
        (["--scorers", "embedding_similarity"], "embeds texts: add --embeddings"),
        (["--scorers", "hhem"], "add --claim-checker"),
        (["--scorers", "checked_claims", "--claim-checker", "x"], "name both in --scorers"),
        (["--scorers", "bert_score"], "add --bert-score"),
        (["--against", "reference"], "--against reference: no case has any reference"),
        (["--map", "question"], "--map question: write field=column, such as question=q"),
    ],
)
def test_what_cannot_be_scored_is_said_before_anything_is_asked(
    run: Run, letter: Any, answers: Path, options: list[str], message: str
) -> None:
    refused = run("evaluate", answers, "--model", letter.spec(), *options)
    assert refused.returncode == 2 and message in refused.stderr and not letter.requests


def test_a_case_without_what_a_metric_needs_has_a_status(run: Run, letter: Any, answers: Path, tmp_path: Path) -> None:
    with open(answers, "a") as file:
        file.write(json.dumps({"id": "bare", "question": "q", "answer": "a", "contexts": ["c"]}) + "\n")
    options = ["--scorers", "rag_zeval,ragchecker_recall", "--against", "both", "--out", "o"]
    assert run("evaluate", answers, "--model", letter.spec(), *options).returncode == 0
    statuses = {row["metric"]: row["status"] for row in read_jsonl(tmp_path / "o") if row["case"] == "bare"}
    assert statuses["rag_zeval@truth"] == statuses["ragchecker_recall"] == "failed: no ground truth"
    assert statuses["rag_zeval@contexts"] == "ok"


def test_python_gives_what_the_command_gives(run: Run, letter: Any, answers: Path, tmp_path: Path) -> None:
    assert (
        run("evaluate", answers, "--model", letter.spec(), "--scorers", "rag_zeval,bleu", "--out", "o").returncode == 0
    )
    results = evaluate(rows(), scorers=["rag_zeval", "bleu"], model=letter.spec())
    assert [(one.metric, one.case) for one in results] == [
        (metric, f"r{n}") for metric in ("rag_zeval@contexts", "bleu@contexts") for n in range(12)
    ]
    assert {(one.metric, one.case): [one.score] for one in results} == scores(tmp_path / "o")
    frame = results.to_pandas()
    assert list(frame.case[:12]) == [f"r{n}" for n in range(12)] and frame.score.notna().all()
    assert results.summary.columns[0].mean == pytest.approx(frame.score[:12].mean())
    with pytest.raises(InputError, match="unknown scorer 'blue'"):
        evaluate(rows(), scorers=["blue"])


def test_a_run_with_a_cache_works_inside_a_running_loop(letter: Any, tmp_path: Path) -> None:
    async def notebook() -> list[float | None]:
        results = evaluate(rows(3), model=letter.spec(), cache=tmp_path / "replies.sqlite")
        return [one.score for one in results]

    assert asyncio.run(notebook()) == asyncio.run(notebook()) == [1.0, 0.5, 0.5]
    assert len(letter.requests) == 3


def test_evaluations_may_be_awaited_side_by_side(letter: Any) -> None:
    judge = Evaluator(open_backend(letter.spec()))

    async def both() -> list[Any]:
        right = judge.aevaluate("q", "Ann has cats.", ["Ann has cats."])
        return await asyncio.gather(right, judge.aevaluate("q", "Ann has cats.", ["Bob has cats.", "Ann has cats."]))

    assert [evaluation.scores for evaluation in asyncio.run(both())] == [[1.0], [0.0, 1.0]]
