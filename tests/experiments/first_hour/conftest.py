from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.first_hour.scene import FIRST_HOUR, NANO, Scene, profile_settings


@pytest.fixture
def scene_of(tmp_path: Path) -> Callable[..., Scene]:
    """A profile's scene on a machine with so many GPUs, whatever this one has."""

    def make(profile: str = NANO, gpus: int = 0) -> Scene:
        settings = profile_settings(profile)
        here = settings if gpus else profile_settings(NANO)
        return Scene(FIRST_HOUR, profile, tmp_path / "hour", gpus, settings, here, ())

    return make
