"""Faults of verl's weight updates, for a rehearsal whose vLLM workers load this module: FAULT names the one."""

import os
from itertools import count
from pathlib import Path
from typing import Any

from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightReceiver

receive = BucketedWeightReceiver.receive_weights
MESSAGE = "the update was told to fail"
UPDATE = 4  # the first brings the base's weights; a checkpoint counts once its step is logged: that of step 2 does
numbers = count(1)
first: dict[str, Any] = {}


def stale_weights(self: Any, on_bucket_received: Any) -> None:
    """Every update after the first brings the first one's weights once more."""

    def stale(weights: Any, is_last: bool) -> None:
        on_bucket_received([(name, first.setdefault(name, value.clone())) for name, value in weights], is_last)

    receive(self, stale)


def dropped_weights(self: Any, on_bucket_received: Any) -> None:
    """Of every update the last tensor of each bucket is dropped."""
    receive(self, lambda weights, is_last: on_bucket_received(weights[:-1], is_last))


def missing_adapter(self: Any, on_bucket_received: Any) -> None:
    """The adapters of LoRA come to vLLM's worker, and are never loaded."""
    receive(self, lambda weights, is_last: None)


def raising_update(self: Any, on_bucket_received: Any) -> None:
    """The worker raises in the update after the third step, once in the life of a run."""
    number = next(numbers)
    raised = Path(os.environ["RAG_ZEVAL_TRAIN"]) / "raised"
    if number == UPDATE and not raised.exists():
        raised.touch()
        raise RuntimeError(MESSAGE)
    receive(self, on_bucket_received)


BucketedWeightReceiver.receive_weights = globals()[os.environ["FAULT"]]
