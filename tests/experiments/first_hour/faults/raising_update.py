"""A fault: vLLM's worker raises in the weight update after the third step, once in the life of a run."""

import os
from itertools import count
from pathlib import Path
from typing import Any

from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightReceiver

receive = BucketedWeightReceiver.receive_weights
MESSAGE = "the update was told to fail"
UPDATE = 4  # the first brings the base's weights; a checkpoint counts once its step is logged: that of step 2 does
numbers = count(1)


def raise_once(self: Any, on_bucket_received: Any) -> None:
    number = next(numbers)
    raised = Path(os.environ["RAG_ZEVAL_TRAIN"]) / "raised"
    if number == UPDATE and not raised.exists():
        raised.touch()
        raise RuntimeError(MESSAGE)
    receive(self, on_bucket_received)


BucketedWeightReceiver.receive_weights = raise_once
