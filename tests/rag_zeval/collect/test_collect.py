import re
import time
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.cases.reading import question_id, read_cases
from rag_zeval.collect.answers import BODY_MIB, read_questions
from rag_zeval.errors import InputError
from rag_zeval.files import Row, json_line, read_jsonl
from rag_zeval.scripted_judge import ScriptedJudge

SECRET = "sesame-open-4711-zzz"

READ = ["--answer=$.result.answer", "--contexts=$.docs[*].text", "--context-ids=$.docs[*].id"]
GOOD = {"result": {"answer": "Ten."}, "docs": [{"id": 7, "text": "At ten."}, {"id": "b", "text": "At noon."}]}
DEEP = b'{"result": ' * 100_000
BROKEN: dict[str, tuple[Any, str]] = {  # what is sent, and what is said of it
    "status 500": ({"status": 500, "body": {"error": f"out of\n order {SECRET}"}}, "HTTP 500: out of order [key]"),
    "redirect": ({"status": 307, "headers": {"Location": "http://elsewhere/"}}, "HTTP 307: redirects to"),
    "no JSON": ({"status": 200, "body": b"<html>"}, "answer is not valid JSON"),
    "a stream": ({"status": 200, "body": b'event: token\ndata: {"answer": "Ten"}\n\n'}, "turn streaming off"),
    "deep": ({"status": 200, "body": DEEP}, "answer is not valid JSON"),
    "huge": ({"status": 200, "body": b'"' + b"x" * (BODY_MIB << 20)}, f"longer than {BODY_MIB} MiB"),
    "packed": ({"status": 200, "body": b"", "headers": {"Content-Encoding": "gzip"}}, "the answer is packed"),
    "no answer": (
        {"status": 200, "body": {"error": "out of quota"}},
        '$.result.answer finds 0 values in the system\'s response, expected one: {"error": "out of quota"}',
    ),
    "Latin-1": ({"status": 200, "body": '{"result": {"answer": "café"}}'.encode("latin-1")}, "is not UTF-8 text"),
    "answer no text": ({"status": 200, "body": {"result": {"answer": None}}}, "answer: expected text, found NoneType"),
    "context no text": (
        {"status": 200, "body": {**GOOD, "docs": [{"id": "a", "text": {}}]}},
        "contexts: expected text, found dict",
    ),
    "an id too few": ({"status": 200, "body": {**GOOD, "docs": [{"text": "a"}]}}, "1 contexts and 0 context ids"),
}


@pytest.fixture
def rag(scripted_judge: ScriptedJudge) -> ScriptedJudge:
    """A RAG system: it answers a question of BROKEN as that says, every other one well, and "late" after 0.2 s."""

    def reply(body: Row) -> Any:
        if body["question"] == "late":
            time.sleep(0.2)
        return BROKEN.get(body["question"], ({"status": 200, "body": GOOD}, ""))[0]

    scripted_judge.replies = reply
    return scripted_judge


def write(path: Path, *rows: Row) -> None:
    path.write_bytes(b"".join(map(json_line, rows)))


def test_answers_are_kept_with_what_was_retrieved_and_what_the_question_brought(
    rag: ScriptedJudge, run: Any, tmp_path: Path
) -> None:
    kept = {"truth": "Ten o'clock", "slice_tag": "times", "gold_chunk_ids": ["a#1"]}
    first = {"id": "x", "question": "When?", **kept, "snippets": ["not kept"], "origin": "generated"}
    write(tmp_path / "q.jsonl", first, {"question": "late", "truth": None})
    words = ["--out=a.jsonl", f"--url={rag.url}/ask", "--system=v2", "--header=X-Token=TOKEN", "--concurrency=1"]
    done = run("collect", "q.jsonl", *words, *READ, TOKEN=SECRET)
    assert done.returncode == 0, done.stderr
    one, two = read_jsonl(tmp_path / "a.jsonl")
    said = {"answer": "Ten.", "status": "ok", "contexts": ["At ten.", "At noon."], "context_ids": ["7", "b"]}
    assert {"id": "x", "question": "When?", **kept, **said, "system": "v2"}.items() <= one.items()
    assert {"id": question_id("late"), "question": "late", "truth": None, **said}.items() <= two.items()
    assert "snippets" not in one and "slice_tag" not in two
    assert 0 < one["latency_s"] < 60 and 0.2 <= two["latency_s"] < 60
    assert rag.requests == [{"question": "When?"}, {"question": "late"}]
    assert {headers["x-token"] for headers in rag.headers} == {SECRET}
    table = re.findall(r"│ (\S+) +│ (\d+) +│ (\d+) +│ ([\d.]+) \[(\S+), (\S+)\]", done.stdout)
    assert [line[:3] for line in table] == [("all", "2", "0"), ("(none)", "1", "0"), ("times", "1", "0")]
    assert all(line[4:] == ("?", "?") for line in table)  # two values tell nothing of where the median is
    assert float(table[0][3]) == pytest.approx((one["latency_s"] + two["latency_s"]) / 2, abs=0.006)

    paths = ["--answer=$.result.answer", "--contexts=$.docs[0].none", "--question-field=q", "--context-ids=$.ids"]
    rag.replies = lambda body: {"status": 200, "body": GOOD}
    other = run("collect", "q.jsonl", "--out=b.jsonl", f"--url={rag.url}/ask", *paths)
    assert other.returncode == 0 and read_jsonl(tmp_path / "b.jsonl")[0]["contexts"] == []
    for path in ("--contexts $.docs[0].none", "--context-ids $.ids"):
        assert f"note: {path} found nothing in any response" in other.stderr
    assert re.search("asking: 2/2, .*, 2 contexts empty, 2 context_ids empty\n", other.stderr)
    assert other.stderr.startswith(
        "q.jsonl: 2 rows (columns known by their names)\n  question: column 'question', in 2 of 2\n"
        "  ground truth: column 'truth', in 1 of 2\n"
    )
    assert "  not used: 'snippets', 'origin'\n" in other.stderr
    assert rag.requests[-1].keys() == {"q"} and "system" not in read_jsonl(tmp_path / "b.jsonl")[0]


