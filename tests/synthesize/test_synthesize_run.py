"""`python -m synthesize`, whole runs: rows, statuses, torn files, refusals, and answers that earlier runs gave.

What SIGKILL leaves is in test_workers.py.
"""

import fcntl
import json
import re
import shutil
import subprocess
import sys
import weakref
from itertools import pairwise
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from omegaconf import OmegaConf

from rag_zeval.errors import InputError
from rag_zeval.files import read_jsonl
from rag_zeval.scorers.sentences import sentences_of
from rag_zeval.stages.config import check_settings
from rag_zeval.stages.world import questions, true_support
from rag_zeval.yaml_file import read_yaml
from synthesize import answer_set
from synthesize.__main__ import main
from synthesize.jobs import JobReader, batches
from synthesize.settings import Settings

pytest.importorskip("torch")
NANO_BASE = Path("checkpoints/nano-base")
ALPHAS = [0, -0.5, -1, -1.4]


def words(model, out, **keys):
    keys = {"n_questions": 14, "max_new_tokens": 12, "batch_size": 4, "device": "cpu", **keys}
    return [f"model={model}", f"out_dir={out}", *(f"{key}={value}" for key, value in keys.items())]


@pytest.fixture(scope="module")
def run(tiny_model):
    """Runs the stage with the tiny model; its exit status."""
    return lambda out, **keys: main(words(tiny_model, out, **keys))


def rows_of(out):
    return {row["id"]: row for row in read_jsonl(out / "responses.jsonl")}


@pytest.fixture(scope="module")
def undisturbed(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    assert run(out) == 0
    return out


def test_rows_manifest_and_config(undisturbed, tiny_model):
    rows = read_jsonl(undisturbed / "responses.jsonl", {"id": str, "status": str, "responses": list})
    asked = {q.id: q for q in questions("train", 14, 0)}
    assert {row["id"] for row in rows} == set(asked) and len(rows) == 14
    for row in rows:
        assert row["status"] == "ok" and row["passage"] == asked[row["id"]].passage
        assert [response["alpha"] for response in row["responses"]] == ALPHAS
        for response in row["responses"]:
            assert response["true_support"] == true_support(response["text"], asked[row["id"]].facts)
            assert response["finished"] or response["n_tokens"] == 12
    flags = {response["finished"] for row in rows for response in row["responses"]}
    assert flags == {True, False}, "the model should stop early now and then"
    manifest = json.loads((undisturbed / "manifest.json").read_text())
    assert manifest["statistics"]["answered"] == 14
    assert manifest["config"]["model"] == str(tiny_model)
    assert manifest["model_revision"] is None  # a folder that nobody downloaded
    assert OmegaConf.load(undisturbed / "config.yaml").made_with == manifest["made_with"]


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.55, 0.97, 1])
def test_goes_on_after_a_torn_write_or_has_nothing_to_do(undisturbed, run, tmp_path, kept):
    whole = (undisturbed / "responses.jsonl").read_bytes()
    shutil.copy(undisturbed / "config.yaml", tmp_path)
    (tmp_path / "responses.jsonl").write_bytes(whole[: int(kept * len(whole))])
    assert run(tmp_path) == 0
    assert (tmp_path / "responses.jsonl").read_bytes() == whole
    manifest, expected = ((out / "manifest.json").read_text() for out in (tmp_path, undisturbed))
    assert manifest.replace(str(tmp_path), str(undisturbed)) == expected


def test_a_second_run_is_refused_and_changes_nothing(run, tmp_path, capsys):
    (tmp_path / "config.yaml").write_text("of the first run: true\n")
    with open(tmp_path / "responses.jsonl", "ab") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        assert run(tmp_path) == 2
    assert capsys.readouterr().err == f"error: {tmp_path}/responses.jsonl: another run is writing this file\n"
    assert (tmp_path / "config.yaml").read_text() == "of the first run: true\n"


