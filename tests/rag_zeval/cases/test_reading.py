"""Cases out of files and Python objects: whose answers, by which ids, and what is told before anything is judged."""

import dataclasses
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pandas
import pyarrow
import pytest

from rag_zeval.cases.case import Case, CaseSet
from rag_zeval.cases.paths import option
from rag_zeval.cases.reading import question_id, read_cases
from rag_zeval.cases.source import BadRows
from rag_zeval.errors import InputError
from rag_zeval.files import json_line

ROWS = [
    {"question": "q1?", "answer": "It opens at nine.", "contexts": ["It opens at nine."], "truth": None},
    {"question": "q2?", "answer": "It closes at five.", "contexts": ["It closes at six."], "truth": "At five."},
]
Q1, Q2 = question_id("q1?"), question_id("q2?")


def ids(source: Any, **names: str) -> list[str]:
    return [case.id for case in read_cases(source, names).cases]


def test_files_without_ids_pair_by_question(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("question,answer,contexts\nq1?,a,c\nq2?,b,c\n")
    (tmp_path / "new.csv").write_text('question,answer,contexts\nq2?,"a\n\nb",c\n"q1?",a,c\n')
    assert ids(tmp_path / "old.csv") == [Q1, Q2] == ids(ROWS)
    assert ids(tmp_path / "new.csv") == [Q2, Q1]
    long = [{**row, "system": system} for row in ROWS for system in ("old", "new")]
    assert CaseSet(read_cases(long).cases).keys == [f"old:{Q1}", f"new:{Q1}", f"old:{Q2}", f"new:{Q2}"]


def test_equal_questions_are_numbered_and_an_id_that_is_missing_meets_no_other() -> None:
    same = [{**ROWS[0], "answer": answer} for answer in "xyz"]
    assert ids(same) == [Q1, f"{Q1}#2", f"{Q1}#3"]
    assert ids([{**ROWS[0], "id": id_} for id_ in ("1", "2", None, "3")]) == ["1", "2", Q1, "3"]


def test_ids_are_what_their_owner_wrote() -> None:
    given = uuid.uuid4()
    assert ids([{**ROWS[0], "id": id_} for id_ in (given, 7, "007", 8.0, True)]) == [
        str(given),
        "7",
        "007",
        "8",
        "True",
    ]
    with pytest.raises(InputError, match=r"row 2: duplicate id '7', also in row 1: give .* or remove column 'id'$"):
        ids([{**ROWS[0], "id": 7}, {**ROWS[0], "id": "7"}])
    told = "also in row 1, with another question: give each row its own id; if column 'id' holds other ids, such as"
    with pytest.raises(InputError, match=told):  # the id of a document, say
        ids([{**ROWS[0], "id": 7, "part": "a"}, {**ROWS[1], "id": "7", "part": "b"}])


def test_what_stands_where_is_told() -> None:
    rows = [{**ROWS[0], "time": 1, "chunks": ["c"]}, {"questoin": "q", **ROWS[1]}]
    assert str(read_cases(rows, system="mine")).splitlines() == [
        "list: 2 cases (columns known by their names)",
        "  question: column 'question', in 2 of 2",
        "  answer: column 'answer', in 2 of 2",
        "  retrieved contexts: column 'contexts', in 2 of 2",
        "  ground truth: column 'truth', in 1 of 2",
        "  id: missing in 2 of 2 cases; these are paired with other files by their question",
        "  system: 'mine', for answers that name none",
        "  not used: 'time', 'chunks', 'questoin'",
        "  warning: column 'chunks' is not used; if it holds the retrieved contexts, add --map contexts=chunks",
        "  warning: column 'questoin' is not used; if it holds the question, add --map question=questoin",
    ]


@pytest.mark.parametrize(
    ("contexts", "warned"),
    [
        (["doc_1", "doc_2"], True),
        (["https://x.org/a"], True),
        (["- https://x.org/a,b", "Prices (https://x.org/?a=b)"], True),
        (["Opening hours", "Museums of Rome – Prices"], True),
        (["Opening hours"], False),  # may be a fact
        (["Opening hours"] * 2, True),
        (["九点开门", "五点关门"], False),  # so may these
        (["Opening hours", "It opens at nine."], False),
        (["doc_1", "It is."], False),
        (["Nine."], False),
        (["4711"], True),
        (["Handbook of 2024.PDF", "ferries.md"], True),
        (["See ferries.md for it."], False),
    ],
)
def test_contexts_that_seem_to_be_no_texts_are_told(contexts: list[str], warned: bool) -> None:
    rows = [{**ROWS[0], "contexts": contexts}, {**ROWS[1], "contexts": contexts[:1]}]
    read = read_cases(rows, {"contexts": "contexts"})
    said = "look like ids, links, titles or names of files, not texts"
    assert (f"warning: the retrieved contexts {said}: '{contexts[0]}'" in str(read)) == warned
    read = read_cases([{"question": "q?", "answer": "a", "references": contexts}])
    told = f"warning: the references {said}: '{contexts[0]}'" in str(read)
    assert told == (warned and contexts[0][0].islower())  # a number may be an answer; a reference is read by word


LONG = "The museum opens at nine on all days of the week. "


@pytest.mark.parametrize(
    ("cells", "warning"),
    [
        ({"truth": "N/A"}, "ground truth: 1 of 2 say 'N/A', which is read as a text"),
        ({"contexts": ["text", "n/a"]}, "retrieved contexts: 1 of 3 say 'n/a', which is read as a text"),
        ({"answer": "None "}, None),
        ({"answer": "['Rome']"}, "answer: 1 of 2 print a list or object, which is read as a text: ['Rome']"),
        ({"answer": "{'text': 'Rome'}"}, "answer: 1 of 2 print a list or object, which is read as a text: {'text':"),
        ({"question": "other?"}, "1 case with the question, answer and contexts of another; all are judged"),
        ({"answer": "[1] says: Rome"}, None),
        (
            {"question": LONG + "q?", "contexts": [LONG]},
            "question: 1 of 2 contain a retrieved context",
        ),
        ({"question": "['Where?']"}, "question: 1 of 2 print a list or object, which is read as a text: ['Where?']"),
        ({"answer": "Reply(said='Rome')"}, "answer: 1 of 2 print a list or object"),
        ({"answer": "AIMessage(content='Rome')"}, None),
        ({"contexts": "<generator object g at 0x7f>"}, "retrieved contexts: 1 of 2 print a list or object"),
        ({"contexts": "dict_values(['Rome'])"}, "retrieved contexts: 1 of 2 print a list or object"),
        ({"contexts": ['{"city": "Rome"}']}, None),
        (
            {"question": "Total:"},
            "question: 1 of 2 say 'Total:'; if that is a row of totals, remove it: it is judged, too",
        ),
        ({"question": "Total of what?"}, None),
        ({"answer": "undefined"}, "answer: 1 of 2 say 'undefined', which is read as a text"),
        (
            {"answer": "<think>No?</think>Rome"},
            "answer: 1 of 2 hold the thoughts of a model, which are judged, too: <th",
        ),
        ({"answer": "MÃ¼nchen"}, "answer: 1 of 2 seem to have lost letters when the file was saved or read: MÃ¼nchen"),
        ({"contexts": ["M\ufffdnchen"]}, "retrieved contexts: 1 of 2 seem to have lost letters"),
        ({"answer": "“São” – São, AMANHÃ» Ãœ"}, None),
        (
            {"answer": "Error code: 429 - {'error'"},
            "answer: 1 of 2 seem to be errors, which are judged as answers; if they are, empty these cells: Err",
        ),
        ({"answer": "Rate limit exceeded. Try later."}, "answer: 1 of 2 seem to be errors"),
        ({"answer": "[Gemini error] 400 API key not valid."}, "answer: 1 of 2 seem to be errors"),
        ({"answer": "Failed: 404 NOT_FOUND."}, "answer: 1 of 2 seem to be errors"),
        ({"answer": "⚠️ The generation has failed: 503"}, "answer: 1 of 2 seem to be errors"),
        ({"answer": "The first test has failed: it rained."}, None),
        ({"answer": "An error of 400 metres was found."}, None),
        ({"contexts": ()}, None),
        ({"contexts": ["跌倒后请通知护士。", "K001 请关窗。"]}, None),
        ({"answer": "HTTP 429 stands for too many requests."}, None),
        ({"answer": f"{LONG[:40]}..."}, None),  # one text
        (
            {"answer": f"{LONG[:40]}...", "contexts": [f"{LONG[:40]}...", f"{LONG[:50]}…"]},
            "retrieved contexts: 2 of 2 end in '...'",
        ),
        (
            {"truth": ["t", "u"]},
            "ground truth: 1 of 2 rows hold several texts, of which the first is used; if they are",
        ),
        ({"contexts": ["c" * 32_767]}, "retrieved contexts: 1 of 2 have 32,767 characters, the most that Excel keeps"),
    ],
)
def test_texts_that_may_mean_something_else_are_told(cells: dict[str, Any], warning: str | None) -> None:
    other = {"question": "other?", "answer": "Rome", "contexts": ["c"], "truth": "t"}
    read = str(read_cases([other, {**other, "question": "q?", **cells}]))
    assert f"warning: {warning}" in read if warning else "warning" not in read


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("It opens. ||| It closes.", True),
        ("1. It opens.\n2. It closes.", True),
        ("[1] It opens.\n\n[2] It closes.", True),
        ("Document 1: It opens.\nIt does.\nDocument 2: It closes.", True),
        ("<doc>It opens.</doc><doc>It closes.</doc>", True),
        ("It opens.\n---\nIt closes.", True),
        ("It opens. --- It closes.", True),
        (">>> From: a\nIt opens.\n>>> From: b\nIt closes.", True),
        ("# Hours ### Summer It opens. | --- | if a === b", False),
        ("It opens.\n\nIt closes.", False),
        ("It opens in 1 of\n2 towns.", False),
        ("| a | b |\n|---|---|\n| 1 | 2 |", False),
    ],
)
def test_several_contexts_in_one_text_are_told(text: str, is_told: bool) -> None:
    rows = [{**row, "contexts": text} for row in ROWS]
    said = "warning: retrieved contexts: 2 of 2 seem to be several in one text, which is read as one"
    assert (said in str(read_cases(rows))) == is_told
    assert "warning" not in str(read_cases([{**rows[0], "contexts": [text, "It is."]}, rows[1]]))  # they are separate


