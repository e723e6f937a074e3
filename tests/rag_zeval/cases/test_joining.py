"""Rows that get their questions, contexts or truths from another file."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.cases.reading import read_cases
from rag_zeval.cases.source import BadRows
from rag_zeval.errors import InputError
from rag_zeval.files import json_line

QUESTIONS = [
    {"id": 1, "question": "What does it cost?", "truth": "Twelve euros."},
    {"id": 2, "question": "When does it open?", "truth": "At nine."},
]
ANSWERS = [
    {"qid": "2", "response": "It opens at nine.", "contexts": ["We open at nine."]},
    {"qid": "1", "response": "It costs ten euros.", "contexts": ["A ticket is twelve euros."]},
]
GOLD = [{"id": row["id"], "question": row["question"], "answer": row["truth"]} for row in QUESTIONS]
TEXTS = {"a1": "It costs ten euros.", "a2": "It opens at nine."}  # by ids, as predictions for SQuAD are written
WHOLE = [
    {
        "id": f"n{at}",
        "question": f"What is {at}?",
        "response": f"It is {at}.",
        "contexts": [f"Here is {at}."],
        "truth": f"{at}",
        "slice": "ab"[at % 2],
        "latency_s": at,
    }
    for at in range(5)
]


@given(
    st.sets(st.sampled_from(sorted(WHOLE[0].keys() - {"id"}))), st.permutations(range(5)), st.sets(st.integers(0, 4))
)
def test_a_table_in_two_files_is_read_as_the_whole_one(elsewhere: set[str], order: list[int], own: set[int]) -> None:
    rows = [{name: value for name, value in row.items() if name not in elsewhere} for row in WHOLE]
    others = [{name: row[name] for name in ("id", *elsewhere)} for row in (WHOLE[at] for at in order)]
    read = read_cases([row for at, row in enumerate(rows) if at in own or not own], join=others)
    assert read.cases == [case for at, case in enumerate(read_cases(WHOLE).cases) if at in own or not own]


@given(
    st.lists(st.sampled_from(["question", "contexts", "truth", "slice"]), unique=True),
    st.sets(st.sampled_from(sorted(WHOLE[0]))),
)
def test_a_table_in_several_files_is_read_as_the_whole_one(elsewhere: list[str], twice: set[str]) -> None:
    rows = [{name: value for name, value in row.items() if name not in elsewhere} for row in WHOLE]
    kept = {"id", *twice}
    files = [[{n: row[n] for n in row if n in kept or n == name} for row in reversed(WHOLE)] for name in elsewhere]
    assert read_cases(rows, join=tuple(files)).cases == read_cases(WHOLE).cases


def test_the_report_says_by_what_files_were_joined_and_what_their_columns_are_called(tmp_path: Path) -> None:
    (tmp_path / "q.v2.jsonl").write_bytes(b"".join(json_line({**row, "contexts": ["gold"]}) for row in QUESTIONS))
    (tmp_path / "a.csv").write_text("qid,response,contexts\n2,It opens at nine.,We open at nine.\n")
    read = read_cases(tmp_path / "a.csv", join=(tmp_path / "q.v2.jsonl",))
    assert [(case.id, case.question, case.contexts) for case in read.cases] == [
        ("2", "When does it open?", ("We open at nine.",))
    ]
    joined = f"joined with {tmp_path}/q.v2.jsonl by 'qid' = 'id': 1 of its 2 rows used"
    assert f"{joined}; its column 'contexts' is called 'q.contexts'" in str(read)
    assert "not used: 'q.contexts'" in str(read)


@pytest.mark.parametrize(
    ("rows", "others", "names", "by"),
    [
        (ANSWERS, QUESTIONS, {}, "'qid' = 'id'"),
        ([{**row, "id": f"run-{row['qid']}"} for row in ANSWERS], QUESTIONS, {"id": "qid"}, "'qid' = 'id'"),
        ([{**row, "id": 90 + at} for at, row in enumerate(ANSWERS)], QUESTIONS, {}, "'qid' = 'id'"),
        (  # numbers of the rows, which are ids of the other file by chance
            [{**row, "id": at} for at, row in enumerate(ANSWERS, 1)],
            QUESTIONS,
            {"id": "qid"},
            "'qid' = 'id'",
        ),
        (
            [{"no": at, "question": row["question"], "answer": "a"} for at, row in enumerate(reversed(QUESTIONS), 1)],
            [{"no": row["id"], "question": row["question"], "truth": "t"} for row in QUESTIONS],
            {},
            "'question'",
        ),
        (
            [{"meta": {"of": row["qid"]}, "response": "a", "contexts": "c"} for row in ANSWERS],
            [{"no": row["id"], "question": row["question"]} for row in QUESTIONS],
            {"id": "meta.of"},
            "'meta.of' = 'no'",
        ),
        (
            ANSWERS,
            [{"meta": {"no": row["id"]}, "question": row["question"]} for row in QUESTIONS],
            {"id": "qid"},
            "'qid' = 'meta.no'",
        ),
        (  # a name that both have; other columns that both have do not tell rows apart
            [{"task": f"t{row['qid']}", "kind": "x", "response": "a", "contexts": "c"} for row in ANSWERS],
            [{"kind": "x", "task": f"t{row['id']}", "question": row["question"]} for row in QUESTIONS],
            {},
            "'task'",
        ),
        (
            [{"query": f" {row['question']}\n", "response": "a"} for row in reversed(QUESTIONS)],
            [{"question": row["question"], "contexts": "c"} for row in QUESTIONS],
            {},
            "'query' = 'question'",
        ),
    ],
)
def test_the_key_is_an_id_a_shared_name_or_the_question(rows: Any, others: Any, names: dict[str, str], by: str) -> None:
    read = read_cases(rows, names, join=others)
    assert f"joined with list by {by}: 2 of its 2 rows used" in str(read)
    assert [case.question.strip() for case in read.cases] == ["When does it open?", "What does it cost?"]


@given(
    st.sampled_from([str.upper, str.lower, str.title, str]),
    st.sampled_from(
        ["{}", " {}\n", "'{}'", "Answer by the texts.\nQuestion: {}\nTexts: We open at nine.", "Please: {}"]
    ),
    st.booleans(),
)
def test_a_question_may_be_written_in_another_way(case: Any, around: str, is_known_by_id: bool) -> None:
    asked = [around.format(case(row["question"]).rstrip("?").replace(" ", "  ")) for row in QUESTIONS]
    rows = [{"question": text, "response": "a"} for text in asked]
    if is_known_by_id:
        rows = [{**row, "id": at} for at, row in enumerate(rows, 1)]
    elif len(around) > len("'{}'"):
        return  # a prompt is no key
    assert [case.truth for case in read_cases(rows, join=QUESTIONS).cases] == ["Twelve euros.", "At nine."]


def test_answers_of_several_systems_share_a_question() -> None:
    rows = [{**row, "system": system} for row in ANSWERS for system in ("old", "new")]
    cases = read_cases(rows, join=([*QUESTIONS, QUESTIONS[0]],)).cases  # a row that is there twice is one
    assert [(case.id, *case.answers) for case in cases] == [("2", "old"), ("2", "new"), ("1", "old"), ("1", "new")]


def test_passages_of_one_answer_share_it() -> None:
    passages = [{"qid": row["qid"], "passage": text} for row in ANSWERS for text in (*row["contexts"], "Another.")]
    answers = [{"qid": row["qid"], "question": "q?", "answer": row["response"]} for row in ANSWERS]
    cases = read_cases(passages, {"passage": "passage"}, join=(answers,)).cases
    assert [(case.id, len(case.contexts)) for case in cases] == [("2", 2), ("1", 2)]


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (TEXTS, "'id', 'system_v2'"),
        ({"answer": TEXTS, "sp": {key: [["Title", 0]] for key in TEXTS}}, "'id', 'answer', 'sp'"),
        ({str(at): {"QUESTION": "q?", "LONG_ANSWER": text} for at, text in zip((7, 9), TEXTS.values(), strict=True)},
         "'id', 'QUESTION', 'LONG_ANSWER'"),
        ({"What does it cost?": "12", "When does it open?": "9"}, "'question', 'system_v2'"),
        ({"frage": "Was kostet es?", "antwort": "Zwölf Euro."}, "'frage', 'antwort'"),  # one row
    ],
)  # fmt: skip
def test_an_object_may_hold_texts_by_their_ids(tmp_path: Path, content: Any, columns: str) -> None:
    (tmp_path / "system_v2.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=f"columns: {columns}"):
        read_cases(tmp_path / "system_v2.json")


@pytest.mark.parametrize(
    ("name", "called"),
    [("predictions", "predictions"), ("answers_v2", "answer"), ("output-1", "answer"), ("run", "run")],
)
def test_texts_by_their_ids_are_called_as_their_file(tmp_path: Path, name: str, called: str) -> None:
    (tmp_path / f"{name}.json").write_text(json.dumps(TEXTS))
    (tmp_path / "questions.json").write_text(json.dumps({"a2": "When?", "a1": "How much?"}))
    (tmp_path / "ground_truth.json").write_text(json.dumps({"a1": "12", "a2": "9"}))
    others = (tmp_path / "questions.json", tmp_path / "ground_truth.json")
    names = {} if called in ("predictions", "answer") else {"answer": called}
    read = read_cases(tmp_path / f"{name}.json", names, join=others)
    assert f"answer: column '{called}', in 2 of 2" in str(read)
    assert [(case.question, case.truth) for case in read.cases] == [("How much?", "12"), ("When?", "9")]


@pytest.mark.parametrize(
    ("rows", "others", "told"),
    [
        (ANSWERS, GOLD, "if 'answer' holds the ground truth, --map answer=response --map truth=answer"),
        (GOLD, [{"id": row["qid"], "response": "a"} for row in ANSWERS], "--map answer=response --map truth=answer"),
        (
            [{"id": row["qid"], "answer": row["response"]} for row in ANSWERS],
            GOLD,
            "both hold answers: if 'list.answer' of list is the ground truth, add --map answer=answer --map "
            "truth=list.answer; if it is 'answer' of list, --map answer=list.answer --map truth=answer",
        ),
        (
            [{"id": row["qid"], "output": [{"answer": "a"}]} for row in ANSWERS],
            [{"id": row["id"], "input": "q?", "output": [{"answer": "t"}]} for row in GOLD],
            "--map answer=output.answer --map truth=list.output.answer;",
        ),
        (
            [{"id": row["qid"], "run": {"answer": "a"}} for row in ANSWERS],
            GOLD,
            "--map answer=run.answer --map truth=answer;",
        ),
        (
            [{"id": row["qid"], "answer": "a"} for row in ANSWERS],
            [{"id": row["id"], "Question": "q?", "Answer": "t"} for row in GOLD],
            "if 'Answer' of list is the ground truth, add --map answer=answer --map truth=Answer; if",
        ),
        (
            [{"id": row["qid"], "answer": "a"} for row in ANSWERS],
            [{"id": row["id"], "question": "q?", "nq": [{"replies": ["a"]}]} for row in GOLD],
            "--map answer=answer --map truth=nq.replies.0;",
        ),
        (
            [{"id": row["qid"], "run": {"answer": "a"}} for row in ANSWERS],
            [{"id": row["id"], "question": "q?", "run": {"answer": "t"}} for row in GOLD],
            "--map answer=run.answer --map truth=list.run.answer;",
        ),
        (
            [{"id": row["qid"], "answer": "a", "truth": "another one"} for row in ANSWERS],
            QUESTIONS,
            "differ in column 'truth': add --map truth=truth for that of list, or --map truth=list.truth for that",
        ),
        (
            [{"id": row["qid"], "answer": "a", "gold": 7} for row in ANSWERS],
            [{**row, "expected_answer": "t"} for row in GOLD],
            "both hold answers",
        ),
        (
            [{"id": row["qid"], "response": "a", "gold": 7} for row in ANSWERS],
            [{"id": row["id"], "question": "q?", "expected_answer": "t"} for row in GOLD],
            "'gold', 'expected_answer' could each hold the ground truth: add --map truth=gold or --map truth=expected",
        ),
        (
            [{**row, "id": at} for at, row in enumerate(ANSWERS, 1)],
            QUESTIONS,
            "columns 'qid', 'id' could each hold the ids of list: add --map id=qid or --map id=id",
        ),
    ],
)
def test_a_user_is_asked_what_two_files_mean(rows: Any, others: Any, told: str) -> None:
    with pytest.raises(InputError) as failed:
        read_cases(rows, join=others)
    assert told in str(failed.value)


def test_the_two_answers_may_be_those_of_two_systems() -> None:
    rows = [{**row, "response": f"{row['qid']} says so"} for row in ANSWERS]
    others = [{"qid": row["qid"], "question": "q?", "response": "another", "gold": "t"} for row in ANSWERS]
    with pytest.raises(
        InputError, match=r"to judge 'response' of list, add --map answer=response; to judge 'list.resp"
    ):
        read_cases(rows, join=others)
    assert all(case.truth == "t" for case in read_cases(rows, {"answer": "response"}, join=others).cases)
    both = read_cases(rows, {"answer": ["response", "list.response"]}, join=others)
    assert all(len(case.answers) == 2 for case in both.cases)


def test_what_the_user_says_of_two_columns_is_heeded() -> None:
    rows = [{"id": row["qid"], "answer": row["response"]} for row in ANSWERS]
    passages = [{"id": row["qid"], "answer": row["contexts"][0], "question": "q?"} for row in ANSWERS]
    read = read_cases(rows, {"contexts": "list.answer"}, join=(passages,))
    assert [case.contexts for case in read.cases] == [("We open at nine.",), ("A ticket is twelve euros.",)]
    for names, of in (
        ({"answer": "answer", "truth": "list.answer"}, (rows, GOLD)),
        ({"answer": "list.answer", "truth": "answer"}, (GOLD, rows)),
    ):
        cases = read_cases(of[0], names, join=(of[1],)).cases
        assert {(*case.answers.values(), case.truth) for case in cases} == {
            ("It costs ten euros.", "Twelve euros."),
            ("It opens at nine.", "At nine."),
        }


def test_empty_columns_give_way_to_those_of_the_other_file() -> None:
    rows = [{**row, "question": "", "truth": None} for row in ANSWERS]
    assert read_cases(rows, join=QUESTIONS).cases == read_cases(ANSWERS, join=(QUESTIONS,)).cases


@pytest.mark.parametrize(
    ("rows", "others", "told"),
    [
        ([*ANSWERS, {**ANSWERS[0], "qid": "7"}], QUESTIONS, "row 3: list has no row with the id '7'"),
        ([*ANSWERS, {**ANSWERS[0], "qid": ""}], QUESTIONS, "row 3: column 'qid' is empty, so no row of list can be"),
        (
            [{**row, "question": "Who opens it, and when?"} for row in ANSWERS],
            QUESTIONS,
            "row 1: its question is not the one that list has for '2'",
        ),
        (
            ANSWERS,
            [*QUESTIONS, {**QUESTIONS[0], "truth": "Ten."}],
            "row 3: has the same 'id' as row 1: '1'. Each row to join needs its own",
        ),
        (ANSWERS, [*QUESTIONS, 3], "list: row 3: must be a dict"),
        (ANSWERS, [], "its columns are none. Both need a column with the same ids"),
        (ANSWERS, [{"id": "nq-8", "question": "q?"}], "the same ids, but 'qid' says '2', the other 'nq-8'"),
        ([{"prompt_no": 8, "answer": "a"}], [{"id": 8, "question": "q?"}], "'prompt_no' holds its 'id', add --map id="),
        ([{"run": {"of": 8}, "answer": "a"}], [{"id": 8, "question": "q?"}], "add --map id=run.of"),
        ([{"page": 3, "answer": "a"}] * 3 + [{"page": 4}], [{"page": 4, "question": "q?"}], "holds its 'page', add"),
        (
            [{"id": 1, "question": "q?", "answer": "a", "retrieved": ["d1", "d2"]}],
            [{"doc": "d1", "text": "We open at nine."}, {"doc": "d2", "text": "It costs twelve euros."}],
            "its rows are listed by 'doc' in 'retrieved': write the texts of those that were retrieved into your rows",
        ),
        ([{"id": 1, "answer": "a"}], [{"When does it open?": "What does it cost?"}], "first line of list must name"),
    ],
)  # fmt: skip
def test_rows_without_their_partner_are_refused(rows: Any, others: Any, told: str) -> None:
    with pytest.raises(InputError) as failed:
        read_cases(rows, join=others)
    assert told in str(failed.value)


def test_no_command_is_told_that_reads_one_file_alone() -> None:
    with pytest.raises(InputError, match=r"add --criteria relevance$"):
        read_cases([{"id": 1, "answer": "a"}], join=[{"id": 1, "question": "q?"}])


def test_bad_rows_can_be_skipped() -> None:
    read = read_cases([{**ANSWERS[0], "qid": "7"}, *ANSWERS], join=QUESTIONS, skip_bad_rows=True)
    assert [case.id for case in read.cases] == ["2", "1"]
    assert read.left_out == ("row 1: list has no row with the id '7'",)
    with pytest.raises(BadRows):
        read_cases([{**ANSWERS[0], "qid": "7"}, *ANSWERS], join=QUESTIONS)
