"""The measurement of a device, at toy size on the CPU: its bytes against counting, its page against its figures."""

import json
import re

import pytest

from experiments.timing import decoding_speed, device_speed

torch = pytest.importorskip("torch")
TOY = {**decoding_speed.SMALL, "vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64}


def test_a_step_reads_the_weights_and_the_cache():
    from transformers.cache_utils import DynamicCache

    model = decoding_speed.random_qwen2(TOY, dtype="bfloat16")
    cache = DynamicCache(config=model.config)
    model(torch.arange(10)[None], past_key_values=cache)
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    weights = sum(p.nbytes for p in model.parameters()) - model.model.embed_tokens.weight.nbytes
    assert device_speed.step_bytes(model, 10) == weights + held


def test_a_run_at_toy_size_is_written_and_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setitem(device_speed.SHAPES, "small", TOY)
    monkeypatch.setattr(device_speed, "FOLDER", tmp_path / "measurements")
    monkeypatch.setattr(device_speed, "PAGE", tmp_path / "measurements.md")
    for name, value in {"PASSAGES": (20, 60), "NEW_TOKENS": 5, "QUESTIONS": 4, "SAMPLE": 1}.items():
        monkeypatch.setattr(device_speed, name, value)
    assert device_speed.main([]) == 0
    (path,) = (tmp_path / "measurements").glob("*.json")
    run = json.loads(path.read_text())
    assert [row["passage"] for row in run["rows"]] == [20, 60]
    assert all(row["same"] == 1 for row in run["rows"])  # float32, as in the oracle tests
    assert run["rows"][0]["bound_tokens_per_s"] > run["rows"][1]["bound_tokens_per_s"] > 0
    text = (tmp_path / "measurements.md").read_text()
    assert run["device"] in text and text in capsys.readouterr().out
    assert len(re.findall(r"^\| (?:20|60) \|.*\|$", text, re.M)) == 6
