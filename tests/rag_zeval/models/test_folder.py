"""What a model folder says of itself: a hash follows what counts, and an error names the file and the field."""

import json
from pathlib import Path

import pytest

from rag_zeval.errors import InputError
from rag_zeval.models.folder import check_weights, model_revision, model_sha256


def test_a_model_hash_follows_every_file_that_changes_its_output(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.json"):
        model_sha256(tmp_path)
    hashes = set()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text(json.dumps(name))
        hashes.add(model_sha256(tmp_path))
    (tmp_path / "README.md").write_text("a note changes nothing")
    assert len(hashes) == 3 and model_sha256(tmp_path) in hashes


def test_weights_are_whole_if_what_transformers_looks_for_first_is_there(tmp_path: Path) -> None:
    def said() -> str:
        with pytest.raises(InputError) as caught:
            check_weights(tmp_path)
        return str(caught.value)

    assert "config.json is missing" in said()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "consolidated.safetensors").write_text("another format")
    assert said().startswith(f"{tmp_path}: no weights in this folder, such as model.safetensors; ")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}))
    (tmp_path / "model-1-of-2.safetensors").write_text("x")
    assert said() == f"{index}: names model-2-of-2.safetensors, which is missing; download the model again"
    (tmp_path / "model-2-of-2.safetensors").write_text("x")
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"a": "not-downloaded.bin"}}))
    check_weights(tmp_path)


def test_model_revision_is_what_the_download_noted(tmp_path: Path) -> None:
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
