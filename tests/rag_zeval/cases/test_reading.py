"""The same cases out of every layout that people have them in; what does not fit is named."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval import evaluate
from rag_zeval.cases.case import Case, CaseSet
from rag_zeval.cases.reading import read_cases
from rag_zeval.errors import InputError
from rag_zeval.literal_judge import count_tokens, literal_reply
from rag_zeval.scripted_judge import ScriptedJudge

ROW = {"id": "r0", "question": "q", "reference": "r", "answers": ["yes", "no"]}
UNNAMED = {"question": "q", "reference": "r"}
AWKWARD = [
    'a "quoted" word, with a comma',
    "two\nlines",
    "[1] begins like a list",
    "ends, it's so",
    "文 \u2028 é",
    "1.5",
]


def cases(count: int = 40) -> list[Case]:
    """Cases with awkward texts, every field that a layout may hold, and a true answer for most."""
    return [
        Case(
            str(n + 1),
            f"question {n}: {AWKWARD[n % 6]}?",
            {"a": f"answer {n}: {AWKWARD[(n + 1) % 6]}"},
            tuple(f"chunk {n}.{k}: {AWKWARD[(n + k) % 6]}" for k in range(1 + n % 3)),
            f"truth {n}: {AWKWARD[(n + 2) % 6]}",
            context_ids=tuple(f"d{n}-{k}" for k in range(1 + n % 3)),
        )
        for n in range(count)
    ]


def ours(case: Case) -> dict[str, Any]:
    (answer,) = case.answers.values()
    fields = {"id": case.id, "question": case.question, "answer": answer, "contexts": list(case.contexts)}
    return {**fields, "truth": case.truth, "context_ids": list(case.context_ids)}


def write_csv(path: Path, rows: list[dict[str, Any]], delimiter: str = ",") -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_json(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def as_jsonl(folder: Path, rows: list[dict[str, Any]]) -> Path:
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "a.jsonl"


def in_cells(row: dict[str, Any]) -> dict[str, Any]:
    return {name: json.dumps(value) if isinstance(value, list) else value for name, value in row.items()}


def as_parquet(folder: Path, rows: list[dict[str, Any]]) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "a.parquet")
    return folder / "a.parquet"


def as_ragas(folder: Path, rows: list[dict[str, Any]]) -> Path:
    names = {"question": "user_input", "answer": "response", "contexts": "retrieved_contexts", "truth": "reference",
             "context_ids": "retrieved_context_ids"}  # fmt: skip
    return as_jsonl(folder, [{names[name]: row[name] for name in names} for row in rows])


def as_ragchecker(folder: Path, rows: list[dict[str, Any]]) -> Path:
    return write_json(
        folder / "a.json",
        {
            "results": [
                {
                    "query_id": row["id"], "query": row["question"], "gt_answer": row["truth"],
                    "response": row["answer"],
                    "retrieved_context": [
                        {"doc_id": i, "text": t} for i, t in zip(row["context_ids"], row["contexts"], strict=True)
                    ],
                }
                for row in rows
            ]
        },
    )  # fmt: skip


def as_open_rag_eval(folder: Path, rows: list[dict[str, Any]]) -> Path:
    passages = [
        {
            "query_id": row["id"], "query": row["question"], "query_run": 1, "passage_id": id_, "passage": text,
            "generated_answer": row["answer"] if at == 0 else "",
        }
        for row in rows
        for at, (id_, text) in enumerate(zip(row["context_ids"], row["contexts"], strict=True))
    ]  # fmt: skip
    return write_csv(folder / "a.csv", passages)


def as_deepeval(folder: Path, rows: list[dict[str, Any]]) -> Path:
    names = {
        "question": "input",
        "answer": "actual_output",
        "contexts": "retrieval_context",
        "truth": "expected_output",
    }
    return write_json(folder / "a.json", [{names[name]: row[name] for name in names} for row in rows])


def as_frame(folder: Path, rows: list[dict[str, Any]]) -> Any:
    import pandas

    return pandas.DataFrame([{**row, "system": "a"} for row in rows])


def as_dataset(folder: Path, rows: list[dict[str, Any]]) -> Any:
    import datasets

    return datasets.Dataset.from_list([{**row, "system": "a"} for row in rows])


Writer = Callable[[Path, list[dict[str, Any]]], Any]
WITHOUT = {  # fields that a layout has no place for
    "open-rag-eval": {"truth": None},
    "deepeval": {"context_ids": ()},
}
LAYOUTS: dict[str, Writer] = {
    "jsonl": as_jsonl,
    "csv": lambda folder, rows: write_csv(folder / "a.csv", [in_cells(row) for row in rows]),
    "csv of pandas": lambda folder, rows: write_csv(
        folder / "a.csv", [{n: str(v) for n, v in r.items()} for r in rows]
    ),
    "tsv": lambda folder, rows: write_csv(folder / "a.tsv", [in_cells(row) for row in rows], "\t"),
    "parquet": as_parquet,
    "ragas": as_ragas,
    "ragchecker": as_ragchecker,
    "open-rag-eval": as_open_rag_eval,
    "deepeval": as_deepeval,
    "frame": as_frame,
    "dataset": as_dataset,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_forty_cases_are_the_same_in_every_layout(layout: str, tmp_path: Path) -> None:
    from dataclasses import replace

    wanted = [replace(case, **WITHOUT.get(layout, {})) for case in cases()]
    assert read_cases(LAYOUTS[layout](tmp_path, [ours(case) for case in cases()])) == wanted


@pytest.mark.parametrize("layout", LAYOUTS)
def test_forty_cases_have_the_same_scores_in_every_layout(
    layout: str, tmp_path: Path, scripted_judge: ScriptedJudge
) -> None:
    """By a scorer of each kind; one that needs a true answer is left out where the layout has no place for it."""
    scripted_judge.replies, scripted_judge.count = literal_reply, count_tokens
    scorers = ["rag_zeval", "bleu", "umbrela_precision_at_1", *(["ccrs_ac"] if layout != "open-rag-eval" else [])]

    def scores(source: Any) -> list[tuple[str, str, float | None]]:
        found = evaluate(source, scorers=scorers, model=scripted_judge.spec(), against="contexts")
        return [(one.metric, one.case, one.score) for one in found]

    rows = [ours(case) for case in cases()]
    assert scores(LAYOUTS[layout](tmp_path, rows)) == scores(rows)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4), st.text(min_size=1, max_size=20))
def test_any_text_comes_back_from_a_csv(tmp_path_factory: Any, contexts: list[str], question: str) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    row = {"id": "1", "question": question, "answer": "a", "contexts": json.dumps(contexts)}
    try:
        write_csv(path, [row])
    except UnicodeEncodeError:  # half a character, which no UTF-8 file holds
        return
    (case,) = read_cases(path)
    assert (case.question, case.contexts) == (question, tuple(contexts))


def test_runs_of_open_rag_eval_are_cases_of_their_own_and_an_answer_may_be_missing(tmp_path: Path) -> None:
    rows = [
        {"query_id": "7", "query": "q", "query_run": run, "passage_id": p, "passage": f"p{p}", "generated_answer": a}
        for run, p, a in [(1, 1, "first"), (1, 2, ""), (2, 1, ""), (2, 3, "")]
    ]
    first, second = read_cases(write_csv(tmp_path / "a.csv", rows))
    assert (first.id, first.contexts, dict(first.answers)) == ("7", ("p1", "p2"), {"a": "first"})
    assert (second.id, second.context_ids, dict(second.answers)) == ("7#2", ("1", "3"), {"a": ""})


def test_fields_of_other_names_are_mapped_and_guessed_at(tmp_path: Path) -> None:
    path = as_jsonl(tmp_path, [{"prompt": {"text": "q"}, "out": {"text": "a"}, "docs": ["c"]}])
    names = {"question": "prompt.text", "answer": "out.text", "contexts": "docs"}
    assert read_cases(path, names) == [Case("1", "q", {"a": "a"}, ("c",))]
    for rows, message in [
        ([{"query": "q", "answer": "a"}], "a.jsonl:1: field 'question' is missing; found 'query': did you mean"),
        ([{"questoin": "q", "answer": "a"}], "found 'questoin': did you mean 'question'? (--map question=questoin)"),
        ([{"question": "q", "respones": "a"}], "field 'answer' is missing; found 'respones': did you mean 'answer'?"),
    ]:
        with pytest.raises(InputError, match="missing") as error:
            read_cases(as_jsonl(tmp_path, rows))
        assert message in str(error.value)
    with pytest.raises(InputError, match="there is no field 'anwser'"):
        read_cases(path, {"anwser": "out"})


def test_one_answer_may_stand_alone_and_ids_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n" + json.dumps({**UNNAMED, "answer": "a"}).encode()
    )
    assert read_cases(path) == [
        Case("r0", "q", {"A": "yes", "B": "no"}, reference="r"), Case("2", "q", {"in": "a"}, reference="r")
    ]  # fmt: skip


def test_answers_of_systems_have_their_names(tmp_path: Path) -> None:
    rows = [{"question": "q", "answers": {"old": "a", "new": None}}, {"question": "q2", "answer": "b", "system": "new"}]
    assert [dict(case.answers) for case in read_cases(as_jsonl(tmp_path, rows))] == [
        {"old": "a", "new": ""}, {"new": "b"}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('{"id": "x"', ":2: not valid JSON"),
        (UNNAMED, ":2: field 'answer' is missing"),
        ({**UNNAMED, "question": None, "answer": "a"}, ":2: field 'question' is missing"),
        ({**UNNAMED, "answers": "a"}, ":2: field 'answers': must be a list of strings"),
        ({**UNNAMED, "answers": [1]}, ":2: field 'answers': must be a list of strings"),
        ({**UNNAMED, "answers": []}, ":2: field 'answers': has 0, must have 1 to 26"),
        ({**UNNAMED, "answers": ["a"] * 27}, ":2: field 'answers': has 27"),
        ({**UNNAMED, "answer": "a", "id": 1.5}, ":2: field 'id': must be a string"),
        ({**UNNAMED, "answer": "a", "contexts": [None]}, ":2: field 'contexts' must hold texts, found NoneType"),
        ({**UNNAMED, "answer": "a", "contexts": 7}, ":2: field 'contexts' must be a list of texts, found int"),
        ({**UNNAMED, "answer": "a", "latency_s": "fast"}, ":2: field 'latency_s' must be a number"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, bad: Any, message: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{bad if isinstance(bad, str) else json.dumps(bad)}\n")
    with pytest.raises(InputError) as error:
        read_cases(path)
    assert str(error.value).startswith(f"{path}{message}") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"question,answer\nq,a,b\n", "a.csv:2: has another number of columns"),
        ("a.csv", b"question,answer\n\xff,a\n", "a.csv: not UTF-8 text"),
        ("a.csv", b"", "a.csv: no rows"),
        ("a.parquet", b"no parquet", "a.parquet: cannot be read"),
        ("a.json", b'{"rows": []}', "a.json: a JSON object must hold its rows in one of results"),
        ("a.json", b"[1]", "a.json: row 1: expected a JSON object, found int"),
        ("none.csv", None, "none.csv: cannot be read: No such file"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        read_cases(tmp_path / name)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_set_of_cases_names_each_and_knows_what_to_judge_by() -> None:
    one, two = Case("1", "q", {"old": "a"}, ("c", "d"), "t"), Case("1", "q", {"new": "b"})
    assert CaseSet([one, two]).keys == ["old:1", "new:1"] and CaseSet([one]).keys == ["1"]
    assert CaseSet([one]).sources("both") == ["contexts", "truth"] and CaseSet([one]).sources(None) == ["contexts"]
    assert CaseSet([one, two]).example(0, "contexts").reference == "c\n\nd"
    assert CaseSet([one, two]).example(1, "truth").reference == ""
    with pytest.raises(InputError, match="'old:1' stands twice"):
        CaseSet([one, one])
    with pytest.raises(InputError, match="--against truth: no case has a true answer"):
        CaseSet([two]).sources("truth")
    with pytest.raises(InputError, match="no case has a reference, retrieved contexts or a true answer"):
        CaseSet([two]).sources(None)
