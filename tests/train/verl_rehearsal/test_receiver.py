"""verl's own sender and our receiver, through real shared memory."""

from __future__ import annotations

import asyncio
import threading
import uuid

import pytest

pytestmark = pytest.mark.vllm


def test_what_was_received_outlives_the_memory_it_came_through() -> None:
    import torch
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
