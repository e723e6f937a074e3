"""Runs of several scorers on one's own files: columns, sources of truth, costs before and after; the same in Python.

Then cases that lack an answer, or what to judge it by: no score, no call, no second try; and what rows keep of a case.
"""

import gc
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judge_by_prompt import CheckerStub

from rag_zeval import evaluate
from rag_zeval.cases.case import Case, CaseSet, edited
from rag_zeval.cases.reading import read_cases
from rag_zeval.errors import InputError
from rag_zeval.evaluation.metrics import Judges, check_needs
from rag_zeval.evaluation.run import EvaluationRun, plan_run, score
from rag_zeval.files import Row, read_jsonl
from rag_zeval.literal_judge import literal_reply, read_prompt
from rag_zeval.results import SPENT, over_trials, read_judged
from rag_zeval.scorers.registry import NEEDS, SCORERS
from rag_zeval.scoring.row_loop import _COLLECTOR, COLLECT_LESS
from rag_zeval.scoring.spending import Spending
from rag_zeval.scripted_judge import ScriptedJudge

Run = Callable[..., Any]
FAMILIES = "rag_zeval,bleu,is_correct,ragchecker_precision,ragchecker_recall,umbrela,trulens_groundedness"
BOTH = "Ann has cats. Bob has dogs."
CONTEXTS = ("Ann has cats.", "Eve has owls.")
SLOW = "no answer: HTTP 429: slow down"
BY_ANSWER = ["rag_zeval", "rouge_l", "bleu", "word_rule", "is_correct", "ragas_faithfulness", "answered"]


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
def answers(tmp_path: Path) -> Path:
    """A file of answers, with a price list beside it."""
    (tmp_path / "prices.json").write_text('{"judge": {"prompt": 1000, "completion": 2000}}')
    path = tmp_path / "new.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    return path


@pytest.fixture
def judge_answers(run: Run, literal_judge: ScriptedJudge, answers: Path) -> Run:
    """Runs `evaluate` on the file of answers, by a judge that supports exact sentences."""
    return lambda *more: run("evaluate", answers, "--model", literal_judge.spec(), *more)


def scores(path: Path) -> dict[tuple[str, str], list[float | None]]:
    return {(row["metric"], row["case"]): row["scores"] for row in read_jsonl(path) if row["id"] != SPENT}


def test_many_scorers_on_one_file_each_with_its_sources(judge_answers: Run, literal_judge: Any, tmp_path: Path) -> None:
    done = judge_answers("--scorers", FAMILIES, "--against", "both", "--out", "o")
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
    requests = len(literal_judge.requests)
    again = judge_answers("--scorers", FAMILIES, "--against", "both", "--out", "o")
    assert again.returncode == 0 and len(literal_judge.requests) == requests