def test_a_column_of_json_strings_is_read_without_their_quotation_marks() -> None:
    rows = [{**row, "answer": f'"{row["answer"]}\\nSo \\"said\\" he."'} for row in ROWS]
    read = read_cases(rows)
    assert [case.answers["answer"] for case in read.cases] == [f'{row["answer"]}\nSo "said" he.' for row in ROWS]
    assert "  JSON strings, read without their quotation marks: 'answer'" in str(read)
    (quoted, _) = read_cases([rows[0], ROWS[1]]).cases  # one text of many in quotation marks is as its owner wrote it
    assert quoted.answers["answer"] == rows[0]["answer"]


def test_json_strings_beside_objects_are_read_without_quotation_marks() -> None:
    rows = [{"question": text, "answer": "a", "contexts": "c"} for text in ('"q?"', '{"text": "r?"}', '""')]
    assert [case.question for case in read_cases(rows[:2]).cases] == ["q?", '{"text": "r?"}']
    with pytest.raises(BadRows, match=r"^row 3: column 'question' is empty"):
        read_cases(rows)


def test_an_error_among_objects_is_no_text() -> None:
    rows = [{**ROWS[0], "answer": {"output": "a"}}, {**ROWS[1], "answer": {"error": "429"}, "error": "429"}]
    with pytest.raises(InputError, match=r"Add --map answer=answer.output, if that is right"):
        read_cases(rows)
    one, two = read_cases(rows, {"answer": "answer.output"}).cases
    assert (one.answers, two.unanswered) == ({"answer": "a"}, {"answer": "no answer: 429"})