def test_the_rows_of_a_golden_set_keep_their_ids_truth_and_gold_chunks(tmp_path: Path) -> None:
    golden: list[Row] = [
        {"question": "When?", "gold_answer": "Ten.", "gold_chunk_ids": [3, "a"]},
        {"question": "Who?", "gold_answer": None, "gold_chunk_ids": [], "id": None},
        {"question": "When?", "gold_answer": ["Nine.", "9"], "id": ""},
        *({"question": "Why?", "gold_answer": "So.", "id": id_} for id_ in (7, 8.0, "x")),
    ]
    write(tmp_path / "q.jsonl", *golden)
    rows = read_questions(tmp_path / "q.jsonl")
    assert [row["id"] for row in rows[3:]] == ["7", "8", "x"]
    assert [row["truth"] for row in rows] == ["Ten.", None, "Nine.", "So.", "So.", "So."]
    assert [row.get("gold_chunk_ids") for row in rows[:3]] == [["3", "a"], [], None]
    # ids are those that `evaluate` gives these rows, so a row that is added in front changes none of them
    cases = read_cases(
        [{"id": row.get("id"), "question": row["question"], "answer": "a", "truth": "t"} for row in golden]
    )
    assert [row["id"] for row in rows] == [case.id for case in cases.cases]
    write(tmp_path / "q.jsonl", {"question": "New?"}, *golden)
    assert read_questions(tmp_path / "q.jsonl")[1:] == rows


def test_the_ground_truth_of_a_question_is_not_guessed(tmp_path: Path) -> None:
    write(tmp_path / "q.jsonl", {"question": "Q?", "ground_truth": "Ten.", "expected": "Nine."})
    with pytest.raises(InputError, match=r"q.jsonl: columns 'ground_truth', 'expected' could each hold the ground"):
        read_questions(tmp_path / "q.jsonl")
    assert read_questions(tmp_path / "q.jsonl", {"truth": "expected"})[0]["truth"] == "Nine."
    for field in ("answer", "truht"):
        with pytest.raises(InputError, match=f"--map {field}=expected: .* field '{field}'"):
            read_questions(tmp_path / "q.jsonl", {field: "expected"})


def test_questions_are_read_from_a_table(tmp_path: Path) -> None:
    """As spreadsheets write it, with the names that `evaluate` knows."""
    write(tmp_path / "q.jsonl", {"question": 1984, "truth": 42.0, "slice_tag": 2024})  # as of an Excel file
    (row,) = read_questions(tmp_path / "q.jsonl")
    assert (row["question"], row["truth"], row["slice_tag"]) == ("1984", "42", "2024")
    (tmp_path / "q.json").write_text('{"version": 1, "questions": [{"question": "Who?"}]}')
    assert [row["question"] for row in read_questions(tmp_path / "q.json")] == ["Who?"]
    lines = ["Query ID;Query;Expected answer;gold_chunk_ids", '007;"When?\nAnd where?";Ten.;"[""a"", 3]"', ";Who?;;"]
    (tmp_path / "q.csv").write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    assert read_questions(tmp_path / "q.csv") == [
        {"id": "007", "question": "When?\nAnd where?", "truth": "Ten.", "gold_chunk_ids": ["a", "3"]},
        {"id": question_id("Who?"), "question": "Who?", "truth": None},
    ]
    (tmp_path / "q.csv").write_text("no,text\n1,Who is it?\n")
    with pytest.raises(InputError, match=r"q.csv: no column found for the question; columns: 'no', 'text'"):
        read_questions(tmp_path / "q.csv")


