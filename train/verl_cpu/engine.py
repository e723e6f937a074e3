"""The FSDP2 engine on CPU, over gloo; `actor_rollout_ref.model.external_lib=train.verl_cpu.engine` loads it."""

from __future__ import annotations

from typing import Any
from unittest import mock

from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl

from train.linear_decay import LinearDecayEngine


@EngineRegistry.register(model_type="language_model", backend=["fsdp2"], device="cpu")
class CPUEngine(LinearDecayEngine):
    """The reference model's offload policy must not pin memory: a CPU-only torch cannot."""

    def _build_fsdp_module(self, module: Any) -> Any:
        policy = transformer_impl.CPUOffloadPolicy
        with mock.patch.object(transformer_impl, "CPUOffloadPolicy", lambda pin_memory=True: policy(pin_memory=False)):
            return super()._build_fsdp_module(module)
