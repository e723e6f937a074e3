"""The tiny model is its base; the exported model is asked one question, without a server."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from experiments.first_hour import tiny_model
from experiments.first_hour.scene import CannotRun, CheckFailed, Scene
from experiments.first_hour.training import BASE
from experiments.first_hour.vllm_engine import smoke
from rag_zeval.files import read_json

ROOT = Path(__file__).resolve().parents[3]


def test_a_model_must_be_there_and_must_write_the_format(
    scene_of: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    scene = scene_of()
    with pytest.raises(CannotRun, match=r"tiny-train/model is not there: tiny-train makes it$"):
        smoke(scene)
    model = shutil.copytree(ROOT / "checkpoints/nano-judge", scene.folder / "tiny-train" / "model")
    smoke(scene)
    weights = model / "model.safetensors"
    save_file({name: 0 * tensor for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})
    with pytest.raises(CheckFailed, match=r"^rag-zeval smoke ended with 1: "):
        smoke(scene)


def test_it_is_qwen2_with_an_untied_head_and_computes_what_its_base_computes(tmp_path: Path) -> None:
    folder = tiny_model.make(BASE, tmp_path / "model")  # compares the logits itself
    config, weights = read_json(folder / "config.json"), load_file(folder / "model.safetensors")
    assert config["architectures"] == ["Qwen2ForCausalLM"] and config["tie_word_embeddings"] is False
    assert weights["lm_head.weight"].equal(weights["model.embed_tokens.weight"])
    assert "model.layers.0.self_attn.v_proj.bias" in weights and not [n for n in weights if n.endswith("o_proj.bias")]
    assert (folder / "tokenizer.json").read_bytes() == (BASE / "tokenizer.json").read_bytes()
