"""The answers of a run as one file that another run begins with."""

from __future__ import annotations

import json

import pyarrow
import pyarrow.parquet
import pytest

from rag_zeval.files import read_jsonl
from synthesize import answer_set
from synthesize.__main__ import main

pytest.importorskip("torch")
QUESTIONS = [
    {"id": f"q{n}", "question": f"who was person {n}", "passage": f"Person {n} was a painter of town {n}."}
    for n in range(9)
]


@pytest.fixture(scope="module")
def run(tiny_model, write_rows, tmp_path_factory):
    """Runs the stage on the first questions; its exit status."""
    sources = tmp_path_factory.mktemp("sources")

    def run(out, *more, n=9):
        source = write_rows(sources / f"{n}.jsonl", QUESTIONS[:n])
        fixed = [
            f"source={source}",
            "split=null",
            "n_questions=null",
            f"model={tiny_model}",
            "max_new_tokens=8",
            "device=cpu",
        ]
        return main([*fixed, f"out_dir={out}", *more])

    return run


@pytest.fixture(scope="module")
def made(run, tmp_path_factory):
    """`(folder of a run, its answer set)`."""
    out = tmp_path_factory.mktemp("made")
    assert run(out) == 0
    path = out / "answers.parquet"
    assert answer_set.main([str(path), str(out)]) == 0
    return out, path


def rows_of(out):
    return {row["id"]: row for row in read_jsonl(out / "responses.jsonl")}


def test_a_run_with_all_answers_there_asks_no_model(made, run, tmp_path, monkeypatch):
    monkeypatch.setattr("synthesize.__main__._answering", None)
    assert run(tmp_path, f"answers={made[1]}") == 0
    assert rows_of(tmp_path) == rows_of(made[0])
    manifests = [json.loads((out / "manifest.json").read_text()) for out in (made[0], tmp_path)]
    assert manifests[0]["statistics"] == manifests[1]["statistics"]


def test_only_missing_questions_are_asked(made, run, tmp_path, capsys):
    few = tmp_path / "few"
    assert run(few, n=4) == 0
    assert answer_set.main([str(tmp_path / "few.parquet"), str(few)]) == 0
    assert run(tmp_path / "out", f"answers={tmp_path / 'few.parquet'}") == 0
    assert rows_of(tmp_path / "out") == rows_of(made[0])
    assert "reusing the answers to 4 of 9 questions" in capsys.readouterr().out


def test_it_holds_no_passage(made):
    table = pyarrow.parquet.read_table(made[1])
    assert table.column_names == ["id", "responses"] and "painter of town" not in str(table.to_pylist())


def test_answers_of_other_settings_are_not_taken(made, run, tmp_path, capsys):
    assert run(tmp_path, f"answers={made[1]}", "max_new_tokens=9") == 2
    assert f"{made[1]}: its answers were made with max_new_tokens=8, not 9" in capsys.readouterr().err
    assert not (tmp_path / "responses.jsonl").read_bytes()


def test_files_that_are_none(run, tmp_path, capsys):
    other = tmp_path / "other.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"id": "a"}]), other)
    text = tmp_path / "text.parquet"
    text.write_text("no table")
    for path, said in (
        (other, "is not an answer set"),
        (text, "cannot be read as Parquet"),
        (tmp_path / "none", "Parquet"),
    ):
        assert run(tmp_path / "out", f"answers={path}") == 2
        error = capsys.readouterr().err
        assert str(path) in error and said in error


def test_runs_that_cannot_be_written(made, run, tmp_path, tiny_model, capsys):
    unlike, world = tmp_path / "unlike", tmp_path / "world"
    assert run(unlike, "max_new_tokens=9", n=2) == 0
    keys = [f"model={tiny_model}", "n_questions=2", "max_new_tokens=4", "device=cpu", f"out_dir={world}"]
    assert main(keys) == 0
    for runs, said in (
        ([made[0], unlike], "max_new_tokens=9"),
        ([world], "generated world"),
        ([tmp_path], "manifest"),
        ([], "Missing argument"),
    ):
        assert answer_set.main([str(tmp_path / "set.parquet"), *map(str, runs)]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "set.parquet").exists()