def test_columns_may_be_named_and_gold_chunks_that_are_never_retrieved_are_told(
    rag: ScriptedJudge, run: Any, tmp_path: Path
) -> None:
    write(tmp_path / "q.jsonl", {"in": {"ask": "When?"}, "expected": ["a#1"], "answer": "Ten."})
    words = ["--out=a.jsonl", f"--url={rag.url}/ask", "--map=question=in.ask", "--map=truth=answer", *READ]
    done = run("collect", "q.jsonl", *words)
    assert done.returncode == 0 and "note: no retrieved id, such as '7', is a gold chunk" in done.stderr
    (row,) = read_jsonl(tmp_path / "a.jsonl")
    assert {"question": "When?", "truth": "Ten.", "gold_chunk_ids": ["a#1"]}.items() <= row.items()


def test_a_question_that_fails_says_why_and_is_asked_again_alone(rag: ScriptedJudge, run: Any, tmp_path: Path) -> None:
    write(tmp_path / "q.jsonl", *({"id": name, "question": name} for name in [*BROKEN, "fine"]))
    words = ["collect", "q.jsonl", "--out=a.jsonl", f"--url={rag.url}/ask", "--header=X-Token=TOKEN", *READ]
    done = run(*words, TOKEN=SECRET)
    assert done.returncode == 0
    rows = {row["id"]: row for row in read_jsonl(tmp_path / "a.jsonl")}
    for name, (_, reason) in BROKEN.items():
        assert rows[name]["status"].startswith("failed: ") and reason in rows[name]["status"], name
        assert rows[name]["answer"] is None and rows[name]["latency_s"] is None
    assert rows["fine"]["status"] == "ok" and re.search(r"all +│ 1 +│ 12 ", done.stdout)
    assert "12 of 13 questions have no answer" in done.stderr
    assert re.search(r"asking: 13/13, .*, 12 failed \(\w.*\)\n", done.stderr)  # shown while others are still asked
    assert SECRET not in (tmp_path / "a.jsonl").read_text() + done.stdout + done.stderr

    rag.requests.clear()
    rag.replies = lambda body: {
        "status": 200,
        "body": json_line({**GOOD, "result": {"answer": f"[red]{SECRET}\ufffd"}}),
    }
    again = run(*words, TOKEN=SECRET)
    assert again.returncode == 0 and "no answer" not in again.stderr
    assert sorted(body["question"] for body in rag.requests) == sorted(BROKEN)
    answers = {row["id"]: row["answer"] for row in read_jsonl(tmp_path / "a.jsonl")}
    assert answers == {**dict.fromkeys(BROKEN, "[red][key]\ufffd"), "fine": "Ten."}


def test_a_wrong_path_can_be_corrected_with_the_same_file(rag: ScriptedJudge, run: Any, tmp_path: Path) -> None:
    write(tmp_path / "q.jsonl", {"question": "When?"}, {"question": "Where?"})
    words = ["collect", "q.jsonl", "--out=a.jsonl", f"--url={rag.url}/ask", "--answer=$.result.answer"]
    wrong = run(*words, "--contexts=$.docs")
    assert wrong.returncode == 1 and "(failed: contexts: expected text, found dict)" in wrong.stderr
    assert "found nothing" not in wrong.stderr  # it found something else
    assert run(*words, "--contexts=$.docs[*].text").returncode == 0
    rows = read_jsonl(tmp_path / "a.jsonl")
    assert [row["contexts"] for row in rows] == [["At ten.", "At noon."]] * 2
    assert {row["collected"]["contexts"] for row in rows} == {"$.docs[*].text"}
    assert "was collected with a different contexts" in run(*words, "--contexts=$.docs").stderr


@pytest.mark.parametrize("fault", ["half", "drip", "hang"])
def test_an_answer_that_never_ends_is_given_up(rag: ScriptedJudge, run: Any, tmp_path: Path, fault: str) -> None:
    write(tmp_path / "q.jsonl", {"question": "When?"})
    rag.faults = [fault]
    done = run("collect", "q.jsonl", "--out=a.jsonl", f"--url={rag.url}/ask", "--timeout=0.5", *READ)
    (row,) = read_jsonl(tmp_path / "a.jsonl")
    assert done.returncode == 1 and row["answer"] is None and row["status"].startswith("failed: ")
    assert fault == "half" or row["status"] == "failed: no answer within 0.5 s"
    done = run("collect", "q.jsonl", "--out=b.jsonl", "--url=http://127.0.0.1:9/ask", *READ)  # nobody is there
    assert done.returncode == 1 and "1 of 1 questions have no answer (failed: connection refused)" in done.stderr