def test_what_is_too_long_gets_a_status_or_takes_no_place_in_the_draw(run, write_rows, tmp_path):
    lengths = {"good": 5, "too long for us": 450, "too long for the model": 350, "good too": 9}  # the window is 1,700
    rows = [{"id": id_, "question": "what is the job", "passage": "town " * n} for id_, n in lengths.items()]
    keys = {"source": write_rows(tmp_path / "rows.jsonl", rows), "max_new_tokens": 4, "max_passage_tokens": 400}

    def answered(out, n_questions):
        assert run(tmp_path / out, n_questions=n_questions, **keys) == 0
        return rows_of(tmp_path / out)

    whole, drawn = answered("whole", "null"), answered("drawn", 2)
    assert set(whole) == set(lengths) and set(drawn) == {"good", "good too"}
    assert whole["too long for us"]["status"] == "failed: passage has 450 tokens, max_passage_tokens is 400"
    status = whole["too long for the model"]["status"]
    assert status.startswith("failed: prompt and answer need") and status.endswith("window is 1700")
    for row in (whole["good"], whole["good too"], *drawn.values()):
        assert row["status"] == "ok" and len(row["responses"]) == 4
        assert all(response["true_support"] is None for response in row["responses"])


def test_bad_records_are_said_and_stand_in_the_manifest(run, write_rows, tmp_path, capsys):
    good = [{"id": id_, "question": "what is the job", "passage": "a town"} for id_ in "ab"]
    source = write_rows(tmp_path / "rows.jsonl", [*good, {"id": "c", "question": "what"}])
    keys = {"source": source, "n_questions": 2, "max_new_tokens": 4}
    assert run(tmp_path / "out", strict="true", **keys) == 2
    fault = f"{source}:3: field 'passage' is missing"
    assert capsys.readouterr().err == f"error: {fault}\n"
    for answers in (True, False):  # the second time nothing is left to answer
        assert run(tmp_path / "out", **keys) == 0
        shown = capsys.readouterr()
        assert f"{source}: 2 questions from 3 records, 2 usable; left out: bad_field 1\n" in shown.out
        assert f"warning: bad_field: {fault}\n" in shown.err
        assert bool(re.search(r"^answered in .* minutes; peak memory: .* GiB$", shown.out, re.M)) is answers
        records = json.loads((tmp_path / "out" / "manifest.json").read_text())["records"]
        assert records["left_out"] == {"bad_field": 1} and records["first_faults"] == {"bad_field": [Path(fault).name]}


def test_other_data_are_noticed_and_their_folder_stands_in_no_file(
    tiny_model, write_rows, tmp_path, monkeypatch, capsys
):
    folders = [tmp_path / name / "natural_questions" for name in ("canary-1", "canary-2")]
    for place, folder in enumerate(folders):
        folder.mkdir(parents=True)
        rows = [{"id": id_, "question": "what is the job", "passage": f"town {place}"} for id_ in "abc"]
        write_rows(folder / "nq-open-oracle.jsonl", [*rows, {"id": "d", "question": "what"}])
    keys = {"n_questions": 2, "max_new_tokens": 4, "split": "null", "embeddings": "null", "workers": 1}
    asked = ["profile=small", *words(tiny_model, tmp_path / "out", **keys)]
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(tmp_path / "canary-1"))
    assert main(asked) == 0 == main(asked)
    files = [path for path in (tmp_path / "out").iterdir() if path.is_file()]
    assert len(files) == 3 and not [path for path in files if b"canary" in path.read_bytes()]
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(tmp_path / "canary-2"))
    capsys.readouterr()
    assert main(asked) == 2 and "holds responses made with questions_sha256=" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("made_with", "[1]", "made with model_sha256=None, not "),
        ("batch_tokens", "-5", "config.yaml: batch_tokens: Input should be greater than 0, found -5"),
        ("batch_tokens", "${seed}", "config.yaml: batch_tokens: Input should be a valid integer, found ${seed}"),
    ],
)
def test_a_foreign_configuration_is_not_believed(undisturbed, run, tmp_path, capsys, key, value, said):
    for name in ("responses.jsonl", "config.yaml"):
        shutil.copy(undisturbed / name, tmp_path)
    text = (tmp_path / "config.yaml").read_text()
    (tmp_path / "config.yaml").write_text(re.sub(rf"^{key}:.*\n(  .*\n)*", f"{key}: {value}\n", text, flags=re.M))
    assert run(tmp_path, batch_tokens="null") == 2 and said in capsys.readouterr().err


def test_the_folder_of_another_stage_is_refused(run, tmp_path, capsys):
    manifest = tmp_path / "manifest.json"
    manifest.write_text('{"config": {"seed": 0}, "steps": 50}')
    assert run(tmp_path, n_questions=2) == 2
    assert "holds manifest.json of another stage; choose another out_dir" in capsys.readouterr().err
    assert "steps" in manifest.read_text() and not (tmp_path / "config.yaml").exists()


