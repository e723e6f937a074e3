"""Rows that get their questions, contexts or truths from another file."""

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
    {"id": 1, "question": "What does it cost?", "answer": "Twelve euros."},
    {"id": 2, "question": "When does it open?", "answer": "At nine."},
]
ANSWERS = [
    {"qid": "2", "response": "It opens at nine.", "contexts": ["We open at nine."]},
    {"qid": "1", "response": "It costs ten euros.", "contexts": ["A ticket is twelve euros."]},
]
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
    read = read_cases([row for at, row in enumerate(rows) if at in own or not own], joined=others)
    assert read.cases == [case for at, case in enumerate(read_cases(WHOLE).cases) if at in own or not own]


def test_the_report_says_by_what_files_were_joined_and_what_their_columns_are_called(tmp_path: Path) -> None:
    (tmp_path / "q.v2.jsonl").write_bytes(b"".join(map(json_line, QUESTIONS)))
    (tmp_path / "a.csv").write_text("qid,response,contexts\n2,It opens at nine.,We open at nine.\n")
    read = read_cases(tmp_path / "a.csv", joined=tmp_path / "q.v2.jsonl")
    assert [(case.id, case.question, case.truth) for case in read.cases] == [("2", "When does it open?", None)]
    joined = f"joined with {tmp_path}/q.v2.jsonl by 'qid' = 'id': 1 of its 2 rows used"
    assert f"{joined}; its column 'answer' is called 'q.answer'" in str(read)
    assert "'q.answer' is not used; if it holds the ground truth, add --map truth=q.answer" in str(read)
    of_truth = read_cases(tmp_path / "a.csv", {"truth": "q.answer"}, joined=tmp_path / "q.v2.jsonl")
    assert [case.truth for case in of_truth.cases] == ["At nine."]


@pytest.mark.parametrize(
    ("rows", "others", "names", "by"),
    [
        (ANSWERS, QUESTIONS, {}, "'qid' = 'id'"),
        ([{**row, "id": f"run-{row['qid']}"} for row in ANSWERS], QUESTIONS, {"id": "qid"}, "'qid' = 'id'"),
        (  # an id of the rows themselves
            [{**row, "id": 90 + at} for at, row in enumerate(ANSWERS)],
            QUESTIONS,
            {"id": "qid"},
            "'qid' = 'id'",
        ),
        (
            [{"meta": {"of": row["qid"]}, "response": "a", "contexts": "c"} for row in ANSWERS],
            [{"no": row["id"], "question": row["question"]} for row in QUESTIONS],
            {"id": "meta.of"},
            "'meta.of' = 'no'",
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
    read = read_cases(rows, names, joined=others)
    assert f"joined with list by {by}: 2 of its 2 rows used" in str(read)
    assert [case.question.strip() for case in read.cases] == ["When does it open?", "What does it cost?"]


def test_answers_of_several_systems_share_a_question() -> None:
    rows = [{**row, "system": system} for row in ANSWERS for system in ("old", "new")]
    cases = read_cases(rows, joined=QUESTIONS).cases
    assert [(case.id, *case.answers) for case in cases] == [("2", "old"), ("2", "new"), ("1", "old"), ("1", "new")]


@pytest.mark.parametrize(
    ("rows", "others", "told"),
    [
        ([*ANSWERS, {**ANSWERS[0], "qid": "7"}], QUESTIONS, "row 3: list has no row with the id '7'"),
        ([*ANSWERS, {**ANSWERS[0], "qid": ""}], QUESTIONS, "row 3: column 'qid' is empty, so no row of list can be"),
        (
            [{**row, "question": "What does it cost?"} for row in ANSWERS],
            QUESTIONS,
            "row 1: its question is not the one that list has for '2'",
        ),
        (ANSWERS, [*QUESTIONS, QUESTIONS[0]], "row 3: has the same 'id' as row 1: '1'. Each row to join needs its own"),
        (
            ANSWERS,
            [{"id": 8, "question": "q?"}],
            "list: shares no id and no question with list, whose columns are 'id'",
        ),
        (ANSWERS, [*QUESTIONS, 3], "list: row 3: must be a dict"),
        (ANSWERS, [], "whose columns are none; add --map id=COLUMN"),
    ],
)
def test_rows_without_their_partner_are_refused(rows: Any, others: Any, told: str) -> None:
    with pytest.raises(InputError) as failed:
        read_cases(rows, joined=others)
    assert told in str(failed.value)


def test_bad_rows_can_be_skipped() -> None:
    read = read_cases([{**ANSWERS[0], "qid": "7"}, *ANSWERS], joined=QUESTIONS, skip_bad_rows=True)
    assert [case.id for case in read.cases] == ["2", "1"]
    assert read.left_out == ("row 1: list has no row with the id '7'",)
    with pytest.raises(BadRows):
        read_cases([{**ANSWERS[0], "qid": "7"}, *ANSWERS], joined=QUESTIONS)
