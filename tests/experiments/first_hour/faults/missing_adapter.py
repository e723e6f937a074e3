"""A fault: the adapters of LoRA come to vLLM's worker, and are never loaded."""

from typing import Any

from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightReceiver

receive = BucketedWeightReceiver.receive_weights


def receive_nothing(self: Any, on_bucket_received: Any) -> None:
    receive(self, lambda weights, is_last: None)


BucketedWeightReceiver.receive_weights = receive_nothing