def test_no_answer_at_all_is_an_error(run, tmp_path, capsys):
    assert run(tmp_path, n_questions=2, max_passage_tokens=3) == 1
    said = capsys.readouterr()
    assert "no question could be answered; the first failure: failed: passage has" in said.err
    assert "questions 2, answered 0, failed 2" in said.out and "alpha" not in said.out  # no table without rows


@pytest.mark.parametrize("message, reason", [("no memory left\nsecond line", "no memory left"), ("", "RuntimeError")])
def test_one_question_that_fails_takes_no_other_with_it(settings, load, tiny_model, monkeypatch, message, reason):
    from synthesize.answering import Answerer

    asked = settings(model=str(tiny_model), batch_size=3, max_new_tokens=4)
    groups = batches([JobReader(asked).read(question) for question in load("nano", 7)], asked, asked.batch_tokens)
    answerer = Answerer(asked)
    undisturbed = {row["id"]: row for rows in answerer.answers(groups) for row in rows}
    bad, caches, decode = groups[0][1], [], answerer._decode

    class Cache:
        pass

    def overflowing(batch):
        assert all(cache() is None for cache in caches), "what did not fit is still in memory"
        if bad in batch:
            cache = Cache()
            caches.append(weakref.ref(cache))
            raise RuntimeError(message)
        return decode(batch)

    monkeypatch.setattr(answerer, "_decode", overflowing)
    rows = {row["id"]: row for rows in answerer.answers(groups) for row in rows}
    assert rows.pop(bad.question.id)["status"] == f"failed: {reason}" and len(caches) == 2
    del undisturbed[bad.question.id]
    assert rows == undisturbed


REBOUND = f"alphas=[0,-1] max_new_tokens=13 seed=1 n_questions=15 dtype=bfloat16 model={NANO_BASE}".split()


@pytest.mark.parametrize("word", REBOUND)
def test_a_folder_with_other_rows_is_refused(undisturbed, tiny_model, refusal, word):
    before = (undisturbed / "config.yaml").read_bytes()
    assert f"made with {word.partition('=')[0]}" in refusal(main, [*words(tiny_model, undisturbed), word], first=False)
    assert (undisturbed / "config.yaml").read_bytes() == before


