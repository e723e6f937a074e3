from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.first_hour.scene import NANO, Scene
from rag_zeval.stages.config import load_config
from train.settings import TrainSettings, read_settings


@pytest.fixture
def scene_of(tmp_path: Path) -> Callable[..., Scene]:
    """A profile's scene on a machine with so many GPUs, whatever this one has."""

    def settings_of(profile: str) -> TrainSettings:
        return read_settings(TrainSettings, load_config("train", [f"profile={profile}"]))

    def make(profile: str = NANO, gpus: int = 0) -> Scene:
        settings = settings_of(profile)
        return Scene(profile, tmp_path / "hour", gpus, settings, settings if gpus else settings_of(NANO), ())

    return make
