"""A set in order has no finding; each thing that is wrong in it has one, with its line."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_zeval.cases.case import set_version
from rag_zeval.cases.columns import Columns
from rag_zeval.cases.question_files import QuestionFile
from rag_zeval.cases.reading import read_cases
from rag_zeval.golden.check_set import READ, changes, findings, hashes, read_set

Set = dict[int, dict[str, Any]]
WORDS = "how do we return a laptop that was sent to us".split()


def a_set(n: int = 60) -> Set:
    """A set with nothing to fix; questions of 8 words that no other has."""
    rng = random.Random(0)
    return {
        line: {
            "question": " ".join("".join(rng.choices("abcdefgh", k=9)) for _ in range(8)),
            "gold_chunk_ids": [f"c{line}"],
            "truth": "Yes.",
            "slice_tag": f"slice {line % 6}",
            "origin": "production" if line % 2 else "written",
        }
        for line in range(1, n + 1)
    }


def placed(rows: Set) -> dict[str, Any]:
    return {f"g.csv:{line}": row for line, row in rows.items()}


def found_in(rows: Set) -> list[tuple[int, str, str]]:
    read = QuestionFile("g.csv", Columns("", {field: field for field in READ}, (), {}, {}), placed(rows))
    return [(int(one.place.removeprefix("g.csv:")), one.field, one.text) for one in findings(read)]


def test_a_set_in_order_has_nothing_to_mend() -> None:
    assert all(found_in(a_set(n)) == [] for n in (50, 200))
    rows = a_set()
    rows[3] |= {"truth": None, "gold_chunk_ids": []}  # a question that cannot be answered
    assert found_in(rows) == []


@pytest.mark.parametrize("field", ["question", "gold_chunk_ids", "truth", "slice_tag"])
@pytest.mark.parametrize("value", ["absent", None, "", " \n", "\u200b", "None", [], [None], [""], {"a": 1}])
def test_what_a_row_lacks_is_one_finding(field: str, value: Any) -> None:
    rows = a_set()
    rows[7][field] = value
    if value == "absent":
        del rows[7][field]
    [(line, named, _)] = found_in(rows)
    assert (line, named) == (7, field)


@pytest.mark.parametrize(
    ("n", "line", "text"),
    [
        (49, 49, "the set has 49 questions, should have 50 to 200"),
        (201, 201, "the set has 201 questions, should have 50 to 200"),
    ],
)
def test_a_set_of_another_size_is_a_finding(n: int, line: int, text: str) -> None:
    [(at, field, said)] = found_in(a_set(n))
    assert (at, field) == (line, "set") and text in said


def test_small_slices_and_another_origin_are_findings() -> None:
    rows = a_set()
    for line in (3, 5, 7, 9):
        rows[line]["slice_tag"] = "rare"
    assert [f[:2] for f in found_in(rows)] == [(3, "slice_tag")] and "'rare': 4 of at least 5" in found_in(rows)[0][2]
    rows[11]["slice_tag"] = "rare"
    assert found_in(rows) == []
    rows[12]["origin"] = rows[1]["origin"] = "written"  # 29 of 60
    del rows[2]["origin"]
    assert found_in(rows) == [
        (
            1,
            "origin",
            "29 of 60 questions are from production, should be at least half (1 say nothing in column 'origin')",
        )
    ]


@settings(max_examples=25)
@given(st.integers(1, 59), st.sampled_from([" ", "  ", "\t", "\u00a0"]), st.text(" ?!.？", max_size=3), st.randoms())
def test_the_same_question_in_other_letters_is_a_duplicate(line: int, space: str, end: str, rng: random.Random) -> None:
    rows = a_set()
    letters = [c.upper() if rng.random() < 0.5 else c for c in rows[line]["question"]]
    rows[60]["question"] = "".join(letters).replace(" ", space) + end
    assert found_in(rows) == [(60, "question", f"duplicate of the question in g.csv:{line}")]


@settings(max_examples=25)
@given(st.permutations(WORDS), st.integers(0, 11))
def test_the_same_words_and_one_more_are_a_near_duplicate(order: list[str], at: int) -> None:
    rows = a_set()
    rows[8]["question"] = " ".join(WORDS) + "?"
    rows[9]["question"] = " ".join([*order[:at], "safely", *order[at:]])
    text = "near-duplicate of the question in g.csv:8: Jaccard index of their words 0.92"
    assert found_in(rows) == [(9, "question", text)]
    rows[9]["question"] = rows[9]["question"].replace("laptop", "phone")  # another thing to ask: 10 words of 13
    assert found_in(rows) == []


@pytest.mark.parametrize(("first", "second"), [("a", "a"), (7, "7"), ("", ""), (None, None), ("a", "A")])
def test_an_id_names_one_row(first: Any, second: Any) -> None:
    rows = a_set()
    rows[3]["id"], rows[8]["id"] = first, second
    told = [(8, "id", "duplicate of the id in g.csv:3")]
    assert found_in(rows) == (told if first and str(first) == second else [])


def test_questions_that_differ_in_a_number_are_two() -> None:
    rows = a_set()
    for line in (8, 9):
        rows[line]["question"] = f"{' '.join(WORDS)} and to {' '.join(reversed(WORDS))} by form {line}?"
    assert found_in(rows) == []


def version(rows: Set) -> str:
    return set_version(map(hashes, rows.values()))


@settings(max_examples=25)
@given(st.randoms(), st.integers(1, 60), st.sampled_from(["question", "truth", "gold_chunk_ids"]))
def test_the_version_of_a_set_is_that_of_its_texts(rng: random.Random, line: int, field: str) -> None:
    rows = a_set()
    lines = rng.sample(sorted(rows), len(rows))
    told = {at: {**rows[at], "slice_tag": "x", "id": str(at), "truth": " Yes.\n"} for at in lines}
    assert version(told) == version(rows)
    answered = read_cases([{**row, "answer": "It is."} for row in told.values()])
    assert set_version(case.golden for case in answered.cases) == version(rows)  # a result file has the same
    told[line][field] = ["c0", *told[line][field]] if field == "gold_chunk_ids" else f"{told[line][field]} Or not."
    assert version(told) != version(rows)


def test_edits_are_named_and_rows_that_come_and_go_are_counted() -> None:
    old = {line: {**row, "id": line} for line, row in a_set(57).items()}
    now = {line + 1: dict(row) for line, row in old.items() if line not in (5, 6)}
    now[4]["truth"] = now[4].pop("truth").lower()
    now[9]["slice_tag"], now[9]["gold_chunk_ids"] = "other", []
    now[99] = {**now[10], "id": "new"}
    found = changes(placed(now), placed(old))
    assert (found.same, found.new, found.gone) == (53, 1, 2)
    edits = [("g.csv:4", "truth"), ("g.csv:9", "gold_chunk_ids"), ("g.csv:9", "slice_tag")]
    assert [(edit.place, edit.field) for edit in found.edits] == edits
    assert found.edits[0].text.startswith("edited since g.csv:3: ")


def test_the_command_names_file_and_line_and_its_exit_status_says_what_it_found(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "golden.jsonl"
    lines = [json.dumps(row) for row in a_set().values()]
    path.write_text("\n".join(lines))
    shown = run("check-set", path)
    assert shown.returncode == 0 and "nothing to fix" in shown.stdout
    assert "  ground truth: column 'truth', in 60 of 60\n" in shown.stderr and "not used" not in shown.stderr
    assert ["slice", "0", "10", "0"] in [line.split() for line in shown.stdout.splitlines()]
    assert f"version {version(a_set())}: 60 questions" in shown.stdout
    (tmp_path / "old.jsonl").write_text("\n".join([*lines[:-1], lines[-1].replace("Yes.", "No.")]))
    shown = run("check-set", path, "--against", "old.jsonl")
    assert shown.returncode == 1 and "59 questions unchanged, 1 edited, 0 new, 0 removed" in shown.stdout
    assert re.search(rf"{path}:60 +truth +edited since old.jsonl:60: ", shown.stdout)
    path.write_text("\n".join([*lines, "{", json.dumps({"slice_tag": "[red]\x1b[2J"})]))
    shown = run("check-set", path)
    assert shown.returncode == 1 and "\x1b" not in shown.stdout
    told = [line.split()[:2] for line in shown.stdout.splitlines() if str(path) in line]
    fields = ["question", "truth", "gold_chunk_ids", "slice_tag"]
    assert told == [[f"{path}:2", "origin"], [f"{path}:61", "row"], *([f"{path}:62", field] for field in fields)]
    (tmp_path / "old.jsonl").write_text("\n".join([*lines[:30], "{", *lines[30:]]))
    shown = run("check-set", path, "--against", "old.jsonl")
    assert (shown.returncode, shown.stdout) == (2, "") and shown.stderr.startswith(
        "error: old.jsonl:31: not valid JSON"
    )
    for content in (None, "\n", "[1]\n[2]\n"):
        path.unlink(missing_ok=True) if content is None else path.write_text(content)
        shown = run("check-set", path)
        assert shown.returncode == 2 and shown.stderr.startswith(f"error: {path}")
    assert shown.stderr.endswith("2 of 2 rows cannot be read; fix them\n")


def test_a_field_that_no_row_has_is_one_line_and_a_set_without_questions_is_none(run: Any, tmp_path: Path) -> None:
    rows = [
        {"query": row["question"], "answer": "Yes.", "gold_chunk_ids": "a, b", "kind": row["slice_tag"]}
        for row in a_set().values()
    ]
    (tmp_path / "g.json").write_text(json.dumps(rows))
    shown = run("check-set", "g.json")
    assert shown.returncode == 1
    told = [" ".join(line.split()) for line in shown.stdout.splitlines() if "g.json" in line]
    assert told[:2] == [
        f"g.json {field} no column found; if one holds it, add --map {field}=COLUMN" for field in ("truth", "slice_tag")
    ]
    assert told[2].startswith("g.json gold_chunk_ids in all 60 rows: may hold several ids") and len(told) == 4
    assert "not used; if it holds the ground truth, add --map truth=answer\n" in shown.stderr
    told = run("check-set", "g.json", "--map", "truth=answer", "--map", "slice_tag=kind").stdout
    assert "no column" not in told and "slice 5 10" in " ".join(told.split())
    (tmp_path / "g.json").write_text(json.dumps([{"text": "Yes, it is.", "id": n} for n in range(60)]))
    shown = run("check-set", "g.json")
    assert (shown.returncode, shown.stdout) == (2, "") and shown.stderr.startswith(
        "error: g.json: no column found for the question; columns: 'text', 'id'. If another column"
    )


@pytest.mark.parametrize(
    "row",
    [
        {"question": "q?", "reference": "t"},
        {"question": "q?", "reference": "t", "contexts": ["c"]},
        {"user_input": "q?", "reference": "t", "reference_contexts": ["c"], "synthesizer_name": "s", "response": "a"},
        {"question": "q?", "ground_truth": "t", "contexts": ["c"], "evolution_type": "simple", "episode_done": True},
        {"question": "q?", "reference_answer": "t", "reference": "x", "expected": ["7:1"]},
        {"inputs": {"question": "q?"}, "reference_outputs": {"answer": "t"}},
    ],
)
def test_question_and_ground_truth_are_those_that_the_layout_means(row: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text(json.dumps(row))
    ((found,),) = (read_set(tmp_path / "g.jsonl").rows.values(),)
    assert isinstance(found, dict) and (found["question"], found["truth"]) == ("q?", "t")


@pytest.mark.parametrize("name", ["g.csv", "g.xlsx", "g.json"])
def test_a_golden_set_may_be_any_table_with_names_that_evaluate_knows(run: Any, tmp_path: Path, name: str) -> None:
    rows = a_set()
    rows[2] |= {"truth": 30, "slice_tag": 2}
    rows[4] |= {"truth": None, "gold_chunk_ids": []}
    others = {"question": "Query", "truth": "Ground Truth", "slice_tag": "Slice"}
    kept = [{others.get(field, field): value for field, value in row.items()} for row in rows.values()]
    cells = [{**row, "gold_chunk_ids": json.dumps(row["gold_chunk_ids"])} for row in kept]
    if name == "g.json":
        (tmp_path / name).write_text(json.dumps(kept))
    else:
        frame = pandas.DataFrame(cells)
        frame.to_csv(tmp_path / name, index=False) if name == "g.csv" else frame.to_excel(tmp_path / name, index=False)
    (tmp_path / "old.jsonl").write_text("\n".join(map(json.dumps, rows.values())))
    shown = run("check-set", name, "--against", "old.jsonl")
    assert shown.returncode == 1 and "60 questions unchanged, 0 edited, 0 new, 0 removed" in shown.stdout
    (told,) = (line for line in shown.stdout.splitlines() if name in line)
    assert told.rstrip().endswith("slice '2': 1 of at least 5 questions")