@pytest.mark.parametrize(
    ("cell", "contexts"),
    [
        ("It is.|So it is.", ("It is.", "So it is.")),
        ("It | is.", ("It | is.",)),
        ("|a | b |\n|---|---|\n", ("|a | b |\n|---|---|\n",)),
        ('["a|b", "c"]', ("a|b", "c")),
        (["a|b", "c"], ("a|b", "c")),
        (None, ()),
    ],
)
def test_contexts_that_deepeval_joined_are_several(cell: Any, contexts: tuple[str, ...]) -> None:
    saved = {"input": "q?", "actual_output": "a", "expected_output": "t", "retrieval_context": cell}
    (case,) = read_cases([{**saved, "source_file": None}]).cases
    assert case.contexts == contexts
    (case,) = read_cases([{**saved, "retrieval_context": "a|b"}]).cases  # another's file
    assert case.contexts == ("a|b",)


def test_several_answers_to_a_question_may_be_of_several_systems() -> None:
    rows = [{**ROWS[0], "id": at, "answer": text, "provider": text} for at, text in enumerate("xy")]
    told = "several answers to 1 question, each judged as a case of its own"
    advice = f"{told}; if they are of several systems, or versions of one, "
    assert f"{advice}add --map system=provider" in str(read_cases(rows))
    assert f"{advice}name these in a column 'system'" in str(read_cases([{**row, "provider": 1} for row in rows]))
    assert "several answers" not in str(read_cases(rows, {"system": "provider"}))
    one = [{**row, "provider": "x"} for row in rows]
    assert f"{told}, although they are of the same system" in str(read_cases(one, {"system": "provider"}))
    assert ids([{**row, "id": "a", "repetition_number": at} for at, row in enumerate(rows)]) == ["a", "a#2"]


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"arm": "xyxy"}, ["arm"]),
        ({"kind": "xyxy", "Model name": "xyxy"}, ["Model name"]),  # a known word
        ({"kind": "xyxy", "colour": "xyyx"}, ["kind", "colour"]),
        ({"arm": "xxyy"}, []),  # the same for both answers to a question
        ({"arm": ["x", "y", "x", None]}, []),
        ({"arm": [1, 2, 1, 2]}, []),
        ({"arm": ["2026-01-01", "2026-01-02", "2026-01-01", "2026-01-02"]}, []),
        ({"arm": ["True", "False", "True", "False"]}, []),
        ({"arm": ["a", "b", "c", "d"]}, []),  # an id of the answers
        ({"arm": ["x" * 80, "y" * 80] * 2}, []),  # a text
    ],
)
def test_columns_that_tell_the_answers_to_a_question_apart_may_name_the_system(
    columns: dict[str, Any], named: list[str]
) -> None:
    rows = [{**ROWS[at // 2], "answer": f"{at}"} | {name: of[at] for name, of in columns.items()} for at in range(4)]
    options = " or ".join(option("system", name) for name in named)
    advice = f"add {options}" if named else "name these in a column 'system'"
    assert f"or versions of one, {advice}" in str(read_cases(rows))
    with pytest.raises(InputError) as error:
        read_cases([{**row, "id": at // 2} for at, row in enumerate(rows)])
    told = f"names the system of each row, add {options}" if named else "2 of 4 rows cannot be read; fix them"
    assert str(error.value).startswith("row 2: duplicate id '0', also in row 1: ") and str(error.value).endswith(told)


@pytest.mark.parametrize("answers", [("a", "b"), ("a", None), (" ", "#N/A"), (None, None), ("a", {"error": "slow"})])
def test_columns_of_answers_are_read_as_an_object_of_them(answers: tuple[Any, Any]) -> None:
    shared = {"id": "1", "question": "q?", "contexts": ["c"], "answer": "gold", "system": "mine"}
    named = dict(zip(("No RAG", "rag.answer"), answers, strict=True))
    wide = {**shared, "No RAG": answers[0], "rag": {"answer": answers[1], "time": 1}}
    read = read_cases([wide], {"answer": ["No RAG", "rag.answer"]})
    (case,) = read_cases([{**shared, "answers": named}], {"answers": "answers"}).cases
    assert read.cases == [case]
    assert f"answers by system: columns 'No RAG', 'rag.answer', in {int(len(case.unanswered) < 2)} of 1" in str(read)
    assert "not used: 'answer'" in str(read) and "system: column 'system', in 1 of 1" in str(read)


def test_one_column_in_a_list_names_its_system() -> None:
    (case,) = read_cases([{**ROWS[0], 7: "seven"}], {"answer": [7]}).cases
    assert case.answers == {"7": "seven"}


def test_a_cell_in_which_a_formula_failed_holds_no_text() -> None:
    for failed, empty in (("#NAME?", "#N/A"), ("#WERT!", "#NV"), ("#ERROR!", "#N/D")):
        row = {"question": "q?", "answer": failed, "contexts": empty, "truth": "t"}
        (case,) = read_cases([row]).cases
        assert (case.unanswered, case.contexts) == ({"answer": f"no answer: {failed}"}, ())


def test_names_of_systems() -> None:
    rows = [{"question": "q", "answers": {"old": "a", "new": None}, "contexts": "c"}]
    (case,) = read_cases(rows).cases
    assert (case.answers, case.unanswered) == ({"old": "a", "new": ""}, {"new": "no answer"})
    (case,) = read_cases([{"question": "q", "reference": "r", "answers": ["a", "b"]}]).cases
    assert (case.answers, case.reference) == ({"A": "a", "B": "b"}, "r")
    (case,) = read_cases([{"question": "q", "contexts": "r", "answers": ["a", "b"]}], {"answers": "answers"}).cases
    assert case.answers == {"A": "a", "B": "b"}
    (case,) = read_cases(ROWS[:1], system="mine").cases
    assert case.answers == {"mine": "It opens at nine."}
    read = read_cases([{**ROWS[0], "system": "old"}, ROWS[1]], system="mine")
    assert "system: column 'system', in 1 of 2" in str(read)
    (case,) = read_cases([{"question": "q", "answers": '{"old": "a", "new": "b"}', "contexts": "c"}]).cases  # in a cell
    assert case.answers == {"old": "a", "new": "b"}
    (case,) = read_cases([{**rows[0], "system": "mine"}]).cases  # all of them are of several
    assert (case.answers, [*case.unanswered]) == ({"mine: old": "a", "mine: new": ""}, ["mine: new"])
    for name, value, message in (
        ("answers", {"text": ["a"]}, "holds lists, not one answer for each system: for gold .* --map truth=answers$"),
        ("answer", ["a"], "must be a text, found a list: for gold .* truth=answer; if its .* --map answer=answer.0$"),
    ):
        with pytest.raises(InputError, match=message):
            read_cases([{"question": "q", name: value, "contexts": "c"}])
    sentences = {"question": "q", "answer": [{"text": "One. "}, {"text": "Two."}], "contexts": "c"}
    (case,) = read_cases([sentences], {"answer": "answer.text"}).cases
    assert case.answers == {"answer": "One. Two."}
    told = "'answers' must be an object of answers by system; if it holds the answer of one system, add --map answer="
    for text, message in (("It is.", f"{told}answers"), ('["a", "b"]', "for gold answers, add --map truth=answers")):
        with pytest.raises(InputError, match=message):
            read_cases([{"question": "q", "answers": text, "contexts": "c"}])


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"answer": None}, "no answer"),
        ({"answer": float("nan")}, "no answer"),
        ({"answer": " \u200b"}, "no answer"),
        ({"answer": None, "status": "failed: HTTP 429: slow\ndown"}, "no answer: HTTP 429: slow down"),
        ({"answer": None, "error": {"message": "no route"}}, "no answer: no route"),
        ({"answer": {"error": {"message": "boom", "code": 500}}}, "no answer: boom"),
        ({"answer": "content='' additional_kwargs={'tool_calls': [{'name': 'search'}]}"}, "no answer"),
        ({"answer": "a", "error": None}, None),
        ({"answer": "ERROR: HTTP 429: slow", "error": "HTTP 429: slow"}, "no answer: HTTP 429: slow"),
        ({"answer": "no, never", "error": "no"}, None),
        ({"answer": [None], "error": "a tool was called"}, "no answer: a tool was called"),
    ],
)
def test_an_answer_that_did_not_come_has_its_reason(row: dict[str, Any], why: str | None) -> None:
    (case,) = read_cases([{**ROWS[0], **row}]).cases
    assert case.unanswered == ({} if why is None else {"answer": why})


PASSAGES = [
    {"query_id": "a", "query": "q1?", "passage_id": "[2]", "passage": "two", "generated_answer": None},
    {"query_id": "b", "query": "q2?", "passage_id": "[1]", "passage": "three", "generated_answer": "y"},
    {"query_id": "a", "query": "q1?", "passage_id": "[1]", "passage": "one", "generated_answer": "x"},
]


def test_passages_of_a_query_are_one_case_wherever_they_stand() -> None:
    one, two = read_cases(PASSAGES).cases
    assert (one.id, one.contexts, one.answers, one.context_ids) == (
        "a",
        ("one", "two"),
        {"answer": "x"},
        ("[1]", "[2]"),
    )
    assert (two.id, two.contexts) == ("b", ("three",))
    renamed = [{"q": row["query"], "text": row["passage"], "said": row["generated_answer"]} for row in PASSAGES]
    cases = read_cases(renamed, {"question": "q", "passage": "text", "answer": "said"}).cases
    assert [(case.id, case.contexts) for case in cases] == [(Q1, ("two", "one")), (Q2, ("three",))]


def test_runs_of_a_query_are_cases_of_their_own_and_two_answers_of_one_are_refused() -> None:
    runs = [{**row, "query_run": run, "generated_answer": f"{row['query']}{run}"} for run in (1, 2) for row in PASSAGES]
    assert [case.id for case in read_cases(runs).cases] == ["a", "b", "a#2", "b#2"]
    with pytest.raises(InputError, match=r"row 1: its query has 2 different answers, at row 1 and row 3"):
        read_cases([{**PASSAGES[0], "generated_answer": "z"}, *PASSAGES[1:]])
    with pytest.raises(InputError, match=r"row 1: its query has 2 different questions, at row 1 and row 3: give each"):
        read_cases([{**PASSAGES[0], "query": "q3?"}, *PASSAGES[1:]])


@pytest.mark.parametrize("ids", [(503, 12), ("9" * 5000, "8"), ("d2", "d1"), (1, 1)])
def test_passages_whose_ids_are_no_ranks_keep_their_order_and_ids(ids: tuple[Any, ...]) -> None:
    rows = [
        {"question": "q?", "answer": "a", "hit": {"text": text, "id": id_}}
        for text, id_ in zip(("best", "second"), ids, strict=True)
    ]
    (case,) = read_cases(rows, {"passage": "hit.text", "context_ids": "hit.id"}).cases
    assert (case.contexts, case.context_ids) == (("best", "second"), tuple(map(str, ids)))


def test_a_passage_a_row_under_another_name_is_not_judged_row_by_row() -> None:
    rows = [{"question": "q?", "answer": "a", "context": text} for text in ("one", "two")]
    with pytest.raises(
        InputError, match=r"row 2: has the same question and answer as row 1 but another context.*--map passage=context"
    ):
        read_cases(rows)
    (case,) = read_cases(rows, {"passage": "context"}).cases
    assert case.contexts == ("one", "two")
    others = [{**row, "answer": "another", "arm": "b"} for row in rows]  # of another system, which no column names
    with pytest.raises(InputError, match=r"row 3: has the same question and answer as row 2 but"):
        read_cases([rows[0], others[0], others[1]])
    with pytest.raises(InputError, match=r"2 different answers, .* of several systems, add --map system=COLUMN"):
        read_cases([*rows, *others], {"passage": "context"})
    rows = [rows[0], {"context": "two"}]  # as in a spreadsheet, where the row above is meant
    with pytest.raises(InputError, match=r"row 2: .*repeat its 'question' here, and add --map passage=context; else"):
        read_cases(rows)
    (case,) = read_cases([rows[0], {**rows[1], "question": rows[0]["question"]}], {"passage": "context"}).cases
    assert case.contexts == ("one", "two")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["0,75", "1,234"], [0.75, 1.234]),  # as in half of Europe
        (["1,5", " 12 "], [1.5, 12]),
        (["1,234", "2,000"], None),  # may be thousands
        (["1.5", "1,234"], None),
        (["0,5", "1.234,5"], None),
    ],
)
def test_a_decimal_comma_is_read_if_it_can_be_nothing_else(written: list[str], read: list[float] | None) -> None:
    rows = [{**row, "latency_s": cell, "cost_usd": cell} for row, cell in zip(ROWS, written, strict=True)]
    if read is None:
        with pytest.raises(InputError, match=r"must be a number, 0 or more, with a point before its fraction, found '"):
            read_cases(rows)
    else:
        assert [(case.latency_s, case.cost_usd) for case in read_cases(rows).cases] == [(one, one) for one in read]


