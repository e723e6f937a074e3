"""Errors name file, line and field; hashes follow what counts."""

import json
import subprocess
import sys

import pytest

from rag_zeval.errors import InputError
from rag_zeval.files import model_revision, model_sha256, read_jsonl, write_json


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
    with pytest.raises(InputError, match="binary:1: not UTF-8"):
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


def test_two_processes_may_write_one_file(tmp_path):
    program = (
        "import sys; from rag_zeval.files import write_text\nfor _ in range(500): write_text(sys.argv[1], sys.argv[2])"
    )
    written = tmp_path / "config.yaml"
    line = [sys.executable, "-c", program, str(written)]
    writers = [subprocess.Popen([*line, letter * 1000], stderr=subprocess.PIPE) for letter in "ab"]
    assert [writer.communicate()[1] for writer in writers] == [b"", b""]
    assert written.read_text() in ("a" * 1000, "b" * 1000) and list(tmp_path.iterdir()) == [written]
