from __future__ import annotations

from pathlib import Path

from experiments.first_hour import tiny_model
from experiments.first_hour.training import BASE
from rag_zeval.files import read_json


def test_it_is_qwen2_with_an_untied_head_and_computes_what_its_base_computes(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    folder = tiny_model.make(BASE, tmp_path / "model")  # compares the logits itself
    config, weights = read_json(folder / "config.json"), load_file(folder / "model.safetensors")
    assert config["architectures"] == ["Qwen2ForCausalLM"] and config["tie_word_embeddings"] is False
    assert weights["lm_head.weight"].equal(weights["model.embed_tokens.weight"])
    assert "model.layers.0.self_attn.v_proj.bias" in weights and not [n for n in weights if n.endswith("o_proj.bias")]
    assert (folder / "tokenizer.json").read_bytes() == (BASE / "tokenizer.json").read_bytes()
