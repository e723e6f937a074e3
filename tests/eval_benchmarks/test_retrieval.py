from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_benchmarks.retrieval import KS, Question, hit_rate, main, mean_recall, read_questions, recall
from rag_zeval.errors import exit_status
from rag_zeval.statistics.bootstrap import share_interval

IDS = st.sampled_from("abcdefgh")
QUESTIONS = st.builds(Question, st.lists(IDS, max_size=10).map(tuple), st.frozensets(IDS, min_size=1), st.just("easy"))


def row(retrieved: list[Any], gold: list[Any], slice_tag: str = "easy") -> dict[str, Any]:
    return {"question": "Which?", "retrieved": retrieved, "gold_chunk_ids": gold, "slice_tag": slice_tag}


@given(QUESTIONS, st.integers(1, 12))
def test_recall_counts_the_gold_chunks_that_are_ranked_in_time(question: Question, k: int) -> None:
    ranks = [question.retrieved.index(id_) for id_ in question.gold if id_ in question.retrieved]
    assert recall(question, k) == sum(rank < k for rank in ranks) / len(question.gold)
    hit = hit_rate([question], k)[0]
    assert hit == any(rank < k for rank in ranks)
    assert recall(question, k) <= recall(question, k + 1) <= 1
    assert recall(question, k) <= hit
    if len(question.gold) == 1:
        assert recall(question, k) == hit  # where the text's name for a hit is right


def test_mean_recall_is_no_hit_rate() -> None:
    questions = [Question(("a", "x"), frozenset("ab"), "x"), Question(("c", "d"), frozenset("cd"), "x")]
    value, (low, high) = mean_recall(questions, 2)
    assert (value, low, high) == (0.75, 0.5, 1.0)
    assert hit_rate(questions, 2) == (1, share_interval(2, 2))  # by its formula: test_response_statistics.py


def write(path: Path, *lines: Any) -> Path:
    contents = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(content + b"\n" for content in contents))
    return path


def test_the_table_is_by_k_and_slice(tmp_path: Path, capsys: Any) -> None:
    deep = [f"x{i}" for i in range(7)]
    lines = [row(["g"], ["g"]), row([*deep, "g"], ["g", "h"], "multi-hop"), row(deep, ["g"], "[bold]")]
    assert main([str(write(tmp_path / "mine.jsonl", *lines))]) == 0
    shown = capsys.readouterr()
    cells = [[c.strip() for c in line.split("│")[1:-1]] for line in shown.out.splitlines() if "│" in line]
    found = {(tag, int(k)): (n, hits, share) for tag, k, n, hits, _, share, _ in cells}
    assert list(found) == [(tag, k) for tag in ("all", "[bold]", "easy", "multi-hop") for k in KS]
    assert [found["all", k] for k in KS] == [("3", "0.333", "0.333"), *[("3", "0.667", "0.500")] * 2]
    assert [found["multi-hop", k] for k in KS] == [("1", "0.000", "0.000"), *[("1", "1.000", "0.500")] * 2]
    assert [found["[bold]", k] for k in KS] == [("1", "0.000", "0.000")] * 3
    assert "k = 5: 1 of 3 rows list fewer ids\n" in shown.out and "k = 50: 3 of 3 rows" in shown.out
    assert shown.err == ""


BAD = [
    (b"{", "not valid JSON"),
    (row(["a"], ["a"]) | {"slice_tag": 3}, "field 'slice_tag' must be str, found int"),
    (row(["a"], ["a"]) | {"gold_chunk_ids": "a"}, "field 'gold_chunk_ids' must be list, found str"),
    (row([7], ["7"]), "field 'retrieved' must hold ids that are texts, found int"),
    (row(["a"], []), "field 'gold_chunk_ids' is empty"),
    (b'{"question": "\xff"}', "not UTF-8 text"),
]


def test_a_bad_row_is_one_line_and_does_not_count(tmp_path: Path, capsys: Any) -> None:
    path = write(tmp_path / "mine.jsonl", row(["a"], ["a"]), b"", *[bad for bad, _ in BAD], row(["a"], ["b"]))
    assert main([str(path)]) == 1
    shown = capsys.readouterr()
    for line, (number, (_, message)) in zip(shown.err.splitlines(), enumerate(BAD, 3), strict=True):
        assert line.startswith(f"left out: {path}:{number}: {message}")
    good, _ = read_questions(path)
    assert good == [Question(("a",), frozenset("a"), "easy"), Question(("a",), frozenset("b"), "easy")]


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: No such file"), ("", "no questions in it"), ("{\n", ":1: not valid")],
)
def test_nothing_to_measure_is_one_line_and_exit_2(
    content: str | None, message: str, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "mine.jsonl"
    if content is not None:
        path.write_text(content)
    assert exit_status(lambda: main([str(path)])) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"error: {path}") and message in shown.err and shown.err.count("\n") == 1
