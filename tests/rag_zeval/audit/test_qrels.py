"""Two qrels files, from their lines to kappas, against textbook formulas, scipy and ir-measures' reader."""

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from rag_zeval.audit.agreement import Measure, kappa, kendall, linear_kappa, quadratic_kappa, spearman
from rag_zeval.audit.qrels import HIGHEST, Qrels, graded_pairs, read_qrels
from rag_zeval.errors import InputError
from rag_zeval.scripted_judge import ScriptedJudge
from rag_zeval.text import text_id, trec_id

MEASURES: tuple[Measure, ...] = (kappa, linear_kappa, quadratic_kappa, kendall, spearman)
GRADED = {"a": "14 Q0 doc#1_2 2\n", "b": "14 0 doc#1_3\t0\r\n", "c": "7 0 doc#1_2 3"}


def qrels(highest: int = 4) -> st.SearchStrategy[Qrels]:
    words = st.text(st.characters(codec="utf-8", exclude_characters=" \t\n\r\v\f\ufeff"), min_size=1, max_size=3)
    return st.dictionaries(st.tuples(words, words), st.integers(0, highest), min_size=1, max_size=30)


def lines_of(grades: Qrels) -> str:
    return "".join(f"{topic} 0 {document} {grade}\n" for (topic, document), grade in grades.items())


def textbook_kappa(first: NDArray[np.int_], second: NDArray[np.int_], power: int) -> float:
    """1 - sum of weights x observed / sum of weights x expected (Cohen 1968), by loops over a table of five grades."""
    seen = chance = 0.0
    for i, j in itertools.product(range(5), repeat=2):
        weight = abs(i - j) ** power if power else float(i != j)
        seen += weight * float(np.mean((first == i) & (second == j)))
        chance += weight * float(np.mean(first == i) * np.mean(second == j))
    return 1 - seen / chance if chance else math.nan


@pytest.mark.filterwarnings("ignore")
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_statistics_are_those_of_the_textbook_and_of_scipy(grades: list[tuple[int, int]]) -> None:
    people, judge = np.array(grades).T
    ratings = graded_pairs(*({("1", str(at)): int(grade) for at, grade in enumerate(of)} for of in (people, judge)))
    expected = [
        *(textbook_kappa(judge, people, power) for power in (0, 1, 2)),
        stats.kendalltau(judge, people).statistic,
        stats.spearmanr(judge, people).statistic,
    ]
    found = [float(measure(ratings, ratings.weights[None])[0]) for measure in MEASURES]
    assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)


@given(qrels(), qrels())
def test_pairs_of_one_file_alone_are_left_out(people: Qrels, judge: Qrels) -> None:
    both = people.keys() & judge.keys()
    if not both:
        with pytest.raises(InputError, match="no pair of topic and document"):
            graded_pairs(people, judge)
        return
    pairs = graded_pairs(people, judge)
    assert pairs.cases == [topic for topic, document in people if (topic, document) in both]  # topics are drawn whole
    levels = len(pairs.confusion())
    expected = [[sum((judge[p], people[p]) == (i, j) for p in both) for j in range(levels)] for i in range(levels)]
    assert pairs.confusion() == expected and sum(map(sum, expected)) == len(both)


@given(qrels(HIGHEST))
def test_a_file_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, grades: Qrels) -> None:
    path = tmp_path_factory.mktemp("qrels") / "written"
    path.write_bytes(lines_of(grades).encode())
    assert read_qrels(path) == grades


def test_a_file_is_read_as_ir_measures_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "qrels"
    path.write_bytes("".join([GRADED["a"], GRADED["b"], GRADED["c"]]).encode())
    theirs = {(one.query_id, one.doc_id): one.relevance for one in ir_measures.read_trec_qrels(str(path))}
    assert read_qrels(path) == theirs == {("14", "doc#1_2"): 2, ("14", "doc#1_3"): 0, ("7", "doc#1_2"): 3}
    path.write_bytes(f"\ufeff{GRADED['a']}\n \n{GRADED['a']}".encode())  # an editor's mark, blank lines, the same again
    assert read_qrels(path) == {("14", "doc#1_2"): 2}