def test_files_are_systems_and_share_questions(judge_answers: Run, answers: Path, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text(answers.read_text().replace("Ann has", "Eve has", 1))
    done = judge_answers("old.jsonl", "--against", "truth", "--out", "o")
    assert done.returncode == 0, done.stderr
    assert {(row["systems"][0], row["case"]) for row in read_jsonl(tmp_path / "o")} == {
        (system, f"r{n}") for system in ("new", "old") for n in range(12)
    }
    assert "warning" not in done.stderr
    lines = [line for line in done.stdout.splitlines() if "rag_zeval@truth" in line]
    assert "new" in lines[0] and "1.000 " in lines[0] and "old" in lines[1] and "0.958 " in lines[1]


def test_ids_with_different_questions_in_two_files_are_told(judge_answers: Run, answers: Path, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text(answers.read_text().replace("What of 1", "Who of 1"))
    done = judge_answers("old.jsonl", "--dry-run")
    assert "warning: 3 ids have different questions in different files, such as 'r1'" in done.stderr


def test_a_dry_run_asks_nothing_and_tells_the_calls_that_a_run_then_makes(
    judge_answers: Run, literal_judge: Any, tmp_path: Path
) -> None:
    options = ["--scorers", FAMILIES, "--against", "contexts", "--prices", "prices.json"]
    told = judge_answers(*options, "--dry-run")
    assert told.returncode == 0 and not literal_judge.requests and not list(tmp_path.glob("*.results.jsonl"))
    calls = sum(int(line.split("│")[3].replace(",", "")) for line in told.stdout.splitlines() if "│" in line)
    assert judge_answers(*options).returncode == 0
    assert len(literal_judge.requests) == calls > 12


def test_a_limit_stops_the_run_and_a_larger_one_goes_on(judge_answers: Run, literal_judge: Any, tmp_path: Path) -> None:
    """What servers may do to a limit is in tests/hostile/money.py."""
    options = ["--scorers", "rag_zeval,bleu", "--prices", "prices.json", "--out", "o"]
    stopped = judge_answers(*options, "--max-cost", 0.1, "--csv", "scores.csv", "--html", "page.html")
    asked = len(literal_judge.requests)
    assert stopped.returncode == 1 and 0 < asked < 12
    assert f"stopped at --max-cost 0.1: {12 - asked} rows are not judged" in stopped.stderr
    assert re.search(rf"rows not judged +│ {12 - asked} ", stopped.stdout)
    assert f"{asked} of 12 ({asked / 12:.1%})" in stopped.stdout  # and so in what this run writes, but for its rows
    assert all(
        (tmp_path / name).read_text().count("the budget is spent") >= 12 - asked for name in ("scores.csv", "page.html")
    )
    kept = (tmp_path / "o").read_text()
    assert len(kept.splitlines()) == asked + 12  # what costs nothing is done
    again = judge_answers(*options, "--max-cost", 0.1)
    assert again.returncode == 1 and len(literal_judge.requests) == asked and (tmp_path / "o").read_text() == kept
    assert judge_answers(*options, "--max-cost", 100).returncode == 0 and len(literal_judge.requests) == 12


def test_each_row_is_priced_by_the_judge_that_was_paid_for_it(
    run: Run, literal_judge: ScriptedJudge, answers: Path
) -> None:
    """Two judges may write one file, a scorer each. A failed row is taken out, and its costs are kept."""
    literal_judge.replies = "I cannot judge this."
    dear, cheap = literal_judge.spec("dear"), literal_judge.spec("cheap")
    prices = {"dear": {"prompt": 1e6, "completion": 0}, "cheap": {"prompt": 1, "completion": 0}}
    answers.with_name("prices.json").write_text(json.dumps(prices))
    answers.with_name("cheap.json").write_text(json.dumps({"cheap": prices["cheap"]}))
    begin = ["evaluate", answers, "--out", "o", "--limit"]
    run(*begin, 1, "--model", dear)
    literal_judge.replies = literal_reply
    unlisted = run(*begin, 1, "--model", dear, "--prices", "cheap.json")
    assert f"note: cheap.json has no price for {dear}" in unlisted.stderr and "dollars" not in unlisted.stdout
    assert len(literal_judge.requests) == 3
    options = ["--model", cheap, "--scorers", "is_correct", "--prices"]
    done = run(*begin, 2, *options, "prices.json")
    assert re.search(r"calls +│ 5 \(3 in earlier runs\)", done.stdout)
    dollars = 3 * 7  # the server says that each prompt has 7 tokens
    assert re.search(rf"dollars +│ {dollars}\.0000 \({dollars}\.0000 in earlier runs\)", done.stdout)
    requests = len(literal_judge.requests)
    unknown = run(*begin, 2, *options, "cheap.json")
    assert "dollars" in unknown.stdout and "at least 0.0" in unknown.stdout and "tokens of dear" in unknown.stdout
    refused = run(*begin, 2, *options, "cheap.json", "--max-cost", 1)
    assert refused.returncode == 2 and "--prices has no price for dear, which judged some" in refused.stderr
    stopped = run(*begin, 3, *options, "prices.json", "--max-cost", 1)
    assert stopped.returncode == 1 and "stopped at --max-cost 1.0: 1 row is not judged" in stopped.stderr
    assert len(literal_judge.requests) == requests


def test_failed_rows_are_kept_where_there_is_no_money_to_try_them_again(
    judge_answers: Run, literal_judge: Any, tmp_path: Path
) -> None:
    literal_judge.replies = "I cannot judge this."
    options = ["--limit", 2, "--prices", "prices.json", "--out", "o", "--cache", "c"]
    failed = judge_answers(*options, "--max-cost", 100)
    kept = (tmp_path / "o").read_text()
    assert failed.returncode == 1 and "stopped" not in failed.stderr and len(literal_judge.requests) == 2
    stopped = judge_answers(*options, "--max-cost", 0.001)
    assert stopped.returncode == 1 and "2 rows are not judged" in stopped.stderr
    assert (tmp_path / "o").read_text() == kept and len(literal_judge.requests) == 2


def test_replies_from_the_cache_cost_nothing(judge_answers: Run, literal_judge: Any) -> None:
    options = ["--prices", "prices.json", "--cache", "c"]
    assert judge_answers(*options, "--out", "first").returncode == 0
    done = judge_answers(*options, "--out", "second", "--max-cost", 0.001)
    assert done.returncode == 0 and len(literal_judge.requests) == 12
    assert "dollars" in done.stdout and "0.0000" in done.stdout


def test_a_sample_is_always_the_same_and_a_limit_is_the_first(judge_answers: Run, answers: Path) -> None:
    for name in ("a", "b"):
        assert judge_answers("--sample", 5, "--out", name).returncode == 0
    drawn = [set(scores(answers.parent / name)) for name in ("a", "b")]
    assert drawn[0] == drawn[1] and len(drawn[0]) == 5
    assert judge_answers("--limit", 2, "--out", "c").returncode == 0
    assert {case for _, case in scores(answers.parent / "c")} == {"r0", "r1"}


def test_a_sample_is_drawn_within_slices_and_stays_when_the_set_grows() -> None:
    def drawn(sizes: dict[str, int], sample: int) -> set[tuple[str, str | None]]:
        table = [
            {**rows(1)[0], "id": f"{tag}{at}", "slice_tag": tag} for tag, size in sizes.items() for at in range(size)
        ]
        untagged = [{**row, "slice_tag": None, "answer": "Else."} for row in table[::-1]]
        files = [read_cases(table, system="old"), read_cases(untagged, system="new")]
        cases = plan_run(files, ["bleu"], "truth", Judges(), sample=sample).cases.cases
        first, second = (sorted(one.id for one in cases if name in one.answers) for name in ("old", "new"))
        assert first == second  # of every system the same
        return {(one.id, one.slice_tag) for one in cases if "old" in one.answers}

    before = drawn({"a": 100, "b": 20, "c": 1}, 24)
    assert Counter(tag for _, tag in before) == {"a": 19, "b": 4, "c": 1}
    after = drawn({"a": 101, "b": 20, "c": 1}, 24)
    assert len(before - after) <= 1
    assert len(drawn({"a": 9, "b": 9, "c": 9}, 2)) == 2  # fewer than slices


def test_a_row_keeps_what_comparisons_and_gates_need_of_its_case() -> None:
    more = {"cost_usd": "0.25", "latency_s": 2, "context_ids": ["a", 7], "gold_chunk_ids": ["7"]}
    [plain], [full] = (evaluate([{**rows(1)[0], **one}], scorers="bleu", against="truth") for one in ({}, more))
    assert (full.cost_usd, full.latency_s, full.retrieved, full.gold_chunk_ids) == (0.25, 2.0, ("a", "7"), ("7",))
    assert (plain.cost_usd, plain.retrieved, plain.gold_chunk_ids) == (None, (), ())
    assert edited(plain.golden, full.golden) == [] and set(full.golden) - set(plain.golden) == {"gold_chunk_ids"}
    [other] = evaluate([{**rows(1)[0], "truth": "Else."}], scorers="bleu", against="truth")
    assert edited(full.golden, other.golden) == ["truth"]


def test_a_server_that_fails_between_two_steps_costs_no_cached_reply(literal_judge: Any, tmp_path: Path) -> None:
    def judged() -> list[str]:
        options = {"scorers": "ragas_faithfulness", "out": tmp_path / "o", "cache": tmp_path / "c"}
        return [one.status for one in evaluate(rows(8), model=literal_judge.spec(), **options)]

    numbers, good = itertools.count(1), []

    def until_the_eighth(body: Any) -> Any:
        if next(numbers) > 8:
            return {"status": 400}
        good.append(body["messages"])
        return literal_reply(body)

    literal_judge.replies = until_the_eighth
    assert sum("HTTP 400" in status for status in judged()) > 4
    literal_judge.replies, literal_judge.requests = literal_reply, []
    assert judged() == ["ok"] * 8
    assert not [body for body in literal_judge.requests if body["messages"] in good]


def test_rows_follow_what_the_input_says_by_now_without_another_call(
    judge_answers: Run, literal_judge: Any, answers: Path, tmp_path: Path
) -> None:
    options = ["--scorers", "rag_zeval,bleu,umbrela", "--out"]
    assert judge_answers(*options, "o").returncode == 0
    edited_rows = [
        {
            **one, "slice_tag": None if at else "rare", "latency_s": at / 2, "cost_usd": at, "context_ids": ["x", "y"],
            "gold_chunk_ids": ["y"], "system": "renamed",
        }
        for at, one in enumerate(rows())
    ]  # fmt: skip
    answers.write_text("".join(json.dumps(one) + "\n" for one in edited_rows))
    requests = len(literal_judge.requests)
    resumed, again = judge_answers(*options, "o"), judge_answers(*options, "o")
    assert resumed.returncode == 0 and len(literal_judge.requests) == requests
    assert "updating 36 rows: their input has other" in resumed.stderr and "updating" not in again.stderr
    assert judge_answers(*options, "fresh").returncode == 0
    found, fresh = (
        {row["id"]: {**row, "seconds": 0.0} for row in read_jsonl(tmp_path / name)} for name in ("o", "fresh")
    )
    assert found == fresh
    assert "rare" in resumed.stdout and "renamed" in resumed.stdout


def test_python_gives_what_the_command_gives(
    judge_answers: Run, literal_judge: Any, answers: Path, tmp_path: Path
) -> None:
    done = judge_answers("--scorers", "rag_zeval,bleu", "--out", "o")
    assert done.returncode == 0, done.stderr
    [heads] = [line for line in done.stdout.splitlines() if "slice" in line]
    assert "metric" in heads and "system" not in heads  # there is only one system
    results = evaluate(rows(), scorers=["rag_zeval", "bleu"], model=literal_judge.spec())
    assert [(one.metric, one.case) for one in results] == [
        (metric, f"r{n}") for metric in ("rag_zeval@contexts", "bleu@contexts") for n in range(12)
    ]
    assert {(one.metric, one.case): [one.score] for one in results} == scores(tmp_path / "o")
    frame = results.to_pandas()
    assert list(frame.case[:12]) == [f"r{n}" for n in range(12)] and frame.score.notna().all()
    assert results.summary.columns[0].mean == pytest.approx(frame.score[:12].mean())
    head, *means = repr(results).splitlines()  # what a notebook shows
    assert head.startswith("24 results")
    assert [line.split(",")[0] for line in means] == ["rag_zeval@contexts", "bleu@contexts"]
    assert f"mean {frame.score[:12].mean():.3f}," in means[0] and means[0].endswith("12 of 12 scored")


def case(id_: str, *answers: str, **more: Any) -> Case:
    return Case(
        id_, f"Who has what, {id_}?", dict(zip("abc", answers, strict=False)), CONTEXTS, **{"truth": BOTH, **more}
    )


@pytest.fixture
def judge(literal_judge: ScriptedJudge, tmp_path: Path) -> Callable[..., dict[tuple[str, str], Row]]:
    """The rows of these cases by metric and case; the same call goes on with the file that is there."""

    def judge(cases: list[Case], scorers: list[str], *sources: str, file: str = "o") -> dict[tuple[str, str], Row]:
        case_set = CaseSet(cases)
        ids = {one.id for one in cases}
        run = EvaluationRun(case_set, ids, scorers, sources or ["contexts"], Judges(literal_judge.spec()))
        with score(run, tmp_path / file, tmp_path / "c", Spending()):
            pass
        return {(row["metric"], row["case"]): row for row in read_jsonl(tmp_path / file) if row["id"] != SPENT}

    return judge


def test_an_answer_that_is_none_costs_nothing_and_the_others_are_judged_together(
    judge: Any, literal_judge: Any
) -> None:
    cases = [
        case("some", BOTH, "", "Ann has cats.", unanswered={"b": SLOW}),
        case("blank", "\u200b", " ", "Ann has cats.", unanswered={"a": "no answer", "b": "no answer"}),
        case("none", "", "", unanswered={"a": "no answer", "b": SLOW}),
    ]
    rows = judge(cases, BY_ANSWER)
    for metric in {metric for metric, _ in rows}:
        some, blank, none = (rows[metric, one.id] for one in cases)
        assert some["systems"] == ["a", "b", "c"] and some["answers"] == [BOTH, "", "Ann has cats."]
        assert (some["scores"][1], some["statuses"]) == (None, ["ok", f"failed: {SLOW}", "ok"])
        assert None not in (some["scores"][0], some["scores"][2])
        assert blank["statuses"] == ["failed: no answer", "failed: no answer", "ok"]
        assert (none["scores"], none["statuses"]) == ([None, None], ["failed: no answer", f"failed: {SLOW}"])
        assert (none["calls"], none["trajectory"]) == (0, None)
    shown = [read_prompt(asked["messages"][0]["content"]) for asked in literal_judge.requests]
    asked = [inputs["candidates"] for prompt, inputs in shown if "candidates" in inputs]
    assert sorted(map(len, asked)) == [1, 2]  # jointly, and without those
    (first, missing, third) = rows["rag_zeval@contexts", "some"]["trajectory"]
    assert missing is None and len(first["atomic_claims"]) == 2 and len(third["atomic_claims"]) == 1
    assert rows["rag_zeval@contexts", "some"]["scores"] == [0.5, None, 1.0]


def test_what_can_have_no_score_is_not_tried_again(judge: Any, literal_judge: Any, tmp_path: Path, capsys: Any) -> None:
    cases = [
        case("some", BOTH, "", unanswered={"b": SLOW}),
        case("none", "", ""),
        case("no truth", BOTH, BOTH, truth="\u200b"),
        replace(case("no contexts", BOTH, BOTH), contexts=(" ",)),
    ]
    rows = judge(cases, BY_ANSWER, "contexts", "truth")
    assert rows["rag_zeval@truth", "no truth"]["status"] == rows["is_correct", "no truth"]["status"]
    assert rows["is_correct", "no truth"]["status"] == "failed: no ground truth"
    assert rows["rag_zeval@contexts", "no truth"]["status"] == "ok"
    asked, kept = len(literal_judge.requests), (tmp_path / "o").read_bytes()
    judge(cases, BY_ANSWER, "contexts", "truth")
    assert (len(literal_judge.requests), (tmp_path / "o").read_bytes()) == (asked, kept)
    assert "retrying" not in capsys.readouterr().err


def test_a_failed_answer_beside_one_that_is_none_is_tried_again(judge: Any, literal_judge: Any, capsys: Any) -> None:
    cases = [case("some", BOTH, "", unanswered={"b": SLOW})]
    literal_judge.replies = "I cannot judge this."
    assert judge(cases, ["rag_zeval", "is_correct"])["is_correct", "some"]["scores"] == [None, None]
    literal_judge.replies = literal_reply
    rows = judge(cases, ["rag_zeval", "is_correct"])
    assert "retrying 2 failed rows" in capsys.readouterr().err
    found = [rows[metric, "some"]["statuses"] for metric in ("rag_zeval@contexts", "is_correct")]
    assert found == [["ok", f"failed: {SLOW}"]] * 2


def test_the_garbage_collector_runs_less_often_while_rows_are_scored(judge: Any, literal_judge: Any) -> None:
    usual, meanwhile = gc.get_threshold(), set[tuple[int, ...]]()
    literal_judge.replies = lambda body: meanwhile.add(gc.get_threshold()) or literal_reply(body)
    judge([case("x", BOTH)], ["rag_zeval"])
    with _COLLECTOR.less_often():  # as of a run in another thread
        with _COLLECTOR.less_often():
            pass
        assert gc.get_threshold() != usual
    assert meanwhile == {(COLLECT_LESS * usual[0], *usual[1:])} and gc.get_threshold() == usual


def test_an_answer_that_has_come_is_judged_and_no_other_again(judge: Any, literal_judge: Any) -> None:
    none = {"a": "no answer", "b": SLOW}
    before = [case("come", "", "", unanswered=none), case("still", "", unanswered={"a": SLOW}), case("there", BOTH)]
    now = [case("come", BOTH, "Bob has dogs."), case("still", "", unanswered={"a": "no answer"}), case("there", BOTH)]
    judge(before, ["rag_zeval", "rouge_l"])
    first = len(literal_judge.requests)
    resumed = judge(now, ["rag_zeval", "rouge_l"])
    assert (first, len(literal_judge.requests) - first) == (1, 1)
    fresh = judge(now, ["rag_zeval", "rouge_l"], file="fresh")
    same = ("input_sha256", "answers", "scores", "statuses", "trajectory")  # its calls are cache hits
    assert all(resumed[place][field] == row[field] for place, row in fresh.items() for field in same)


@pytest.mark.parametrize(
    "changed",
    [
        case("x", BOTH, "Bob has dogs."),  # the answer has come
        case("x", BOTH, "", unanswered={"b": "no answer: timeout"}),
        case("x", BOTH, "", unanswered={"b": SLOW}, truth="Another."),
        replace(case("x", BOTH, "", unanswered={"b": SLOW}), contexts=("Another.",)),
    ],
)
def test_another_input_is_noticed(judge: Any, changed: Case) -> None:
    judge([case("x", BOTH, "", unanswered={"b": SLOW})], ["rouge_l"])
    with pytest.raises(
        InputError, match=r"row 'x\|rouge_l@contexts' was made with a different question, answer or reference"
    ):
        judge([changed], ["rouge_l"])


@pytest.mark.parametrize(("first", "then"), [("old", "old new"), ("old new", "old"), ("old new", "new")])
def test_a_file_of_other_inputs_gets_no_score_twice(
    run: Run, literal_judge: Any, answers: Path, first: str, then: str
) -> None:
    for name in ("old", "new"):
        (answers.parent / f"{name}.jsonl").write_text(answers.read_text().replace("Ann has", f"{name} has", 1))
    words = ["--model", literal_judge.spec(), "--out", "o"]
    assert run("evaluate", *(f"{name}.jsonl" for name in first.split()), *words).returncode == 0
    asked, kept = len(literal_judge.requests), (answers.parent / "o").read_bytes()
    refused = run("evaluate", *(f"{name}.jsonl" for name in then.split()), *words)
    told = "scores an answer of this run, but its run had other input files; choose another --out"
    assert refused.returncode == 2 and told in refused.stderr
    assert (len(literal_judge.requests), (answers.parent / "o").read_bytes()) == (asked, kept)


def test_checked_claims_follow_the_judge_and_keep_to_their_checker(
    judge: Any, literal_judge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked_by(identity: str) -> None:
        checker = CheckerStub(lambda premise, claim: float(claim.rstrip(".") in premise))
        checker.identity = identity
        monkeypatch.setattr("rag_zeval.evaluation.metrics.open_checker", lambda *_: checker)

    checked_by("one")
    cases, scorers, metric = [case("x", BOTH), case("y", BOTH)], ["rag_zeval", "checked_claims"], "checked_claims"
    literal_judge.replies = "I cannot judge this."
    assert judge(cases[:1], scorers)[f"{metric}@contexts", "x"]["scores"] == [None]
    literal_judge.replies = literal_reply
    for now in (cases[:1], cases):  # resumed, also with more cases
        rows = judge(now, scorers)
        assert [rows[f"{metric}@contexts", one.id]["scores"] for one in now] == [[0.5]] * len(now)
    asked = len(literal_judge.requests)
    checked_by("another")
    with pytest.raises(InputError, match=r"row '.\|checked_claims@contexts' was made with a different claim checker"):
        judge([*cases, case("z", BOTH)], scorers)
    monkeypatch.undo()
    with pytest.raises(InputError, match="None: no model in this folder"):
        judge([*cases, case("z", BOTH)], scorers)
    assert len(literal_judge.requests) == asked  # before anything is paid


def test_scorers_that_use_a_claim_checker_load_it_once(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def opens(folder: str, remote_code: bool) -> CheckerStub:
        opened.append(folder)
        return CheckerStub(lambda premise, claim: float(claim.rstrip(".") in premise))

    monkeypatch.setattr("rag_zeval.evaluation.metrics.open_checker", opens)
    rows = judge([case("x", BOTH)], ["rag_zeval", "hhem", "checked_claims"])
    assert len(opened) == 1 and {"hhem", "checked_claims@contexts"} <= {metric for metric, _ in rows}


def test_a_row_keeps_what_its_score_was_made_from_by_name(judge: Any, tmp_path: Path) -> None:
    scorers = ["rag_zeval", "is_correct", "umbrela", "ragas_context_recall", "answered", "ccrs_ac"]
    rows = judge([case("x", BOTH)], scorers, "contexts", "truth")
    kept = {
        metric: {name: row[name] for name in ("reference", "reference_kind", "chunks") if name in row}
        for (metric, _), row in rows.items()
    }
    contexts, truth = "\n\n".join(CONTEXTS), {"reference": BOTH, "reference_kind": "truth"}
    assert kept == {
        "rag_zeval@contexts": {"reference": contexts, "reference_kind": "contexts"},
        "rag_zeval@truth": truth,
        "is_correct": truth,
        "umbrela": {"reference": contexts, "reference_kind": "contexts"},
        "ragas_context_recall": {**truth, "chunks": list(CONTEXTS)},
        "answered": {"reference": "", "reference_kind": None},
        "ccrs_ac": {**truth, "chunks": list(CONTEXTS)},
    }
    judged = {one.metric: one for one in read_judged(tmp_path / "o")}
    assert judged == {one.metric: one for one in over_trials(rows.values())}
    assert judged["is_correct"].sources == [("ground truth", BOTH)] and judged["answered"].sources == []
    assert judged["ragas_context_recall"].chunks == CONTEXTS
    assert judged["ragas_context_recall"].sources == [("ground truth", BOTH), ("retrieved contexts", contexts)]
    own = judge([case("x", BOTH, reference="Mine.", truth=None)], ["rouge_l", "is_correct"], "reference", file="own")
    assert {(row["reference"], row["reference_kind"]) for row in own.values()} == {("Mine.", "reference")}


@pytest.mark.parametrize("name", SCORERS)
def test_what_no_case_has_is_said_before_anything_is_asked(name: str) -> None:
    check_needs([name], CaseSet([case("1", "a"), case("2", "")]))
    needs = [need for need in NEEDS[name] if need != "answer"]
    bare = [replace(case(id_, "a"), truth=blank, contexts=(blank,) * 2) for id_, blank in (("1", ""), ("2", "\u200b"))]
    if needs:
        with pytest.raises(
            InputError, match=rf"^{name} needs the .*(ground truth|contexts|reference), which no case has"
        ):
            check_needs([name], CaseSet(bare))
    if "answer" in NEEDS[name]:
        with pytest.raises(InputError, match=f"^{name} needs the answer, which no case has$"):
            check_needs([name], CaseSet([case("1", ""), case("2", "\u200b"), case("3", "", unanswered={"a": SLOW})]))
    if {*needs} >= {"truth", "chunks"}:
        apart = [case("1", "a", truth=None), replace(case("2", "a"), contexts=())]
        with pytest.raises(InputError, match=r"needs the .*ground truth and the retrieved contexts, which no case has"):
            check_needs([name], CaseSet(apart))


def test_a_blank_source_is_none() -> None:
    bare = CaseSet([replace(case("1", "a"), contexts=("\u200b", " "), truth=" ", reference="\ufeff")])
    with pytest.raises(InputError, match="no case has a reference, retrieved contexts or ground truth to judge by"):
        bare.sources(None)
