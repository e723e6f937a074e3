"""The adapter of what training changed, against its definition."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

from rag_zeval.errors import InputError
from train.export import difference, lora

LAYERS = re.compile(r"_proj\.weight$")


@pytest.fixture
def trained(nano_base: Path, tmp_path: Path) -> Path:
    """The nano base after a change of all its weights, whose linear layers' singular values fall by half each."""
    folder = tmp_path / "trained"
    shutil.copytree(nano_base, folder)
    weights = load_file(folder / "model.safetensors")
    chance = torch.Generator().manual_seed(0)
    for name, weight in weights.items():
        change = torch.randn(weight.shape, generator=chance)
        if LAYERS.search(name):
            left, sizes, right = torch.linalg.svd(change, full_matrices=False)
            change = left * 0.5 ** torch.arange(len(sizes)) @ right
        weights[name] = weight + 0.01 * change
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (folder / "rag_zeval.json").write_text(json.dumps({"variant": "compact", "answer_sentences": 3}))
    return folder


def test_no_adapter_of_its_rank_is_nearer(trained: Path, nano_base: Path, tmp_path: Path, capsys: Any) -> None:
    adapter, again = tmp_path / "adapter", tmp_path / "again"
    assert difference.main([str(trained), str(nano_base), str(adapter), "--rank", "3"]) == 0
    said = float(re.findall(r"with ([\d.]+) of the squared change", capsys.readouterr().out)[0])
    assert lora.main([str(adapter), str(again)]) == 0
    before, wanted, made = (load_file(of / "model.safetensors") for of in (nano_base, trained, again))
    kept = everything = 0.0
    for name, weight in wanted.items():
        change, missing = weight - before[name], weight - made[name]
        everything += change.square().sum().item()
        if LAYERS.search(name):
            sizes = torch.linalg.svdvals(change)
            assert missing.square().sum().item() == pytest.approx(sizes[3:].square().sum().item(), rel=0.01)
            kept += sizes[:3].square().sum().item()
        else:
            assert torch.equal(made[name], before[name])
    assert said == pytest.approx(kept / everything, abs=0.001)
    assert json.loads((again / "rag_zeval.json").read_text())["answer_sentences"] == 3
    # others on the machine may read the weights as they may read the rest
    assert len({path.stat().st_mode for of in (adapter, again) for path in of.iterdir()}) == 1


def test_of_several_models_it_is_about_their_mean(trained: Path, nano_base: Path, tmp_path: Path) -> None:
    mirrored, made = tmp_path / "mirrored", tmp_path / "made"
    shutil.copytree(trained, mirrored)
    weights, before = (load_file(of / "model.safetensors") for of in (trained, nano_base))
    halves = {name: before[name] - 0.5 * (weight - before[name]) for name, weight in weights.items()}
    save_file(halves, mirrored / "model.safetensors", {"format": "pt"})
    assert difference.main([*map(str, (trained, mirrored, nano_base, tmp_path / "adapter")), "--rank", "192"]) == 0
    assert lora.main([str(tmp_path / "adapter"), str(made)]) == 0
    for name, weight in load_file(made / "model.safetensors").items():
        if LAYERS.search(name):  # the mean of the change and of minus half of it
            torch.testing.assert_close(weight - before[name], (weights[name] - before[name]) / 4, atol=2e-5, rtol=0.01)


def test_models_that_do_not_belong_together_are_refused(
    trained: Path, nano_base: Path, tmp_path: Path, refusal: Any
) -> None:
    out, small, large = (tmp_path / name for name in ("out", "small", "large"))
    assert "no model in this folder" in refusal(difference.main, [str(trained), str(tmp_path), str(out)])
    for folder, size in ((small, 8), (large, 16)):  # of a family that train.model_shape does not know
        config = GPT2Config(n_embd=size, n_layer=1, n_head=1, vocab_size=16, bos_token_id=None, eos_token_id=None)
        GPT2LMHeadModel(config).save_pretrained(folder)
    for model in (small, nano_base):
        with pytest.raises(InputError, match=f"^{model}: its layers are not those of {large}"):
            difference.keep_difference([model], large, out)
    (large / "model.safetensors").unlink()
    with pytest.raises(InputError, match=f"^{large}: no language model can be loaded: "):
        difference.keep_difference([small], large, out)
    assert not out.exists()


def test_an_adapter_that_cannot_be_merged_is_named(trained: Path, nano_base: Path, tmp_path: Path) -> None:
    adapter, out = tmp_path / "adapter", tmp_path / "out"
    difference.keep_difference([trained], nano_base, adapter, rank=3)
    weights = adapter / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    with pytest.raises(InputError, match=f"^{adapter}: cannot be merged into {nano_base}: "):
        lora.merge([adapter], out)
    assert not out.exists()