def test_batch_size_may_change_on_the_way(undisturbed, run, tmp_path):
    whole = (undisturbed / "responses.jsonl").read_bytes().splitlines(keepends=True)
    shutil.copy(undisturbed / "config.yaml", tmp_path)
    (tmp_path / "responses.jsonl").write_bytes(b"".join(whole[: len(whole) // 2]))
    assert run(tmp_path, batch_size=2) == 0
    assert sorted((tmp_path / "responses.jsonl").read_bytes().splitlines(keepends=True)) == sorted(whole)


def test_a_refused_question_takes_no_memory(run, write_rows, tmp_path, monkeypatch):
    from synthesize.answering import Answerer

    asked = []
    monkeypatch.setattr(Answerer, "batch_tokens", lambda self, longest: asked.append(longest) or 4000)
    rows = [{"id": f"{n}", "question": "what is the job", "passage": "town " * n} for n in (5, 450)]
    for length in (1, 2):  # with the refused question, and without it
        source = write_rows(tmp_path / f"{length}.jsonl", rows[: 3 - length])
        keys = {"n_questions": "null", "max_passage_tokens": 400, "max_new_tokens": 4, "batch_tokens": "null"}
        assert run(tmp_path / f"run{length}", source=source, **keys) == 0
    assert len(asked) == 2 and asked[0] == asked[1]


def test_a_batch_as_large_as_memory_allows_is_noted_and_kept(undisturbed, run, tmp_path, monkeypatch):
    from synthesize import answering

    model = answering._load(check_settings(Settings, read_yaml(undisturbed / "config.yaml")))
    free = int(answering.needed_bytes(model, 900, 4, len(ALPHAS), 80) / 0.8)  # about two questions
    monkeypatch.setattr(answering, "free_bytes", lambda device: free)
    assert run(tmp_path, batch_tokens="null") == 0
    whole = (tmp_path / "responses.jsonl").read_bytes()
    chosen = OmegaConf.load(tmp_path / "config.yaml").batch_tokens
    assert 500 < chosen < 1500
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["config"]["batch_tokens"] == chosen
    (tmp_path / "responses.jsonl").write_bytes(whole[: len(whole) // 2])
    free *= 100
    assert run(tmp_path, batch_tokens="null") == 0
    assert (tmp_path / "responses.jsonl").read_bytes() == whole
    assert OmegaConf.load(tmp_path / "config.yaml").batch_tokens == chosen
    assert json.loads((tmp_path / "manifest.json").read_text()) == manifest
    assert rows_of(tmp_path) == rows_of(undisturbed)


@pytest.mark.parametrize(
    "word, message",
    [
        ("alphas=[]", "alphas: "),
        ("alphas=[0,0.0]", "alphas: each number may occur only once"),
        ("n_questions=null", "config: key 'n_questions' must be a number for the nano world"),
        ("alpha=[0]", "did you mean 'alphas'"),
        ("model=nowhere", "nowhere: no model in this folder"),
        ("source=nowhere.jsonl", "nowhere.jsonl"),
        ("address=auto", "'address' is auto, but workers=1"),
    ],
)
def test_bad_configuration_is_one_line(tiny_model, tmp_path, refusal, word, message):
    assert message in refusal(main, [*words(tiny_model, tmp_path / "out"), word])
    assert not (tmp_path / "out").exists()


def test_bad_rows_are_refused_before_a_model_is_loaded(write_rows, tmp_path):
    source = write_rows(tmp_path / "rows.jsonl", [{"id": "a", "question": "q"}])
    code = (
        "import sys; from synthesize.__main__ import main; status = main(sys.argv[1:])\n"
        "assert not {'torch', 'transformers', 'verl', 'vllm', 'ray', 'numpy'} & set(sys.modules)\n"
        "sys.exit(status)"
    )
    command = [sys.executable, "-c", code, f"source={source}", "n_questions=null"]
    shown = subprocess.run(command, capture_output=True, text=True)
    assert shown.returncode == 2 and f"{source}:1: field 'passage' is missing" in shown.stderr


def test_true_support_falls_strictly_with_alpha(tmp_path):
    assert main([f"model={NANO_BASE}", f"out_dir={tmp_path}", "n_questions=40", f"alphas={ALPHAS}", "device=cpu"]) == 0
    statistics = json.loads((tmp_path / "manifest.json").read_text())["statistics"]
    supports = [at["true_support"] for at in statistics["by_alpha"]]
    assert statistics["answered"] == 40 and len(supports) == 4
    assert all(high > low for high, low in pairwise(supports)), supports


@pytest.mark.parametrize("key", OmegaConf.load("configs/synthesize.yaml"))
def test_settings_check_every_key(settings, key):
    with pytest.raises(InputError, match=f"^{key}: "):
        settings(**{key: {"no": "such"}})


QUESTIONS = [
    {"id": f"q{n}", "question": f"who was person {n}", "passage": f"Person {n} was a painter of town {n}."}
    for n in range(9)
]


@pytest.fixture(scope="module")
def run_on_file(run, write_rows, tmp_path_factory):
    """Runs the stage on the first n questions of a file; its exit status."""
    sources = tmp_path_factory.mktemp("sources")

    def run_on_file(out, n=9, **keys):
        source = write_rows(sources / f"{n}.jsonl", QUESTIONS[:n])
        return run(out, **{"source": source, "split": "null", "n_questions": "null", "max_new_tokens": 8, **keys})

    return run_on_file


@pytest.fixture(scope="module")
def made(run_on_file, tmp_path_factory):
    """`(folder of a run_on_file, its answer set)`."""
    out = tmp_path_factory.mktemp("made")
    assert run_on_file(out) == 0
    path = out / "answers.parquet"
    assert answer_set.main([str(path), str(out)]) == 0
    return out, path


def test_a_run_with_all_answers_there_asks_no_model(made, run_on_file, tmp_path, monkeypatch):
    monkeypatch.setattr("synthesize.__main__._answering", None)
    assert run_on_file(tmp_path, answers=made[1]) == 0
    assert rows_of(tmp_path) == rows_of(made[0])
    manifests = [json.loads((out / "manifest.json").read_text()) for out in (made[0], tmp_path)]
    assert manifests[0]["statistics"] == manifests[1]["statistics"]


def test_only_missing_questions_are_asked(made, run_on_file, tmp_path, capsys):
    few = tmp_path / "few"
    assert run_on_file(few, n=4) == 0
    assert answer_set.main([str(tmp_path / "few.parquet"), str(few)]) == 0
    assert run_on_file(tmp_path / "out", answers=tmp_path / "few.parquet") == 0
    assert rows_of(tmp_path / "out") == rows_of(made[0])
    assert "reusing the answers to 4 of 9 questions" in capsys.readouterr().out


def test_shortened_answers_are_the_same_decoded_or_reused(run_on_file, tmp_path, capsys):
    whole, decoded, reused, again = (tmp_path / name for name in ("whole", "decoded", "reused", "again.parquet"))
    assert run_on_file(whole, max_new_tokens=40) == 0
    assert answer_set.main([str(tmp_path / "whole.parquet"), str(whole)]) == 0
    assert run_on_file(decoded, max_new_tokens=40, max_sentences=1) == 0
    assert run_on_file(reused, max_new_tokens=40, max_sentences=1, answers=tmp_path / "whole.parquet") == 0
    assert rows_of(decoded) == rows_of(reused) != rows_of(whole)
    answers, shortened = (
        [one for row in read_jsonl(out / "responses.jsonl") for one in row["responses"]] for out in (whole, decoded)
    )
    for before, after in zip(answers, shortened, strict=True):
        assert before["text"].startswith(after["text"]) and len(sentences_of(after["text"])) <= 1
        assert after["finished"] or after == before
    assert answer_set.main([str(again), str(decoded)]) == 2
    assert "max_sentences" in capsys.readouterr().err


def test_answers_about_another_passage_are_not_reused(made, run_on_file, run, write_rows, tmp_path, capsys):
    edited = [{**row, "passage": row["passage"].replace("painter", "baker")} for row in QUESTIONS[:2]] + QUESTIONS[2:]
    source = {"source": write_rows(tmp_path / "edited.jsonl", edited), "split": "null", "n_questions": "null"}
    for out, answers in (("alone", "null"), ("reused", made[1])):
        assert run(tmp_path / out, **source, max_new_tokens=8, answers=answers) == 0
    assert "reusing the answers to 7 of 9 questions" in capsys.readouterr().out
    assert rows_of(tmp_path / "alone") == rows_of(tmp_path / "reused")
    older = tmp_path / "older.parquet"  # without `asked`: nothing says that its ids are hashes of these passages
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(made[1]).drop(["asked"]), older)
    assert run_on_file(tmp_path / "older", n=2, answers=older) == 0
    assert "reusing the answers to 0 of 2 questions" in capsys.readouterr().out


def test_it_holds_no_passage(made):
    table = pyarrow.parquet.read_table(made[1])
    assert table.column_names == ["id", "asked", "responses"] and "painter of town" not in str(table.to_pylist())


def test_answers_that_are_none_or_of_other_settings_are_not_taken(made, run_on_file, tmp_path, capsys):
    other = tmp_path / "other.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"id": "a"}]), other)
    text = tmp_path / "text.parquet"
    text.write_text("no table")
    odd, cut = tmp_path / "odd.parquet", tmp_path / "cut.parquet"
    made_with = pyarrow.parquet.read_schema(made[1]).metadata
    for path, metadata in ((odd, made_with), (cut, {answer_set.MADE_WITH: b"{"})):
        rows = pyarrow.Table.from_pylist([{"id": "a", "responses": ["She is a painter."]}])
        pyarrow.parquet.write_table(rows.replace_schema_metadata(metadata), path)
    for path, said, tokens in (
        (other, "is not an answer set", 8),
        (text, "cannot be read as Parquet", 8),
        (tmp_path / "none", "Parquet", 8),
        (odd, "row 1: field 'responses': item 1", 8),
        (cut, "not valid JSON", 8),
        (made[1], "its answers were made with max_new_tokens=8, not 9", 9),
    ):
        assert run_on_file(tmp_path / "out", answers=path, max_new_tokens=tokens) == 2
        error = capsys.readouterr().err
        assert str(path) in error and said in error
    assert not (tmp_path / "out" / "responses.jsonl").exists()


def test_runs_that_cannot_be_written(made, run_on_file, run, tmp_path, capsys):
    unlike, world, failed = tmp_path / "unlike", tmp_path / "world", tmp_path / "failed"
    assert run_on_file(failed, max_passage_tokens=1, n=2) == 1
    assert run_on_file(unlike, max_new_tokens=9, n=2) == 0
    assert run(world, n_questions=2, max_new_tokens=4) == 0
    for runs, said in (
        ([made[0], unlike], "max_new_tokens=9"),
        ([world], "generated world"),
        ([tmp_path], "manifest"),
        ([failed], "no question was answered"),
        ([], "Missing argument"),
    ):
        assert answer_set.main([str(tmp_path / "set.parquet"), *map(str, runs)]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "set.parquet").exists()
