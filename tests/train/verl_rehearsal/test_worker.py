"""What stands in for a GPU: a sleep, on a model of two parameters and a buffer, and weights that are copied."""

import asyncio
import threading
import uuid
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from train.leftovers import MARK
from train.verl_rehearsal.notes import read_notes

pytestmark = pytest.mark.vllm


@pytest.fixture(autouse=True)
def loaded() -> None:
    """verl finds vLLM's CPU build."""
    import_module("train.verl_rehearsal.plugin")


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What of vLLM's worker sleep and wake-up look at."""
    monkeypatch.setenv(MARK, str(tmp_path))
    model = torch.nn.Linear(2, 2)
    model.register_buffer("table", torch.arange(3.0))
    return SimpleNamespace(model_runner=SimpleNamespace(model=model, kv_caches=[torch.ones(4)]))


@pytest.mark.parametrize(("level", "left"), [(1, 0), (2, 2)])
def test_level_1_keeps_the_weights_and_level_2_loses_them(worker: Any, tmp_path: Path, level: int, left: int) -> None:
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


def test_what_was_received_outlives_the_memory_it_came_through() -> None:
    """verl's own sender and our receiver, through real shared memory."""
    from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightSender

    from train.verl_rehearsal.worker import CopyingReceiver

    handle = f"ipc:///tmp/rz-test-{uuid.uuid4().hex[:12]}.sock"
    sent = {f"layer.{at}": torch.full((200, 400), float(at)) for at in range(8)}  # 320 kB each: three fill a bucket
    received: dict[str, torch.Tensor] = {}
    buckets: list[int] = []

    def take(weights: list[tuple[str, torch.Tensor]], is_last: bool) -> None:
        buckets.append(len(weights))
        received.update(weights)

    receiver = CopyingReceiver(handle, torch.device("cpu"), use_shm=True)
    thread = threading.Thread(target=receiver.receive_weights, args=(take,))
    thread.start()
    asyncio.run(BucketedWeightSender(handle, bucket_size_mb=1, use_shm=True).async_send_weights(iter(sent.items())))
    thread.join(30)
    assert not thread.is_alive() and buckets == [3, 3, 2]
    assert received.keys() == sent.keys() and all(received[name].equal(sent[name]) for name in sent)
