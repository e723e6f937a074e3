"""The engine of `train.linear_decay` with offload to memory that is not pinned."""

from typing import Any
from unittest import mock

from verl.workers.engine.fsdp import transformer_impl

from train.linear_decay import LinearDecayEngine


class UnpinnedEngine(LinearDecayEngine):
    def _build_fsdp_module(self, module: Any) -> Any:
        """The reference model's offload policy must not pin memory: a CPU-only torch cannot."""
        policy = transformer_impl.CPUOffloadPolicy
        with mock.patch.object(transformer_impl, "CPUOffloadPolicy", lambda pin_memory=True: policy(pin_memory=False)):
            return super()._build_fsdp_module(module)