def test_all_bad_rows_are_told_and_can_be_left_out(tmp_path: Path) -> None:
    bad = [{**ROWS[0], "question": None}, {**ROWS[0], "answer": [1]}, {**ROWS[0], "latency_s": "fast"}]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(map(json_line, [*bad, *ROWS])) + b'{"question"\n')
    with pytest.raises(BadRows) as error:
        read_cases(path)
    assert error.value.lines == [
        f"{path}:1: column 'question' is empty: fill it in, or remove the row",
        f"{path}:2: column 'answer': must be a text, found a list; if the text is inside, name its place with --map, "
        "such as output.text or outputs.0",
        f"{path}:3: column 'latency_s': must be a number, 0 or more, found 'fast'",
        f"{path}:6: not valid JSON: Expecting ':' delimiter at column 12",
        "4 of 6 rows cannot be read; fix them, or add --skip-bad-rows",
    ]
    read = read_cases(path, skip_bad_rows=True)
    assert [case.id for case in read.cases] == [Q1, Q2] and "  skipped: 4 bad rows" in str(read)
    with pytest.raises(BadRows, match=r"the row; 1 of 2 rows cannot be read; fix it, or add --skip-bad-rows$"):
        read_cases([ROWS[0], bad[0]])
    for rows in ([{**ROWS[0], "question": None}] * 50, [7] * 50):
        with pytest.raises(BadRows) as error:
            read_cases(rows, skip_bad_rows=True)
        assert error.value.lines[20:] == ["and 30 more", "50 of 50 rows cannot be read; fix them"]


