"""The settings of `python -m train.one_gpu`, which configs/one_gpu.yaml explains."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from rag_zeval.errors import InputError
from rag_zeval.stages.config import Section, Seed
from train.one_gpu.rows import RowKind, Validation


class OneGPUSettings(Section):
    profile: str
    out_dir: Annotated[str, Field(min_length=1)]
    seed: Seed
    rows: Annotated[list[RowKind], Field(min_length=1)]
    validation: Validation
    steps: PositiveInt
    warmup_steps: PositiveInt
    learning_rate: PositiveFloat
    prompts: PositiveInt
    rollouts: Annotated[int, Field(ge=2, description="2 or more: an advantage compares the rollouts of a prompt")]
    temperature: PositiveFloat
    max_reply_tokens: PositiveInt
    batch_tokens: PositiveInt
    validate_every: PositiveInt

    @model_validator(mode="after")
    def _check(self) -> OneGPUSettings:
        if self.warmup_steps > self.steps:
            end = f"the run ends after step {self.steps}: the full learning rate is never reached"
            raise InputError(f"warmup_steps={self.warmup_steps}, but {end}")
        return self
