"""The settings of the paper's tables."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1)]


class PaperSettings(BaseModel):
    """The keys of `configs/paper.yaml`, where they are explained."""

    model_config = ConfigDict(strict=True, frozen=True)

    profile: str
    out_dir: Text
    tables: list[int]
    models: dict[str, Text | None]
    experiment: Text
    seed: int
    arms: dict[str, Text | None]
    benchmark_of_arms: Text
    example: Text | None
    bench: dict[str, Any]
    bert_score: Text | None
    trials: dict[str, int]
    prices: Text | None
    literal_port: int
    dry_run: bool