@pytest.mark.parametrize("source", [[], "none.csv", None, "question,answer\nq,a", b"x", 7, [1], {}])
def test_what_holds_no_rows_is_an_error(source: Any) -> None:
    with pytest.raises(InputError):
        read_cases(source)


@dataclasses.dataclass
class Sample:
    user_input: str
    response: str
    retrieved_contexts: list[Any]
    reference: str | None


def chunk_of_langchain(text: str) -> Any:
    return SimpleNamespace(page_content=text, id=None)


def chunk_of_llama_index(text: str) -> Any:
    return SimpleNamespace(node=SimpleNamespace(node_id="n1", get_content=lambda: text))


def python_sources() -> dict[str, Any]:
    frame = pandas.DataFrame(ROWS)
    plain = [dict(row) for row in ROWS]
    return {
        "dicts": plain,
        "a generator": (row for row in plain),
        "columns": {name: [row[name] for row in ROWS] for name in ROWS[0]},
        "frame": frame,
        "frame, sampled": frame.sample(2, random_state=0).sort_values("question"),
        "frame, nullable": frame.convert_dtypes(),
        "frame, arrays": frame.assign(contexts=[np.array(texts) for texts in frame.contexts]),
        "frame, tuples": frame.assign(contexts=[tuple(texts) for texts in frame.contexts]),
        "frame, sets": frame.assign(contexts=[set(texts) for texts in frame.contexts]),
        "frame, nulls in lists": frame.assign(contexts=[[*texts, None, float("nan")] for texts in frame.contexts]),
        "frame, another column": frame.assign(ts=pandas.Timestamp("2026-01-01"), obj=[object(), object()]),
        "data set": datasets.Dataset.from_pandas(frame),
        "data set, iterable": datasets.Dataset.from_pandas(frame).to_iterable_dataset(),
        "pyarrow": pyarrow.Table.from_pandas(frame),
        "models of pydantic": [SimpleNamespace(model_dump=row.copy) for row in ROWS],
        "dataclasses": [Sample(row["question"], row["answer"], row["contexts"], row["truth"]) for row in ROWS],
        "LangChain": [{**row, "contexts": [*map(chunk_of_langchain, row["contexts"])]} for row in ROWS],
        "LlamaIndex": [{**row, "contexts": [*map(chunk_of_llama_index, row["contexts"])]} for row in ROWS],
    }