def test_tabs_separate_fields_with_spaces_and_a_header_of_three_names_is_that_of_beir(tmp_path: Path) -> None:
    path = tmp_path / "qrels"
    path.write_text("1\twhen is it?\tmy notes.md#2\t2\n1 0 b 1\n")
    assert read_qrels(path) == {("1", trec_id("my notes.md#2")): 2, ("1", "b"): 1}
    for space in "\t ":
        path.write_text("query-id corpus-id score\n1 a 2\n1 b 0\n".replace(" ", space))
        assert read_qrels(path) == {("1", "a"): 2, ("1", "b"): 0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qid doc grade\n1 0 a 2\n", r":2: expected 3 fields \(topic document grade\), found 4"),
        ("1 a 2\n", r":1: expected 4 fields \(topic iteration document grade\), found 3"),
        ('{"query_id": 1, "relevant": ["a"]}\n', r":1: is JSON: write a line of topic iteration document grade"),
        (f"{GRADED['a']}{GRADED['b']}14 0 doc#1_2 1\n", r":3: field 'grade' is 1 .* document doc#1_2, but 2 in line 1"),
        (f"{GRADED['a']}\n14 0 doc 2 1\n", r":3: expected 4 fields \(topic iteration document grade\), found 5"),
        ("14 0 doc -1\n", r":1: field 'grade' must be a whole number from 0 to 10, found -1"),
        ("14 0 doc 11\n", ":1: .*found 11"),
        ("14 0 doc 2.0\n", r":1: .*found 2\.0"),
        ("14 0 doc ٣\n", ":1: .*found ٣"),
        ("\n", ":1: the file has no grades"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.qrels"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"bad\.qrels" + message):
        read_qrels(path)


def test_the_command_prints_coverage_intervals_and_the_matrix(run: Any, tmp_path: Path) -> None:
    people = {("1", "a"): 0, ("1", "b"): 2, ("2", "a"): 1, ("2", "b"): 0, ("3", "x"): 4}
    judge = {("1", "a"): 0, ("1", "b"): 2, ("2", "a"): 0, ("2", "b"): 0}
    for name, grades in (("people", people), ("judge", judge)):
        (tmp_path / name).write_text(lines_of(grades))
    done = run("audit-qrels", "people", "judge")
    assert done.returncode == 0, done.stderr
    assert "4 pairs" in done.stdout and "from 2 topics; 1 by people only, 0 by the judge only" in done.stdout
    assert re.search(r"same grade +0\.750 \[0\.\d+, 1\.000\] +4", done.stdout)
    assert re.search(r"judge: 0 +2 +1 +0 +3", done.stdout) and re.search(r"all +2 +1 +1 +4", done.stdout)
    (tmp_path / "people").write_text("9 0 a 1\n")
    refused = run("audit-qrels", "people", "judge")
    assert refused.returncode == 2
    assert refused.stderr == "error: people and judge: no pair of topic and document is graded in both files\n"


def text_of(grade: int) -> str:
    """A chunk that the rule-based judge gives this grade: it counts sentences."""
    return " ".join(f"Ann has {n} cats." for n in range(grade))


def test_grades_of_umbrela_become_qrels_that_trec_eval_and_our_commands_read(
    run: Any, tmp_path: Path, literal_judge: ScriptedJudge
) -> None:
    grades = {"1": {"my notes.md#1": 1, "b": 3, "c": 2}, "two": {"b": 2, "d": 3}}
    retrieved = {"old": grades, "new": {"1": {"e": 3, "c": 2}, "two": {"b": 2}}}
    for system, of_case in retrieved.items():
        rows = [
            {"id": case, "question": f"What of {case}?", "answer": "Ann.", "system": system, "context_ids": [*of],
             "contexts": [text_of(grade) for grade in of.values()]}
            for case, of in of_case.items()
        ]  # fmt: skip
        (tmp_path / f"{system}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["--scorers=umbrela,umbrela_precision_at_1,umbrela_ndcg_at_3", "--model", literal_judge.spec(), "--out=r"]
    assert run("evaluate", "old.jsonl", "new.jsonl", *asked).returncode == 0
    done = run("qrels", "r", "--out=judge.qrels")
    assert (done.returncode, done.stderr) == (0, "") and "6 grades of 2 cases: judge.qrels" in done.stdout
    assert read_qrels(tmp_path / "judge.qrels") == {
        ("1", "my%20notes.md#1"): 1, ("1", "b"): 3, ("1", "c"): 2, ("1", "e"): 3, ("two", "b"): 2, ("two", "d"): 3
    }  # fmt: skip

    run_file = "".join(
        f"{case} Q0 {id_.replace(' ', '%20')} {rank} {-rank} old\n"
        for case, of in retrieved["old"].items()
        for rank, id_ in enumerate(of, 1)
    )
    (tmp_path / "old.run").write_text(run_file)
    measures = {"nDCG": ir_measures.nDCG @ 2, "recall": ir_measures.R(rel=2) @ 2, "MRR": ir_measures.RR(rel=2) @ 2}
    theirs = ir_measures.calc_aggregate(
        [*measures.values()],
        ir_measures.read_trec_qrels(str(tmp_path / "judge.qrels")),
        ir_measures.read_trec_run(str(tmp_path / "old.run")),
    )
    shown = run("retrieval", "old.jsonl", "--k=2", "--qrels=judge.qrels", "--relevant=2")
    assert shown.returncode == 0, shown.stderr
    for name, measure in measures.items():
        assert re.search(rf"all +2 +{name} +{theirs[measure]:.3f} ", shown.stdout), (name, shown.stdout)
    assert "6 pairs" in run("audit-qrels", "judge.qrels", "judge.qrels").stdout

    (tmp_path / "old.jsonl").write_text(json.dumps({"id": "3", "context_ids": ["b"]}) + "\n")
    refused = run("retrieval", "old.jsonl", "--qrels=judge.qrels")
    assert refused.returncode == 2 and "old.jsonl:1: topic 3 has no grade of at least 1" in refused.stderr


def test_what_has_no_id_or_no_grade_or_two_is_told(run: Any, tmp_path: Path, result_row: Any) -> None:
    def judged(case: str, ids: list[str], grades: list[int] | None, **fields: Any) -> dict[str, Any]:
        parts = {"answers": [{"grades": grades} if grades else {}]}
        return result_row(case, "umbrela", 1.0 if grades else None, context_ids=ids, parts=parts, **fields)

    def write(*rows: dict[str, Any]) -> None:
        (tmp_path / "r").write_text("".join(json.dumps(row) + "\n" for row in rows))

    again = judged("a", ["x", "y"], [0, 3], id="again", systems=["other"])
    write(judged("a", ["x", "y"], [2, 3]), again, judged("b", ["z"], None), judged("c", ["z"], [1]))
    done = run("qrels", "r", "--out=q")
    assert done.returncode == 0 and read_qrels(tmp_path / "q") == {("a", "x"): 2, ("a", "y"): 3, ("c", "z"): 1}
    assert "1 cases have no grades" in done.stderr
    assert "warning: 1 chunks have several grades, and the first is written; one of them is x of case a." in done.stderr
    for rows, message in [
        ([result_row("a", "rag_zeval", 1.0, parts={})], "r: the file has no grades"),
        ([result_row("a", "umbrela", 2.0, parts={})], "r: row 'a|umbrela' has no context_ids"),
        ([judged("a", ["x"], [11])], "r: row 'a|umbrela': field 'grades'"),
    ]:
        write(*rows)
        refused = run("qrels", "r", "--out=q")
        assert refused.returncode == 2 and refused.stderr.startswith(f"error: {message}"), refused.stderr
        assert refused.stderr.count("\n") == 1


def test_a_chunk_without_an_id_is_known_by_its_text(run: Any, tmp_path: Path, literal_judge: ScriptedJudge) -> None:
    row = {"id": "1", "question": "What?", "answer": "Ann.", "contexts": [text_of(1), text_of(2)]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    assert run("evaluate", "a.jsonl", "--scorers=umbrela", "--model", literal_judge.spec(), "--out=r").returncode == 0
    assert run("qrels", "r", "--out=q").returncode == 0
    assert read_qrels(tmp_path / "q") == {("1", text_id("c", text_of(grade))): grade for grade in (1, 2)}
