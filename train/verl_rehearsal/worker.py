"""vLLM's worker on a CPU, with a sleep that loses what it would lose on a GPU. Lost values become NaN.

On a GPU, level 1 moves the weights to host memory and back. Level 2 drops weights and buffers, and vLLM restores the
buffers itself. Both drop the KV cache. A weight that verl's update leaves out afterwards is garbage on a GPU. Here it
is still NaN, so it is noticed. LoRA adapters are stored apart from the parameters and survive level 1, as on a GPU.

Weights are copied when they are received, as on a GPU. Without CUDA IPC verl sends weights through shared memory and
moves them to the device. On a CPU that makes no copy. The tensor would be a view of memory in which the sender writes
the next weights, and which is freed at the end.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from verl.workers.rollout.vllm_rollout import bucketed_weight_transfer
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension
from vllm.model_executor.layers import utils as layers
from vllm.platforms import current_platform
from vllm.v1.worker.cpu_worker import CPUWorker

from train.verl_rehearsal.notes import note


class CopyingReceiver(bucketed_weight_transfer.BucketedWeightReceiver):
    def receive_weights(self, on_bucket_received: Any) -> None:
        """Receive weights as verl does, but copy each one."""

        def copied(weights: Any, is_last: bool) -> None:
            on_bucket_received([(name, weight.clone()) for name, weight in weights], is_last)

        super().receive_weights(copied)


@torch.no_grad()
def sleep(self: Any, level: int = 1) -> None:
    """Overwrite what vLLM's sleep on a GPU would lose, and keep copies of what it would restore."""
    model = self.model_runner.model
    self.kept_weights = _copies(model.named_parameters()) if level == 1 else {}
    self.kept_buffers = _copies(model.named_buffers()) if level == 2 else {}
    lost = [*model.parameters(), *(model.buffers() if level == 2 else ()), *self.model_runner.kv_caches]
    for tensor in lost:
        tensor.fill_(float("nan") if tensor.is_floating_point() else 0)
    note("asleep", level=level, lost=sum(1 for _ in model.parameters()))


@torch.no_grad()
def wake_up(self: Any, tags: Sequence[str] | None = None) -> None:
    """Restore what was kept. When the cache wakes up, which is last, note how many parameters are still NaN."""
    model = self.model_runner.model
    tags = ["weights", "kv_cache"] if tags is None else tags
    if "weights" in tags:
        _restore(dict(model.named_parameters()), self.kept_weights)
        _restore(dict(model.named_buffers()), self.kept_buffers)
    if "kv_cache" in tags:
        for cache in self.model_runner.kv_caches:
            cache.zero_()
        left = [name for name, value in model.named_parameters() if value.isnan().any()]
        note("awake", nan=len(left), first=left[:3])


def _copies(named: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in named}


def _restore(tensors: Mapping[str, torch.Tensor], kept: Mapping[str, torch.Tensor]) -> None:
    for name, value in kept.items():
        tensors[name].copy_(value)


def plain_linear(layer: Any, remove_weight: bool) -> None:
    """Use the plain linear function. The CPU build's own packs weights once, so new ones could not be loaded."""
    layer.cpu_linear = torch.nn.functional.linear


bucketed_weight_transfer.BucketedWeightReceiver = CopyingReceiver  # verl looks it up each time weights arrive
CPUWorker.sleep, CPUWorker.wake_up = sleep, wake_up
CPUWorker.kept_weights, CPUWorker.kept_buffers = {}, {}  # for a worker that has not slept yet
layers.dispatch_cpu_unquantized_gemm = plain_linear
type(current_platform).is_sleep_mode_available = lambda self: True


class WorkerExtension(vLLMColocateWorkerExtension):
    """verl's extension of vLLM's worker. vLLM loads this module through the class name in the engine's arguments."""

    def _update_weights(self, weights: Any, peft_config: Any, base_sync_done: bool) -> None:
        super()._update_weights(weights, peft_config=peft_config, base_sync_done=base_sync_done)
        note("received", tensors=len(weights), adapter=bool(peft_config and base_sync_done))
