"""The receiving end of a weight update, copying as the way to a GPU does.

Without CUDA IPC verl sends weights through shared memory, and moves them to the device; on a CPU that is no copy but a
view of memory that the sender writes the next weights into, and that is gone when all have come.
"""

from __future__ import annotations

from typing import Any

from verl.workers.rollout.vllm_rollout import bucketed_weight_transfer


class CopyingReceiver(bucketed_weight_transfer.BucketedWeightReceiver):
    def receive_weights(self, on_bucket_received: Any) -> None:
        """As verl has it, but each weight is the receiver's own."""

        def copied(weights: Any, is_last: bool) -> None:
            on_bucket_received([(name, weight.clone()) for name, weight in weights], is_last)

        super().receive_weights(copied)


def install() -> None:
    """verl's worker looks the class up whenever weights come."""
    bucketed_weight_transfer.BucketedWeightReceiver = CopyingReceiver
