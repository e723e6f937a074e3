"""`rag-zeval evaluate` as a user meets it. Kills and races of it: tests/hostile/test_killer.py."""

import csv
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_zeval import __version__
from rag_zeval.errors import InputError
from rag_zeval.files import read_jsonl
from rag_zeval.judge.parser import response_schema
from rag_zeval.literal_judge import read_prompt
from rag_zeval.streams import exit_status

Run = Callable[..., "subprocess.CompletedProcess[str]"]
DOWN = "http://127.0.0.1:9/v1"

ROWS = [
    {"question": "q1?", "answer": "It opens at nine.", "contexts": ["It opens at nine."], "ground_truth": "At ten."},
    {"question": "q2?", "answer": "=It closes at five.", "contexts": ["It closes at six."], "ground_truth": None},
    {"question": "q3?", "answer": None, "contexts": ["It rains."], "ground_truth": "It rains."},
]


def row(n: int, **more: Any) -> dict[str, Any]:
    return {"id": f"r{n}", "question": f"question {n}", "reference": "It is so.", "answers": ["yes", "no"], **more}


def write_rows(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def number(request: dict[str, Any]) -> int:
    """The N of the "question N" that a request is about."""
    return int(read_prompt(request["messages"][0]["content"])[1]["question"].split()[1])


@pytest.fixture
def evaluate(run: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> Run:
    """Judges in.jsonl (one row, unless the test writes others) into o.jsonl, by an endpoint that supports all."""
    endpoint.replies = reply_text(2)
    write_rows(tmp_path / "in.jsonl", [row(0)])
    return lambda *more, **environment: run(
        "evaluate", "in.jsonl", "--model", endpoint.spec(), "--out", "o.jsonl", *more, **environment
    )


def test_rows_are_judged_written_and_summed_up(evaluate: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    endpoint.replies = lambda request: "sorry" if number(request) == 3 else reply_text(2, number(request) % 2 == 0)
    write_rows(tmp_path / "in.jsonl", [row(n) for n in range(4)])
    done = evaluate("--html", "o.html")
    assert done.returncode == 0, done.stderr
    found = {each["case"]: each for each in read_jsonl(tmp_path / "o.jsonl") if "case" in each}
    assert {id_: each["scores"] for id_, each in found.items()} == {
        "r0": [1.0, 1.0], "r1": [0.0, 0.0], "r2": [1.0, 1.0], "r3": [None, None]
    }  # fmt: skip
    assert found["r3"]["status"].startswith("failed: format") and found["r3"]["reply"] == "sorry"
    assert found["r0"]["trajectory"][0]["atomic_claims"][0]["grounding_evidence"] == ["It is so."]
    assert found["r0"]["variant"] == "paper" and found["r0"]["prompt_hash"] and found["r0"]["identity"]
    for text in ("3 of 4 (75.0%)", "0.667", "failed: format", "35 in, 25 out"):
        assert text in done.stdout
    assert (tmp_path / "o.html").read_text().count('\n{"case":"r') == 4


def test_answers_pass_from_a_threshold_on(run: Run, tmp_path: Path) -> None:
    answers = ["It takes 45 minutes.", "It takes 45 days.", "Nobody knows.", None]
    rows = [{"question": f"q{n}?", "answer": one, "slice_tag": f"s{n % 2}"} for n, one in enumerate(answers)]
    write_rows(tmp_path / "in.v2.jsonl", [{**row, "truth": "45 minutes"} for row in rows])
    line = ["evaluate", "in.v2.jsonl", "--scorers=string_match,rouge_l", "--csv=scores.csv"]
    done = run(*line, "--threshold=string_match=0.5")
    assert done.returncode == 0 and (tmp_path / "in.v2.results.jsonl").exists(), done.stderr
    assert "2 of 3 (66.7%) pass 0.5" in done.stdout and "1 of 2 (50.0%) pass 0.5" in done.stdout
    with open(tmp_path / "scores.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["string_match passes"] for row in rows] == ["yes", "yes", "no", ""]
    assert "rouge_l@truth passes" not in rows[0]
    assert "1 of 3 (33.3%) pass 0.6" in run(*line, "--threshold=string_match=0.6").stdout  # nothing is scored again
    for bad in ("string_match", "string_match=high", "string_match=nan", "bleu=0.5", "rouge_l=0.5"):
        refused = run(*line, f"--threshold={bad}")
        said = f"error: --threshold {bad}: write METRIC=NUMBER with one of: string_match, rouge_l@truth"
        assert refused.returncode == 2 and said in refused.stderr


def test_bad_rows_stop_the_run_before_any_call(run: Run, endpoint: Any, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "in.jsonl", [row(0), {"question": "q"}])
    refused = run("evaluate", path)
    told = "openai:MODEL@http://host:port/v1 or, for OpenAI itself, openai:MODEL, for example --model"
    assert refused.stderr.startswith("error: no judge: add") and told in refused.stderr
    done = run("evaluate", path, "--model", endpoint.spec())
    told = f"error: {path}:2: column 'answers' is empty: fill it in, or remove the row\n"
    way_out = "error: 1 of 2 rows cannot be read; fix it, or add --skip-bad-rows\n"
    assert (done.returncode, done.stderr) == (2, told + way_out)
    assert not endpoint.requests and not list(tmp_path.glob("*.results.jsonl"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], f"cannot reach {DOWN}: connection refused"),
        (["--variant", "papre"], "unknown prompt variant 'papre'"),
        (["--temperature", "nan"], "temperature is nan, must be 0 or more"),
        (["--timeout", "nan"], "timeout is nan, must be a number above 0"),
        (["--connect-timeout", "0"], "connect_timeout is 0, must be"),
        (["--max-body-mib", "inf"], "max_body_mib is inf, must be"),
        (["--api-key-env", "NO_KEY"], "NO_KEY is not set"),
        (["--extra-body", "{think: false}"], "--extra-body: expected a JSON object in quotes, such as '{"),
        (["--extra-body", "[1]"], "--extra-body: expected a JSON object"),
        (["--extra-body", '{"n": 2}', "--dry-run"], "extra_body: leave out 'n'"),
        (["--model", "gpt-4o-mini", "--dry-run"], "model 'gpt-4o-mini': no such folder; name a model as"),
        (["--scorers", "embedding_similarity", "--embeddings", "gone", "--dry-run"], "'gone': no such folder; name a"),
        (["--cache", "notes"], "notes: cannot be used as a reply cache"),
        (["--out", "in.jsonl"], "--out in.jsonl is the same file as INPUT"),
        (["new=./in.jsonl"], "in.jsonl: is given twice; remove one of the two"),
        (["new="], "new=: cannot be read: No such file"),
        (["nowhere.jsonl"], "nowhere.jsonl: cannot be read"),
        (["--scorers", "blue"], "--scorers: unknown scorer 'blue' (did you mean 'bleu'?)"),
        (["--scorers", "relevance"], "--scorers: 'relevance' is a criteria file: name it in --criteria"),
        (["--scorers", "embedding_similarity"], "embeds texts: add --embeddings"),
        (["--scorers", "hhem"], "add --claim-checker"),
        (["--scorers", "checked_claims", "--claim-checker", "x"], "name both in --scorers"),
        (["--scorers", "bert_score"], "add --bert-score"),
        (
            ["--against", "contexts"],
            "no column found for the retrieved contexts; columns: 'id', 'question', 'reference'",
        ),
        (["--against", "context"], "--against context: must be one of contexts, truth, reference, both"),
        (["--map", "question"], "--map question: write field=column, such as question=q"),
        (["--map", "id=a", "--map", "id=b"], "--map id=a --map id=b: a field has one column; only answer may have"),
        (["--map", "answer=question", "--map", "answer=b"], "--map answer=b: no row has 'b'"),
        (["--map", "answer=b", "--map", "answer=b"], "names 2 columns, must name 1 to 26, each once"),
        (["--map", "contexts=ctx"], "no row has 'ctx'"),
        (["--encoding", "klingon"], "--encoding klingon: unknown encoding"),
        (["--max-cost", "nan", "--prices", "prices"], "--max-cost is nan, but must be more than 0 dollars"),
        (["--max-cost", "inf", "--prices", "prices"], "--max-cost is inf, but must be more than 0 dollars"),
        (["--max-cost", "-1", "--prices", "prices"], "--max-cost is -1.0, but must be more than 0 dollars"),
        (["--max-cost", "0", "--prices", "prices"], "--max-cost is 0.0, but must be more than 0 dollars"),
        (["--max-cost", "1", "--prices", "none"], f"--max-cost needs the price of openai:m@{DOWN}: add --prices"),
        (["--max-cost", "1", "--prices", "prices", "--model", "x"], "works for endpoints only, and x is not one"),
    ],
)
def test_other_bad_input_is_one_line(run: Run, tmp_path: Path, arguments: list[str], message: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(row(0)))  # a last line without its end is not torn by us
    (tmp_path / "notes").write_text("some notes, as long as a header" * 20)
    (tmp_path / "prices").write_text(json.dumps({model: {"prompt": 1, "completion": 1} for model in "mx"}))
    (tmp_path / "none").write_text("{}")
    done = run("evaluate", "in.jsonl", "--model", f"openai:m@{DOWN}", *arguments)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 2 and len(errors) == 1 and message in errors[0] and "Traceback" not in done.stderr
    assert path.read_text() == json.dumps(row(0))


@pytest.mark.parametrize(
    ("stop", "status", "said"),
    [
        (None, 5, ""),
        (InputError("in.jsonl:2: field 'x': bad"), 2, "error: in.jsonl:2: field 'x': bad\n"),
        (OSError(28, "No space left on device", "two\nlines"), 2, "error: two lines: No space left on device\n"),
        (OSError("a fault without a file"), 2, "error: a fault without a file\n"),
        (InputError("two\nlines"), 2, "error: two lines\n"),
        (KeyboardInterrupt(), 130, "interrupted: run the same command again to resume\n"),
        (ZeroDivisionError("a bug"), 2, "Traceback"),  # 1 would be a failed gate
    ],
)
def test_a_stage_ends_with_a_status_and_says_why(
    capsys: pytest.CaptureFixture[str], stop: BaseException | None, status: int, said: str
) -> None:
    def stage() -> int:
        if stop is not None:
            raise stop
        return 5

    assert exit_status(stage) == status
    shown = capsys.readouterr()
    assert shown.err.startswith(said) and not shown.out
    if said == "Traceback":
        assert shown.err.endswith("ZeroDivisionError: a bug\n")
    else:
        assert shown.err.count("\n") == (stop is not None)


def test_an_interrupted_run_says_that_it_goes_on(evaluate: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # `pytest &` ignores the signal
    write_rows(tmp_path / "in.jsonl", [row(n) for n in range(50)])
    endpoint.replies = lambda request: os.kill(os.getpid(), signal.SIGINT) if number(request) == 9 else reply_text(2)
    done = evaluate("--concurrency", 1)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False)
    assert done.stderr.splitlines()[-1] == "interrupted: run the same command again to resume"
    assert 0 < len(read_jsonl(tmp_path / "o.jsonl")) < 50


def test_options_reach_the_model_and_the_rows(evaluate: Run, endpoint: Any, tmp_path: Path) -> None:
    assert evaluate("--out", "default.jsonl").returncode == 0
    options = ["--max-tokens", 77, "--temperature", 0.5, "--structured", "--extra-body", '{"think": false}']
    assert evaluate(*options).returncode == 0
    assert [(sent["max_tokens"], sent["temperature"]) for sent in endpoint.requests] == [(8192, 0.1), (77, 0.5)]
    assert [sent.get("think") for sent in endpoint.requests] == [None, False]
    json_schema = {"name": "reply", "schema": response_schema(2, "paper"), "strict": True}
    assert endpoint.requests[1]["response_format"] == {"type": "json_schema", "json_schema": json_schema}
    (noted,) = read_jsonl(tmp_path / "o.jsonl")
    assert (noted["sampling"]["max_tokens"], noted["sampling"]["temperature"], noted["structured"]) == (77, 0.5, True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((text, "o.jsonl: is not a file") for text in ("5", '"an example"', '["example"]', "notes", '{"other": 1}')),
        (json.dumps(row(0)), "o.jsonl:1: field 'case' is missing; choose another --out"),
        (json.dumps(row(0)) + '\n{"id": "torn', "o.jsonl:1: field 'case' is missing; choose another --out"),
        ("some\nnotes\n", "o.jsonl:1: not valid JSON"),
    ],
)
def test_a_file_that_is_not_ours_is_left_alone(
    evaluate: Run, endpoint: Any, tmp_path: Path, content: str, message: str
) -> None:
    out = tmp_path / "o.jsonl"
    out.write_text(content)
    os.utime(out, (1, 1))
    refused = evaluate()
    assert refused.returncode == 2 and f"\nerror: {message}" in refused.stderr
    assert out.read_text() == content and out.stat().st_mtime == 1
    assert not endpoint.requests and {path.name for path in tmp_path.iterdir()} == {"in.jsonl", "o.jsonl"}


@pytest.mark.parametrize(
    "options",
    [
        ["--html", "in.jsonl"],
        ["--html", "./sub/../in.jsonl"],
        ["--html", "link"],
        ["--html", "hard"],
        ["--html", "in.results.jsonl"],
        ["--out", "o.jsonl", "--html", "sub/../o.jsonl"],
        ["--out", "o.jsonl", "--cache", "o.jsonl"],
        ["--out", "dangling", "--html", "target"],
        ["--prices", "prices.json", "--html", "prices.json"],
        ["--prices", "prices.json", "--csv", "prices.json"],
        ["--scorers", "nuggets_all", "--html", "in.results.jsonl.replies.sqlite"],
    ],
)
def test_one_file_for_two_things_is_refused(run: Run, endpoint: Any, tmp_path: Path, options: list[str]) -> None:
    rows = write_rows(tmp_path / "in.jsonl", [row(0)])
    before = rows.read_bytes()
    prices = '{"judge": {"prompt": 1, "completion": 1}}'
    (tmp_path / "prices.json").write_text(prices)
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("in.jsonl")
    (tmp_path / "hard").hardlink_to(rows)
    (tmp_path / "dangling").symlink_to("target")
    names = {path.name for path in tmp_path.iterdir()}
    refused = run("evaluate", "in.jsonl", "--model", endpoint.spec(), *options)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert f"{options[-1].removeprefix('./')} is the same file as " in refused.stderr
    assert not endpoint.requests and rows.read_bytes() == before and (tmp_path / "prices.json").read_text() == prices
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.parametrize("option", ["--out", "--html", "--cache"])
@pytest.mark.parametrize("place", ["pipe", "folder", "device"])
def test_only_regular_files_are_written(evaluate: Run, endpoint: Any, tmp_path: Path, option: str, place: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/full")  # which a rename would put away
    refused = evaluate(option, place)
    assert (refused.returncode, refused.stderr) == (2, f"error: {place}: is not a regular file; choose another\n")
    assert not endpoint.requests


@pytest.mark.parametrize("option", ["--out", "--html", "--csv", "--cache"])
@pytest.mark.parametrize("place", ["file/x", "x" * 250, "/proc/x"])
def test_what_cannot_be_written_is_told_before_it_costs(
    evaluate: Run, endpoint: Any, tmp_path: Path, option: str, place: str
) -> None:
    (tmp_path / "file").write_text("")
    refused = evaluate(option, place)
    assert refused.returncode == 2 and refused.stderr.startswith(f"error: {place}: cannot be written: ")
    assert not endpoint.requests and {path.name for path in tmp_path.iterdir()} == {"in.jsonl", "file"}


def test_half_a_surrogate_is_a_good_id_and_text(evaluate: Run, endpoint: Any, reply_text: Any, tmp_path: Path) -> None:
    good = reply_text(2).replace("Clear.", "\\ud800 \\u0000")
    endpoint.replies = lambda request: None if number(request) == 3 else good
    ids = ["\ud83d", "\ud83e", "a\udc00b", "?"]
    odd = {"reference": "half \ud83d", "answers": ["\ud83d", "a\x00"]}
    write_rows(tmp_path / "in.jsonl", [row(n, id=id_, **odd) for n, id_ in enumerate(ids)])
    done = evaluate("--trials", 2, "--html", "o.html")
    assert done.returncode == 0, done.stderr
    rows = {each["id"]: each for each in read_jsonl(tmp_path / "o.jsonl") if "case" in each}
    suffixes = ("|rag_zeval", "|rag_zeval#1")
    assert {(id_, each["case"]) for id_, each in rows.items()} == {(i + t, i) for i in ids for t in suffixes}
    assert rows["\ud83d|rag_zeval"]["scores"] == [1.0, 1.0]
    asked = len(endpoint.requests)
    assert evaluate("--trials", 2, "--html", "o.html").returncode == 0
    assert {number(sent) for sent in endpoint.requests[asked:]} == {3}  # the failed rows alone


@pytest.mark.parametrize(("faulty", "scored", "asked"), [(2, 10, 12), (3, 7, 10)])
def test_a_few_unreadable_replies_are_asked_for_again_in_the_same_run(
    faulty: int, scored: int, asked: int, evaluate: Run, endpoint: Any, reply_text: Any, tmp_path: Path
) -> None:
    def reply(request: Any) -> str:
        first = sum(number(sent) == number(request) for sent in endpoint.requests) == 1
        return "sorry" if first and number(request) < faulty else reply_text(2)

    endpoint.replies = reply
    write_rows(tmp_path / "in.jsonl", [row(n) for n in range(10)])
    assert f"{scored} of 10" in evaluate().stdout and len(endpoint.requests) == asked


def test_the_end_of_a_long_run_does_not_hold_its_rows(
    evaluate: Run, run_measured: Any, endpoint: Any, tmp_path: Path
) -> None:
    count, out = 3_000, tmp_path / "o.jsonl"
    assert evaluate().returncode == 0
    more = {
        "scores": [1.0, None],
        "statuses": ["ok", "failed: no claims"],
        "trajectory": [None, {"id": "B", "atomic_claims": []}],  # read, but without a claim
        "reply": "x" * 30_000,
    }
    made = {**read_jsonl(out)[0], **more}
    write_rows(tmp_path / "in.jsonl", [{**row(0), "id": f"r{n}"} for n in range(count)])
    write_rows(out, [{**made, "id": f"r{n}|rag_zeval", "case": f"r{n}"} for n in range(count)])
    shown, mib = run_measured("evaluate", "in.jsonl", "--model", endpoint.spec(), "--out", out)
    assert f"{count} of {count}" in shown and f"0 of {count} (0.0%)" in shown and len(endpoint.requests) == 1
    assert mib < out.stat().st_size / 2**20 + 80


def test_an_unreadable_reply_is_asked_again_also_with_a_cache(
    evaluate: Run, endpoint: Any, reply_text: Any, tmp_path: Path
) -> None:
    endpoint.replies = lambda request: "sorry" if number(request) == 1 else reply_text(2)
    write_rows(tmp_path / "in.jsonl", [row(0), row(1)])
    options = ["--cache", "c.sqlite", "--trials", 2]
    assert "2 of 4 (50.0%)" in evaluate(*options).stdout
    endpoint.replies = reply_text(2)
    again = evaluate(*options)
    assert "retrying 2 failed rows" in again.stderr and "4 of 4" in again.stdout
    assert "56 in, 40 out" in again.stdout  # 8 replies: those that nobody could read were paid for too
    assert [number(sent) for sent in endpoint.requests[6:]] == [1, 1]
    (tmp_path / "o.jsonl").unlink()
    assert "4 of 4" in evaluate(*options).stdout and len(endpoint.requests) == 8  # and the good reply is kept


def test_a_result_file_holds_one_run_only(evaluate: Run, endpoint: Any, tmp_path: Path) -> None:
    assert evaluate().returncode == 0
    rows = (tmp_path / "o.jsonl").read_bytes()
    refusals = {
        "identity ('judge' before, 'other' now)": evaluate("--model", endpoint.spec("other")),
        """identity ('prompt' before, 'extra_body={"a":1}' now)""": evaluate("--extra-body", '{"a": 1}'),
        "variant": evaluate("--variant", "verdict-last"),
        "sampling.temperature": evaluate("--temperature", 0.5),
        "structured": evaluate("--structured"),
    }
    write_rows(tmp_path / "in.jsonl", [row(0, reference="It is not so.")])
    refusals["question, answer or reference"] = evaluate()
    for name, refused in refusals.items():
        assert refused.returncode == 2 and f"made with a different {name}; choose another --out" in refused.stderr
    assert (tmp_path / "o.jsonl").read_bytes() == rows


def test_trials_are_samples_of_their_own_and_cached_ones_cost_nothing(
    evaluate: Run, endpoint: Any, reply_text: Any, tmp_path: Path
) -> None:
    endpoint.replies = lambda request: reply_text(2, request["seed"] % 2 == 0)
    write_rows(tmp_path / "in.jsonl", [row(n) for n in range(3)])
    first = evaluate("--trials", 3, "--cache", "replies.sqlite")
    assert first.returncode == 0 and "SD over trials" in first.stdout and len(endpoint.requests) == 9
    assert len({request["seed"] for request in endpoint.requests}) == 9
    scores = {each["id"]: each["scores"] for each in read_jsonl(tmp_path / "o.jsonl")}
    assert set(scores) == {f"r{n}|rag_zeval{t}" for n in range(3) for t in ("", "#1", "#2")}
    again = evaluate("--trials", 3, "--cache", "replies.sqlite", "--out", "two.jsonl")
    assert len(endpoint.requests) == 9 and "0, and 9 from the cache" in again.stdout
    assert {each["id"]: each["scores"] for each in read_jsonl(tmp_path / "two.jsonl")} == scores


def test_when_nothing_could_be_scored_the_run_fails(evaluate: Run, endpoint: Any) -> None:
    endpoint.replies = "\ud800 no"
    done = evaluate()
    assert done.returncode == 1 and "no answer could be scored" in done.stderr and "0 of 1" in done.stdout


def test_bad_usage_and_version_have_their_statuses(run: Run) -> None:
    assert run("evaluate", "in.jsonl", "--trials", "0").returncode == 2
    assert (run("--version").stdout, run("--version").returncode) == (f"{__version__}\n", 0)
    assert run("version").returncode == 2


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "in.jsonl", ROWS)


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
    for line in ("  question: q1?", "  answer of in: It opens at nine.", "  retrieved contexts (1): It opens at nine.",
                 "  ground truth: At ten.", "  ground truth: none", "  answer of in: no answer"):  # fmt: skip
        assert line in done.stdout.splitlines()


def test_questions_come_from_another_file(run: Run, tmp_path: Path) -> None:
    rows = [{"id": at, **row} for at, row in enumerate(ROWS)]
    questions = [{"id": row["id"], "question": row.pop("question")} for row in rows]
    questions, answers = write_rows(tmp_path / "q.jsonl", questions), write_rows(tmp_path / "a.jsonl", rows)
    alone = run("evaluate", answers, "--dry-run")
    assert alone.returncode == 2 and "If the questions are in another file, add --join FILE" in alone.stderr
    done = run("evaluate", answers, "--join", questions, "--dry-run")
    assert done.returncode == 0 and "  question: q1?" in done.stdout.splitlines(), done.stderr
    assert f"  joined with {questions} by 'id': 3 of its 3 rows used" in done.stderr.splitlines()
    slices = write_rows(tmp_path / "s.jsonl", [{"id": at, "slice": "hours"} for at in range(3)])
    done = run("evaluate", answers, "--join", questions, "--join", slices, "--dry-run")
    assert "  slice: column 'slice', in 3 of 3" in done.stderr.splitlines()


def test_scores_are_written_in_the_order_of_the_input(run: Run, inputs: Path, tmp_path: Path) -> None:
    done = run("evaluate", inputs, "--scorers", "rouge_l,bleu", "--against", "both", "--csv", "scores.csv")
    assert done.returncode == 0 and f"{inputs}: 3 cases (columns" in done.stderr, done.stderr
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


def test_a_name_before_a_file_is_the_name_of_its_one_system(run: Run, inputs: Path, tmp_path: Path) -> None:
    texts = [json.loads(line) for line in inputs.read_text().splitlines()]
    texts[-1]["answer"] = None
    for name in ("a", "b"):
        written = "".join(json.dumps({**row, "system": "assistant"}) + "\n" for row in texts)
        (tmp_path / f"{name}.jsonl").write_text(written)
    words = ("--scorers", "rouge_l", "--out", "o.jsonl")
    refused = run("evaluate", "a.jsonl", "b.jsonl", *words)
    assert refused.returncode == 2 and "name the systems, as in old=a.csv new=b.csv" in refused.stderr
    done = run("evaluate", "old=a.jsonl", "new=b.jsonl", *words)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["systems"] for row in rows] == [["old"]] * 3 + [["new"]] * 3
    assert [row["statuses"] for row in rows] == [["ok"], ["ok"], ["failed: no answer"]] * 2
    (tmp_path / "a.jsonl").write_text(written + written.replace("assistant", "other"))
    refused = run("evaluate", "old=a.jsonl", *words)
    assert refused.returncode == 2
    assert "old=a.jsonl: it holds several systems, 'assistant', 'other'; remove old=" in refused.stderr


def test_bad_rows_are_all_told_and_may_be_skipped(run: Run, inputs: Path, tmp_path: Path) -> None:
    inputs.write_text(inputs.read_text() + '{"question": null, "answer": "a"}\n{"question"\n')
    refused = run("evaluate", inputs, "--scorers", "rouge_l")
    assert refused.returncode == 2 and not (tmp_path / "in.results.jsonl").exists()
    bad = [
        f"{inputs}:4: column 'question' is empty: fill it in, or remove the row",
        f"{inputs}:5: not valid JSON: Expecting ':' delimiter at column 12",
    ]
    told = [*bad, "2 of 5 rows cannot be read; fix them, or add --skip-bad-rows"]
    assert refused.stderr.splitlines() == [f"error: {line}" for line in told]
    done = run("evaluate", inputs, "--scorers", "rouge_l", "--skip-bad-rows")
    assert done.returncode == 0
    assert "  skipped: 2 bad rows\n" + "".join(f"  - {line}\n" for line in bad) in done.stderr
