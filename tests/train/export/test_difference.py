"""The adapter of what training changed, against its definition."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

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
    other = tmp_path / "other"
    shutil.copytree(nano_base, other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    out = str(tmp_path / "out")
    assert "its layers are not those of" in refusal(difference.main, [str(trained), str(other), out])
    assert "no model here" in refusal(difference.main, [str(trained), str(tmp_path), out])
    assert not Path(out).exists()
