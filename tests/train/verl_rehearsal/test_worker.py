"""The sleep that stands in for a GPU's, on a model of two parameters and a buffer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from train.leftovers import MARK
from train.verl_rehearsal.notes import read_notes

pytestmark = pytest.mark.vllm


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What of vLLM's worker sleep and wake-up look at."""
    import torch

    monkeypatch.setenv(MARK, str(tmp_path))
    model = torch.nn.Linear(2, 2)
    model.register_buffer("table", torch.arange(3.0))
    return SimpleNamespace(model_runner=SimpleNamespace(model=model, kv_caches=[torch.ones(4)]))


@pytest.mark.parametrize(("level", "left"), [(1, 0), (2, 2)])
def test_level_1_keeps_the_weights_and_level_2_loses_them(worker: Any, tmp_path: Path, level: int, left: int) -> None:
    import torch

    from train.verl_rehearsal.worker import sleep, wake_up

    runner = worker.model_runner
    before = {name: tensor.clone() for name, tensor in runner.model.state_dict().items()}
    sleep(worker, level=level)
    lost = [*runner.model.parameters(), *runner.kv_caches, *([runner.model.table] if level == 2 else [])]
    assert all(tensor.isnan().all() for tensor in lost)
    wake_up(worker, ["weights"])
    assert runner.kv_caches[0].isnan().all()
    wake_up(worker, ["kv_cache"])
    assert not runner.kv_caches[0].isnan().any() and runner.model.table.equal(before["table"])
    assert runner.model.weight.equal(before["weight"]) is (level == 1)
    asleep, awake = read_notes(tmp_path)
    assert (asleep["level"], asleep["lost"], awake["nan"]) == (level, 2, left)
    with torch.no_grad():
        runner.model.weight.fill_(1)
    wake_up(worker, ["kv_cache"])  # one of two came: the other is named
    assert read_notes(tmp_path)[-1]["first"] == (["bias"] if level == 2 else [])
