"""Rows survive a kill; errors name file, line and field."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from rag_zeval.files import RowWriter, model_revision, model_sha256, read_jsonl, write_json


@given(count=st.integers(0, 5), cut=st.integers(0, 200))
def test_after_a_kill_at_any_byte_the_rows_are_whole_and_none_stands_twice(tmp_path_factory, count, cut):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    rows = [{"id": str(i), "text": "ä\n" * i} for i in range(count)]
    with RowWriter(path) as writer:
        for row in rows:
            writer.append(row)
    path.write_bytes(path.read_bytes()[: max(0, path.stat().st_size - cut)])
    with RowWriter(path) as writer:
        for row in rows:
            if row["id"] not in writer.done:
                writer.append(row)
    assert read_jsonl(path) == rows


@given(text=st.text(st.characters(exclude_categories=[])))
def test_any_text_comes_back_from_a_row(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    with RowWriter(path) as writer:
        writer.append({"id": "a", "text": text})
    assert read_jsonl(path) == [{"id": "a", "text": text}]


def test_a_row_written_twice_is_refused(tmp_path):
    with RowWriter(tmp_path / "r.jsonl") as writer:
        writer.append({"id": "a"})
        with pytest.raises(ValueError, match="already"):
            writer.append({"id": "a"})
    with open(tmp_path / "r.jsonl", "a") as file:
        file.write('{"id": "a"}\n')
    with pytest.raises(InputError, match=r"r\.jsonl:2: field 'id'"):
        RowWriter(tmp_path / "r.jsonl")


def test_a_file_that_another_run_writes_is_refused_and_free_when_it_ends(tmp_path):
    with RowWriter(tmp_path / "r.jsonl") as writer:
        writer.append({"id": "a"})
        with pytest.raises(InputError, match=r"r\.jsonl: another run is writing this file"):
            RowWriter(tmp_path / "r.jsonl")
        writer.append({"id": "b"})
    with RowWriter(tmp_path / "r.jsonl") as writer:
        assert list(writer.done) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ":2: not valid JSON"),
        ("[]", ":2: expected a JSON object, found list"),
        ('{"question": "q"}', ":2: field 'passage' is missing"),
        ('{"question": 3, "passage": "p"}', ":2: field 'question' must be str, found int"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, message):
    path = tmp_path / "in.jsonl"
    path.write_text('{"question": "q", "passage": "p"}\n' + line + "\n")
    with pytest.raises(InputError) as error:
        read_jsonl(path, {"question": str, "passage": str})
    assert f"{path}{message}" in str(error.value) and "\n" not in str(error.value)


def test_missing_and_binary_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.jsonl: cannot be read"):
        read_jsonl(tmp_path / "none.jsonl")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="binary: not UTF-8"):
        read_jsonl(tmp_path / "binary")


def test_nan_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="Out of range"):
        write_json(tmp_path / "x.json", {"value": float("nan")})
    assert not (tmp_path / "x.json").exists()


def test_a_model_hash_follows_every_file_that_changes_its_output(tmp_path):
    with pytest.raises(InputError, match=r"config\.json"):
        model_sha256(tmp_path)
    hashes = set()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text(json.dumps(name))
        hashes.add(model_sha256(tmp_path))
    (tmp_path / "README.md").write_text("a note changes nothing")
    assert len(hashes) == 3 and model_sha256(tmp_path) in hashes


def test_model_revision_is_what_the_download_noted(tmp_path):
    commit = "a09a35458c702b33eeacc393d103063234e8bc28"
    assert model_revision(tmp_path) is None
    note = tmp_path / ".cache" / "huggingface" / "download" / "config.json.metadata"
    note.parent.mkdir(parents=True)
    note.write_text(f"{commit}\n0123abcd\n1700000000.0\n")
    assert model_revision(tmp_path) == commit
    note.write_text("main\n")
    assert model_revision(tmp_path) is None
    cached = tmp_path / "models--a--b" / "snapshots" / commit
    cached.mkdir(parents=True)
    (tmp_path / "link").symlink_to(cached)
    assert model_revision(cached) == model_revision(tmp_path / "link") == commit
