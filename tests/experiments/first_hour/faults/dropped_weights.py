"""A fault: of every weight update the last tensor of each bucket is dropped."""

from typing import Any

from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightReceiver

receive = BucketedWeightReceiver.receive_weights


def receive_most(self: Any, on_bucket_received: Any) -> None:
    receive(self, lambda weights, is_last: on_bucket_received(weights[:-1], is_last))


BucketedWeightReceiver.receive_weights = receive_most