def test_what_cannot_be_meant_is_refused_before_anything_is_asked(rag: ScriptedJudge, run: Any, tmp_path: Path) -> None:
    for name, rows in {
        "q": [{"id": "x", "question": "When?"}],
        "other": [{"id": "x", "question": "When?", "truth": "Ten."}],
        "third": [{"id": "y", "question": "When?"}],
        "key": [{"id": f"a-{SECRET}", "question": "When?"}],
        "twice": [{"id": 1, "question": "a"}, {"id": "1", "question": "b"}],
        "wrong": [{"question": "a", "gold_chunk_ids": [["a"]]}],
        "blank": [{"id": 1, "question": " "}],
        "empty": [{"question": " "}],
        "list": [{"id": ["x"], "question": "a"}],
        "wrong2": [{"question": "a", "slice_tag": ["b"]}],
    }.items():
        write(tmp_path / f"{name}.jsonl", *rows)
    command = ["--out=a.jsonl", f"--url={rag.url}/ask", *READ]
    assert run("collect", "q.jsonl", *command).returncode == 0
    assert run("collect", "other.jsonl", *command, "--out=other.a.jsonl").returncode == 0
    before, asked = (tmp_path / "a.jsonl").read_bytes(), len(rag.requests)
    for words, message in [
        (
            ["q.jsonl", "--answer=$.answer"],
            "a.jsonl:1: row 'x' was collected with a different answer; choose another --out",
        ),
        (["q.jsonl", "--system=v2"], "row 'x' was collected with a different system"),
        (["q.jsonl", f"--url={rag.url}/other"], "row 'x' was collected with a different url"),
        (["other.jsonl"], "row 'x' was collected with a different truth"),
        (["q.jsonl", "--out=other.a.jsonl"], "row 'x' was collected with a different truth"),
        (["key.jsonl", "--out=new.jsonl", "--header=X-Token=TOKEN"], "id 'a-[key]' holds the value of a header or a"),
        (["third.jsonl"], "row 'x' belongs to none of the questions"),
        (["twice.jsonl"], "twice.jsonl:2: duplicate id '1': give each row its own id, or remove column 'id'"),
        (["wrong.jsonl"], "wrong.jsonl:1: column 'gold_chunk_ids': must be a text, found a list"),
        (["blank.jsonl"], "blank.jsonl:1: column 'question' is empty: fill it in, or remove the row"),
        (["empty.jsonl"], "empty.jsonl: all cells of the columns with a name are blank"),
        (["list.jsonl"], "list.jsonl:1: column 'id': must be a text, found"),
        (["wrong2.jsonl"], "wrong2.jsonl:1: column 'slice_tag': must be a text, found a list"),
        (["q.jsonl", "--out=q.jsonl"], "--out q.jsonl is the same file as INPUT"),
        (["q.jsonl", "--contexts=$.docs["], "--contexts '$.docs[' is not a JSONPath"),
        (["q.jsonl", f"--url=http://me:{SECRET}@host/"], "--url: expected http://host:port/path, without user"),
        (["q.jsonl", f"--url=http://host/?key={SECRET}"], "--url: expected"),
        (["q.jsonl", "--url=ftp://host/"], "--url: expected"),
        (["q.jsonl", "--header=X-Token"], "--header: write NAME=VARIABLE"),
        (["q.jsonl", "--header=A=TOKEN", "--header=A=HOME"], "--header: 'A' is given twice; remove one of the two"),
        (["q.jsonl", "--constant==5"], "--constant: write FIELD=VALUE"),
        (["q.jsonl", "--header=X-Token=NO_SUCH"], "environment variable NO_SUCH is not set"),
        (["q.jsonl", "--header=X Token=HOME"], "where NAME is the name of an HTTP header"),
        (["q.jsonl", "--timeout=0"], "--timeout is 0, but must be more than 0 seconds"),
    ]:
        refused = run("collect", *command, *words, TOKEN=SECRET)
        assert refused.returncode == 2 and message in refused.stderr, (message, refused.stderr)
        assert len(refused.stderr.strip().splitlines()) == 1 and SECRET not in refused.stderr
    assert (tmp_path / "a.jsonl").read_bytes() == before and len(rag.requests) == asked
