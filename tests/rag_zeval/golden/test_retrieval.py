"""The measures against their formulas in a textbook, over lists with repeats; the table; rows that cannot be used."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_zeval.cases.reading import read_cases
from rag_zeval.csv_files import sheet_text
from rag_zeval.decisions.sides import read_side
from rag_zeval.golden.failure_classes import Metrics, classify
from rag_zeval.golden.release_measures import RETRIEVAL, with_measures
from rag_zeval.golden.retrieval import MEASURES, Ranking, estimates, rankings_of, read_retrieved, values
from rag_zeval.statistics.bootstrap import mean_interval, share_interval

IDS = st.sampled_from(["a", "b", "c", "d", "e", "f", "", "\0", "é"])
GRADES = st.integers(1, 3)
RELEVANT = 2
GOLD = st.builds(lambda gold, id_: {**gold, id_: RELEVANT}, st.dictionaries(IDS, GRADES, max_size=5), IDS)
RANKINGS = st.builds(Ranking, st.lists(IDS, max_size=10).map(tuple), GOLD, st.just(None))


def by_the_book(ranking: Ranking, measure: str, k: int) -> float:
    """Manning, Raghavan and Schütze 2008, chapter 8, of the first k; of a repeated id the first place counts."""
    first = {id_: ranking.retrieved.index(id_) for id_ in ranking.retrieved[:k]}
    grades = [ranking.gold.get(id_, 0) * (first[id_] == at) for at, id_ in enumerate(ranking.retrieved[:k])]
    relevant = [grade >= RELEVANT for grade in grades]
    ranks = [rank for rank, gold in enumerate(relevant, 1) if gold]
    everything = sum(grade >= RELEVANT for grade in ranking.gold.values())
    best = sorted(ranking.gold.values(), reverse=True)[:k]
    gain, most = (sum(grade / math.log2(rank + 1) for rank, grade in enumerate(of, 1)) for of in (grades, best))
    return {
        "hit rate": float(bool(ranks)),
        "recall": len(ranks) / everything,
        "precision": len(ranks) / k,
        "nDCG": gain / most,
        "MRR": 1 / ranks[0] if ranks else 0.0,
        "MAP": sum(sum(relevant[:rank]) / rank for rank in ranks) / everything,
    }[measure]


@settings(max_examples=60)
@given(st.lists(RANKINGS, min_size=1, max_size=4), st.sets(st.integers(1, 12), min_size=1, max_size=3))
def test_the_measures_are_those_of_the_textbook(rankings: list[Ranking], ks: set[int]) -> None:
    found = values(rankings, sorted(ks), RELEVANT)
    assert set(found) == {(measure, k) for measure in MEASURES for k in ks}
    for (measure, k), of_each in found.items():
        assert of_each == pytest.approx([by_the_book(ranking, measure, k) for ranking in rankings]), (measure, k)


def test_a_mean_has_its_slice_its_n_and_the_interval_of_its_kind() -> None:
    rankings = [Ranking(("a", "x"), {"a": 1, "b": 1}, "s"), Ranking(("c", "d"), {"c": 1, "d": 1}, None)]
    found = {(one.slice_name, one.measure): one for one in estimates(rankings, [2])}
    both = found["all", "recall"]
    assert (both.n, both.value, both.interval) == (2, 0.75, mean_interval([[0.5], [1.0]]))
    assert found["all", "hit rate"].interval == share_interval(2, 2)
    alone = found["s", "recall"]
    assert (alone.n, alone.value, alone.interval) == (1, 0.5, None)
    assert found["(none)", "hit rate"].interval is None


def row(retrieved: list[Any], gold: list[Any], slice_tag: str | None = "easy", field: str = "context_ids") -> Any:
    return {"question": "Which?", field: retrieved, "gold_chunk_ids": gold, "slice_tag": slice_tag}


def write(path: Path, *lines: Any) -> Path:
    contents = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(content + b"\n" for content in contents))
    return path


def test_the_table_is_by_slice_measure_and_k(run: Any, tmp_path: Path) -> None:
    deep = [f"x{i}" for i in range(7)]
    lines = [row(["g"], ["g"]), row([*deep, 8], ["8", "h"], "multi-hop"), row(deep, ["g"], "[red]\x1b[2J")]
    shown = run("retrieval", write(tmp_path / "mine.jsonl", *lines), "--k", "50, 5")
    assert (
        shown.returncode == 0 and "  ids of the retrieved contexts: column 'context_ids', in 3 of 3\n" in shown.stderr
    )
    cells = [line.split("  ") for line in shown.stdout.splitlines() if "[" in line]
    table = [[cell.strip() for cell in line if cell.strip()] for line in cells]
    found = {(tag, measure): (n, at5, at50) for tag, n, measure, at5, at50 in table[: 4 * len(MEASURES)]}
    assert list(found) == [(tag, m) for tag in ("all", "[red] [2J", "easy", "multi-hop") for m in MEASURES]
    low, high = share_interval(1, 3)
    assert found["all", "hit rate"][:2] == ("3", f"0.333 [{low:.3f}, {high:.3f}]")
    assert [cell[:5] for cell in found["all", "recall"]] == ["3", "0.333", "0.500"]
    assert found["multi-hop", "recall"] == ("1", "0.000 [none]", "0.500 [none]")
    assert "k = 5: 1 of 3 rows have fewer than 5 ids\n" in shown.stdout and "k = 50: 3 of 3 rows" in shown.stdout


BAD = [
    (b"{", "not valid JSON"),
    (row(["a"], ["a"]) | {"slice_tag": [3]}, "column 'slice_tag': must be a text, found a list"),
    (row(["a"], ["a"]) | {"gold_chunk_ids": "a, b"}, "column 'gold_chunk_ids': may hold several ids in one text"),
    (row([None], ["a"]), "column 'context_ids': holds an id that is empty: None"),
    (row(["a"], []), "column 'gold_chunk_ids' is empty"),
    (row([""], [""]), "column 'context_ids': holds an id that is empty: ''"),
    (row(["a"], ["a", "nan"]), "column 'gold_chunk_ids': holds an id that is empty: 'nan'"),
    ({"question": "Which?", "gold_chunk_ids": ["a"]}, "column 'context_ids': is missing or empty: write a list of ids"),
]


def test_an_unanswerable_question_is_counted_and_no_fault(run: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", row(["a"], ["a"]), row(["a"], []) | {"truth": None})
    shown = run("retrieval", path)
    assert shown.returncode == 0 and "1 unanswerable question left out" in shown.stdout
    both = row(["a"], []) | {"truth": None, "gold_answer": "Nine."}  # it has an answer, under its other name
    assert "column 'gold_chunk_ids' is empty" in run("retrieval", write(tmp_path / "both.jsonl", both)).stderr
    only = write(tmp_path / "only.jsonl", row(["a"], []) | {"truth": None})
    assert "every question is unanswerable" in run("retrieval", only).stderr


def test_a_bad_row_is_one_line_and_does_not_count(run: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", *[bad for bad, _ in BAD], b"", row(["a"], ["a"]), row(["a"], ["b"]))
    shown = run("retrieval", path)
    assert shown.returncode == 1
    told = [line for line in shown.stderr.splitlines() if line.startswith("left out: ")]
    for line, (number, (_, message)) in zip(told, enumerate(BAD, 1), strict=True):
        assert line.startswith(f"left out: {path}:{number}: {message}")
    assert "2 of 2 rows have fewer" in shown.stdout


def test_a_table_is_read_by_the_names_that_are_used(run: Any, tmp_path: Path) -> None:
    """Two columns may hold the question, which nobody asks for."""
    lines = ["query,prompt,retrieved_ids,gold_ids,Slice", 'q?,p,"[""a"", 7]",7,x', "r?,p,[],b,x"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    shown = run("retrieval", "a.csv", "--k=2")
    assert shown.returncode == 0 and shown.stderr.endswith("  not used: 'query', 'prompt'\n")
    assert any(line.split()[:4] == ["x", "2", "MRR", "0.250"] for line in shown.stdout.splitlines())


def test_ids_are_found_in_chunks_and_at_a_path(run: Any, tmp_path: Path) -> None:
    for name in ("sources", "contexts"):
        rows = [{"expected_documents": ["d2"], name: [{"id": f"d{n}", "text": "It is."} for n in (1, 2)]}] * 2
        words = ["--map", f"context_ids={name}.id"] if name == "sources" else []
        shown = run("retrieval", write(tmp_path / "mine.jsonl", *rows), "--k=2", *words)
        assert shown.returncode == 0 and re.search(r"MRR +0\.500", shown.stdout)
    shown = run(
        "retrieval", write(tmp_path / "mine.jsonl", {"gold_docs": ["7"], "retrieved_docs": ["8", "7"]}), "--k=2"
    )
    assert shown.returncode == 0 and re.search(r"MRR +0\.500", shown.stdout)
    shown = run("retrieval", write(tmp_path / "mine.jsonl", {"gold_ids": ["a"], "contexts": ["It is."]}))
    assert shown.returncode == 2 and "column 'contexts': its contexts have no ids" in shown.stderr
    shown = run("retrieval", write(tmp_path / "mine.jsonl", {"gold_ids": ["a"], "sources": [{"chunk_id": "a"}]}))
    assert shown.returncode == 2 and "no column found for the ids of the retrieved contexts" in shown.stderr
    assert "Add --map context_ids=sources.chunk_id, if that is right" in shown.stderr


def test_a_row_without_id_and_question_has_no_topic(run: Any, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("query-id\tcorpus-id\tscore\n1\tmy notes.md\t1\n")
    path = write(tmp_path / "mine.jsonl", {"id": 1, "context_ids": ["my notes.md"]}, {"context_ids": ["a"]})
    shown = run("retrieval", path, "--qrels", "qrels", "--k=1")
    assert shown.returncode == 1 and re.search(r"MRR +1\.000", shown.stdout)
    assert "mine.jsonl:2: has no id and no question, so it has no topic" in shown.stderr
    shown = run("retrieval", write(tmp_path / "mine.jsonl", {"context_ids": ["a"]}), "--qrels", "qrels")
    assert shown.returncode == 2 and "no column found for the id; columns: 'context_ids'" in shown.stderr


def test_ids_that_match_nowhere_are_told(run: Any, tmp_path: Path) -> None:
    shown = run("retrieval", write(tmp_path / "mine.jsonl", row([17, "a"], ["a.md#1"]), row([], ["b.md#2"])))
    note = "note: no retrieved id, such as '17', is a gold chunk of any question, such as 'a.md#1'. "
    assert shown.returncode == 0 and note in shown.stderr
    shown = run("retrieval", write(tmp_path / "mine.jsonl", row([], ["a.md#1"]), row([], ["b.md#2"])))
    assert shown.returncode == 0 and "note: no question has a retrieved id." in shown.stderr


@pytest.mark.parametrize("ids", [("a", "a"), (7, "7")])
def test_rows_of_two_systems_are_no_ranking_of_one(run: Any, tmp_path: Path, ids: tuple[Any, Any]) -> None:
    rows = [row(["g"], ["g"]) | {"id": "b"}, *(row(["g"], ["g"]) | {"id": id_, "system": "new"} for id_ in ids)]
    shown = run("retrieval", write(tmp_path / "mine.jsonl", *rows))
    assert (shown.returncode, shown.stdout) == (2, "")
    assert (
        f"mine.jsonl:3: duplicate id '{ids[1]}', as in {tmp_path / 'mine.jsonl'}:2; measure each system" in shown.stderr
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: No such file"), ("\n", "no rows"), ("{\n", ":1: not valid")],
)
def test_nothing_to_measure_is_one_line_and_exit_2(run: Any, content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    if content is not None:
        path.write_text(content)
    shown = run("retrieval", path)
    assert shown.returncode == 2
    assert shown.stderr.startswith(f"error: {path}") and message in shown.stderr and shown.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["retrieval"], ["check-set"], ["collect", "--url=http://x", "--out=o", "--answer=$.a"]]
)
def test_a_result_file_is_no_list_of_questions(run: Any, result_row: Any, tmp_path: Path, words: list[str]) -> None:
    """It would count a question once for each metric and trial."""
    rows = [result_row("1", metric, 1.0, context_ids=["a"], gold_chunk_ids=["a"]) for metric in "mn"]
    write(tmp_path / "r.jsonl", *rows)
    shown = run(words[0], "r.jsonl", *words[1:])
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.startswith("error: r.jsonl:1: is a result of `rag-zeval evaluate`")


@pytest.mark.parametrize("k", ["0", "5,", "x", "-1", "9" * 5000, "٥"])
def test_another_k_is_refused(run: Any, tmp_path: Path, k: str) -> None:
    shown = run("retrieval", write(tmp_path / "mine.jsonl", row(["a"], ["a"])), f"--k={k}")
    assert shown.returncode == 2 and shown.stderr.startswith("error: --k is ")


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_result_file_gives_the_measures_of_its_input_also_where_nothing_was_retrieved(
    run: Any, tmp_path: Path, suffix: str
) -> None:
    retrieved = [["a", "b"], [], ["b", "a"], [], ["c"]]
    common = {"answer": "Yes.", "truth": "No.", "gold_chunk_ids": ["a", "z"]}
    rows: list[dict[str, Any]] = [
        {"id": str(n), "question": f"{n}?", "contexts": [f"Text {id_}." for id_ in ids], "context_ids": ids, **common}
        for n, ids in enumerate(retrieved)
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "in.csv").write_text(sheet_text([*rows[0]], [tuple(map(str, row.values())) for row in rows]))
    assert run("evaluate", f"in.{suffix}", "--scorers=string_match", "--out=out.jsonl").returncode == 0
    rankings, bad, _ = rankings_of(read_retrieved(tmp_path / f"in.{suffix}", has_qrels=False))
    side, names = read_side(str(tmp_path / "out.jsonl")), [f"{name}@{k}" for name in RETRIEVAL for k in (1, 2)]
    side = with_measures(side, names)
    assert not bad and len(rankings) == len(rows)
    for one in estimates(rankings, [1, 2]):
        (name,) = (name for name, measure in RETRIEVAL.items() if measure == one.measure)
        scores = [judged.score for judged in side.judged[f"{name}@{one.k}"].values()]
        assert None not in scores and sum(filter(None, scores)) / len(scores) == pytest.approx(one.value)

    found = classify([*side.judged["string_match"].values()], read_cases(tmp_path / f"in.{suffix}").cases,
                     Metrics("string_match", "string_match"), 1)  # fmt: skip
    none, ranked = "wrong, not retrieved", ["wrong, in the prompt", "wrong, retrieved below k"]
    assert [one.class_name for one in found] == [ranked[0], none, ranked[1], none, none]
    rows = [{**row, "context_ids": None if suffix == "jsonl" else ""} for row in rows]
    assert not any(case.nothing_retrieved for case in read_cases(rows).cases)  # ids are missing
