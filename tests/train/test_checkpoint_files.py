"""A checkpoint that could run code is refused before verl loads it."""

import os
import pickle
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from train.checkpoint_files import check_pickles
from train.launch import run_verl
from train.run_folder import RunFolder
from train.settings import SFTSettings, TrainSettings, read_settings


class RunsCode:
    """Pickled, this makes a folder as soon as it is loaded."""

    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.trace),)


def random_states() -> dict[str, Any]:
    """As verl keeps them in `extra_state_world_size_*.pt`."""
    return {"cpu": torch.get_rng_state(), "numpy": np.random.get_state(), "random": random.getstate()}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "checkpoints" / "global_step_2"
    (folder / "actor" / "huggingface").mkdir(parents=True)
    torch.save({"_snapshot": {"_snapshot_step": 2}, "_sampler_iter_yielded": 2}, folder / "data.pt")
    torch.save({"lr_scheduler": None, "rng": random_states()}, folder / "actor" / "extra_state_world_size_1_rank_0.pt")
    torch.save({"weight": torch.ones(2)}, folder / "actor" / "model_world_size_1_rank_0.pt")
    (folder / "actor" / "huggingface" / "model.safetensors").write_bytes(b"\x80\x02" + bytes(6) + b"{}")
    return folder


def test_what_verl_writes_passes(checkpoint: Path) -> None:
    """So do its sharded weights: `export/test_lora.py`, and the runs of `test_verl_run.py` that are resumed."""
    check_pickles(checkpoint)


@pytest.mark.parametrize("settings_of", [TrainSettings, SFTSettings])
def test_no_trainer_loads_a_tampered_checkpoint(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings_of: Any
) -> None:
    trace, tampered = tmp_path / "trace", checkpoint / "data.pt"
    torch.save({"_snapshot": RunsCode(trace)}, tampered)
    torch.load(tampered, weights_only=False)
    trace.rmdir()  # it is there: loading as verl does runs code
    (tmp_path / "trainer.py").write_text(f"import torch; torch.load({str(tampered)!r}, weights_only=False)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(settings_of, "trainer", replace(settings_of.trainer, program=["trainer"]))
    run = RunFolder(checkpoint.parents[1])
    stage = "train" if settings_of is TrainSettings else "sft"
    settings = read_settings(settings_of, load_config(stage, [f"out_dir={run.path}"]))
    with pytest.raises(InputError) as refusal:
        run_verl(settings, run, {}, total=4, done=2)
    assert str(refusal.value).startswith(f"{tampered}: ") and f"{os.mkdir.__module__}.mkdir" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert not trace.exists() and not run.log.exists()  # the trainer was not started


def _plain(at: Path, code: RunsCode) -> None:
    at.write_bytes(pickle.dumps(code))


def _of_an_old_torch(at: Path, code: RunsCode) -> None:
    torch.save(code, at, _use_new_zipfile_serialization=False)


def _of_a_new_protocol(at: Path, code: RunsCode) -> None:
    torch.save(code, at, pickle_protocol=4)  # its names are built while it is loaded


def _linked(at: Path, code: RunsCode) -> None:
    elsewhere = at.parents[3] / "elsewhere"
    elsewhere.mkdir()
    torch.save(code, elsewhere / "data.pt")
    at.unlink(missing_ok=True)
    at.symlink_to(elsewhere / "data.pt")


def _in_a_linked_folder(at: Path, code: RunsCode) -> None:
    elsewhere = at.parents[3] / "elsewhere"
    at.parent.rename(elsewhere)
    at.parent.symlink_to(elsewhere)
    torch.save(code, at)


@pytest.mark.parametrize(
    "write", [_plain, _of_an_old_torch, _of_a_new_protocol, _linked, _in_a_linked_folder, torch.save]
)
@pytest.mark.parametrize("name", ["data.pt", "actor/optim_world_size_1_rank_0.pt", "actor/huggingface/weights.bin"])
def test_code_is_found_in_every_form_and_file(checkpoint: Path, tmp_path: Path, write: Any, name: str) -> None:
    trace, tampered = tmp_path / "trace", checkpoint / name
    if write is torch.save:
        torch.save(RunsCode(trace), tampered)
    else:
        write(tampered, RunsCode(trace))
    with pytest.raises(InputError, match=tampered.name):
        check_pickles(checkpoint)
    assert not trace.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"PK\x03\x04" + bytes(100)])
def test_a_file_that_cannot_be_checked_is_refused(checkpoint: Path, content: bytes) -> None:
    (checkpoint / "data.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"data\.pt.*cannot be checked"):
        check_pickles(checkpoint)
