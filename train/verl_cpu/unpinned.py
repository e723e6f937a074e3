"""The engine of `train.linear_decay`, but it offloads to unpinned memory."""

from typing import Any
from unittest import mock

from verl.workers.engine.fsdp import transformer_impl

from train.linear_decay import LinearDecayEngine


class UnpinnedEngine(LinearDecayEngine):
    def _build_fsdp_module(self, module: Any) -> Any:
        """Build the module with an offload policy that does not pin memory, which a CPU-only torch cannot do."""
        policy = transformer_impl.CPUOffloadPolicy
        with mock.patch.object(transformer_impl, "CPUOffloadPolicy", lambda pin_memory=True: policy(pin_memory=False)):
            return super()._build_fsdp_module(module)
