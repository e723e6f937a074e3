"""The exported model asked one question, without a server: a model that answers, one that writes nothing readable."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.first_hour.scene import CannotRun, CheckFailed, Scene
from experiments.first_hour.vllm_engine import smoke

ROOT = Path(__file__).resolve().parents[3]


def test_a_model_must_be_there_and_must_write_the_format(
    scene_of: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file, save_file

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
