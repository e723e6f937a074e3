"""Linear warm-up and decay of the learning rate for verl's FSDP engine, which has only `constant` and `cosine`.

Every worker loads this module through `actor_rollout_ref.model.external_lib` and `...actor.optim._target_`. It needs
verl and torch.
"""

from dataclasses import dataclass
from typing import Any

from verl.workers.config.optimizer import FSDPOptimizerConfig
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead


@dataclass
class LinearDecayConfig(FSDPOptimizerConfig):
    """verl's optimizer config that also takes `lr_scheduler_type: linear`."""

    lr_scheduler_type: str = "constant"

    def __post_init__(self) -> None:
        wanted = str(self.lr_scheduler_type)
        if wanted == "linear":
            self.lr_scheduler_type = "constant"  # passes the parent's check
        super().__post_init__()
        self.lr_scheduler_type = wanted


# verl looks up engines with a vendor first, so it takes this one.
@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cuda", vendor="nvidia")
class LinearDecayEngine(FSDPEngineWithLMHead):
    """verl's FSDP engine with the schedule `linear` added."""

    def _build_lr_scheduler(self, optimizer: Any) -> Any:
        """Build the schedule. `linear` rises from 0 to `lr` in the warm-up steps, then falls to 0 at the last step."""
        from transformers import get_linear_schedule_with_warmup

        config = self.optimizer_config
        if config.lr_scheduler_type != "linear":
            return super()._build_lr_scheduler(optimizer)
        warmup = config.lr_warmup_steps
        if warmup is None or warmup <= 0:
            warmup = int(config.lr_warmup_steps_ratio * config.total_training_steps)
        return get_linear_schedule_with_warmup(optimizer, warmup, config.total_training_steps)