@pytest.mark.parametrize("kind", python_sources())
def test_python_objects_hold_the_same_cases(kind: str) -> None:
    wanted = read_cases(ROWS).cases
    found = [dataclasses.replace(case, context_ids=()) for case in read_cases(python_sources()[kind]).cases]
    assert found == wanted


def test_frames_with_odd_names_and_indices() -> None:
    frame = pandas.DataFrame(ROWS)
    data = datasets.Dataset.from_pandas(frame)
    assert ids(datasets.DatasetDict(test=data)) == [Q1, Q2]
    assert ids(frame.assign(id=["a", "b"]).set_index("id")) == ["a", "b"]
    assert ids(frame.assign(id=[1.0, float("nan")])) == ["1", Q2]
    assert read_cases(frame.rename(columns={"question": 0}), {"question": 0}).cases == read_cases(frame).cases
    for source, message in [
        (pandas.concat({"data": frame}, axis=1), "columns have several levels"),
        (frame.rename(columns={"question": 0}), "no column found for the question; columns: '0', 'answer'"),
        (pandas.concat([frame, frame[["answer"]]], axis=1), "two columns named 'answer'"),
        (datasets.DatasetDict(a=data, b=data), r"holds the splits a, b: give one of them, such as data\['a'\]"),
        (frame.iloc[:0], "no rows"),
        (frame.set_axis(pandas.MultiIndex.from_arrays([[1, 2]] * 2, names=["k", "k"])), "two columns named 'k'"),
        (frame.answer, "Series: holds str, not rows"),
        ([frame, frame], r"holds DataFrame, not rows.* one frame of their rows with a column 'system'"),
        ({"old": frame, "new": frame}, "holds DataFrame, not rows"),
        ([Path("old.csv"), Path("new.csv")], "holds PosixPath, not rows: give the path of one file"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=message):
            read_cases(source)


def test_times_of_numpy_are_no_numbers() -> None:
    days, seconds = np.array(["2024-01-01", "2024-01-02"], "M8[ns]"), np.array([1, 2], "m8[s]").astype("m8[ns]")
    assert ids({**pandas.DataFrame(ROWS).to_dict("list"), "id": days}) == ["2024-01-01 00:00:00", "2024-01-02 00:00:00"]
    for latency_s in seconds, list(seconds):
        with pytest.raises(InputError, match=r"column 'latency_s': must be a number, .* found datetime.timedelta"):
            read_cases({**pandas.DataFrame(ROWS).to_dict("list"), "latency_s": latency_s})


def test_a_set_of_cases_names_each_and_knows_what_to_judge_by() -> None:
    one, two = Case("1", "q", {"old": "a"}, ("c", "d"), "t"), Case("1", "q", {"new": "b"})
    assert CaseSet([one, two]).keys == ["old:1", "new:1"] and CaseSet([one]).keys == ["1"]
    assert CaseSet([one]).sources("both") == ["contexts", "truth"] and CaseSet([one]).sources(None) == ["contexts"]
    assert CaseSet([one, two]).example(0, "contexts").reference == "c\n\nd"
    assert CaseSet([one, two]).example(1, "truth").reference == ""
    with pytest.raises(InputError, match="duplicate id 'old:1'"):
        CaseSet([one, one])
    for case, against, message in [
        (two, "truth", "--against truth: no case has any ground truth"),
        (one, "context", "--against context: must be one of contexts, truth, reference, both"),
        (two, None, "no case has a reference, retrieved contexts or ground truth"),
    ]:
        with pytest.raises(InputError, match=message):
            CaseSet([case]).sources(against)


@pytest.mark.parametrize(
    ("field", "length", "warned"),
    [
        ("answer", 200, True),
        ("truth", 500, True),
        ("contexts", 500, True),
        ("answer", 90, False),
    ],
)
def test_texts_that_all_end_at_the_same_length_seem_to_be_cut_off(field: str, length: int, warned: bool) -> None:
    rows = [{"question": f"{at}?", "answer": "a", "contexts": "c"} for at in range(4)]
    rows = [{**row, field: (f"{at} {LONG}" * 20)[:length]} for at, row in enumerate(rows)]
    told = f"4 of 4 have exactly {length} characters; they seem to be cut off"
    assert (told in str(read_cases(rows))) == warned
    rows = [{**row, field: row[field][at:]} for at, row in enumerate(rows)]
    assert "seem to be cut off" not in str(read_cases(rows))


@pytest.mark.parametrize(("length", "warned"), [(200, True), (500, False)])
def test_several_contexts_of_one_length_may_be_chunks_of_a_fixed_size(length: int, warned: bool) -> None:
    """No chunk is as short as 200 characters."""
    text = (LONG * 20)[: length - 1]
    rows = [{"question": f"{at}?", "answer": "a", "contexts": [f"{at}{text}", f"{at}{text}"]} for at in range(4)]
    assert ("seem to be cut off" in str(read_cases(rows))) == warned


def test_the_same_answer_to_all_questions_is_told() -> None:
    rows = [{"question": f"{at}?", "answer": "LLM not available", "contexts": "It is."} for at in range(3)]
    told = "answer: all 3 of answer are the same; if it is an error, empty these cells: LLM not available"
    assert told in str(read_cases(rows))
    assert "are the same" not in str(read_cases(rows[:2]))
    assert "are the same" not in str(read_cases([*rows[:2], {**rows[2], "answer": "So."}]))


def test_the_steps_of_a_trace_are_no_cases() -> None:
    """Langfuse, Phoenix and LangSmith export one row for each step."""
    row = {"question": "q?", "answer": "a", "contexts": "c"}
    steps = [
        {**row, "context": {"span_id": f"{at}{step}", "trace_id": f"{at}0"}, "parent_id": f"{at}0" if step else None}
        for at in range(2)
        for step in range(3)
    ]
    told = (
        "rows are parts of other rows, by column 'parent_id': write one row for each question, with its answer and con"
    )
    with pytest.raises(InputError, match=told):
        read_cases(steps)
    for parents in (None, None), ("doc-1", "doc-2"), ("10", "00"):  # whole traces; documents; nothing is the first step
        rows = [{**step, "parent_id": parent} for step, parent in zip(steps[::3], parents, strict=True)]
        assert len(read_cases(rows).cases) == 2
    rows = [{**row, "document_id": f"d{at}", "parent_id": f"d{at}"} for at in range(2)]
    assert len(read_cases(rows).cases) == 2


def test_milliseconds_in_a_column_of_seconds_are_told() -> None:
    rows = [{"question": f"{at}?", "answer": "a", "contexts": "c", "latency_s": 800 * at} for at in range(4)]
    told = "latency in seconds: half of them are 1,200 or more; if these are milliseconds, divide them by 1,000"
    assert told in str(read_cases(rows))
    assert "milliseconds" not in str(read_cases([{**row, "latency_s": 0.8 * at} for at, row in enumerate(rows)]))


def test_a_list_of_answers_needs_a_reference_that_is_filled() -> None:
    row = {"question": "q?", "answers": ["a", "b"], "reference": "It is.", "contexts": "c"}
    assert len(read_cases([row], {"reference": "reference"}).cases[0].answers) == 2
    with pytest.raises(InputError, match="is a list that does not name the systems"):
        read_cases([{**row, "reference": ""}], {"reference": "reference"})


def test_a_column_without_a_value_is_told() -> None:
    row = {"question": "q?", "answer": "a", "contexts": [], "truth": "t"}
    assert "warning: column 'contexts' is empty in every row" in str(read_cases([row]))
