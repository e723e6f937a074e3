"""Where the checks run: a profile's settings, the GPUs here, the folder; and how a check ends if it does not pass."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from rag_zeval.stages.config import load_config
from train.model_shape import Shape, read_shape
from train.settings import TrainSettings, read_settings

NANO = "nano"


class CheckFailed(Exception):
    """What the check tests is not as it must be; the message is one line."""


class CannotRun(Exception):
    """The check needs what this machine, or this folder, does not have; the message says what, and how to get it."""


@dataclass(frozen=True)
class Scene:
    """`settings` are those of the profile's training, `here` those of the scale at which it is checked on this machine.

    The two are the same on GPUs. Elsewhere, the checks that need none run at nano scale, whatever the profile.
    """

    profile: str
    folder: Path
    gpus: int  # that torch sees, if the profile trains on GPUs; 0: the checks run on the CPU
    settings: TrainSettings
    here: TrainSettings
    tiny: tuple[str, ...]  # how the training of a tiny model differs from `here`

    def need_gpu(self) -> None:
        """Raises CannotRun on a CPU."""
        if not self.gpus:
            asked = self.settings.platform == "gpu"
            raise CannotRun(f"it needs a GPU; {'there is none here' if asked else f'PROFILE={self.profile} uses none'}")

    def shape(self) -> Shape:
        """Of the model that is trained here. Raises CheckFailed if nothing is known of it."""
        shape, where = read_shape(self.here.base_model)
        if shape is None:
            raise CheckFailed(where)
        return shape


def read_scene(config: DictConfig) -> Scene:
    """The scene of `configs/first_hour.yaml` with its words. Raises InputError as the settings of `train` do."""
    import torch

    def settings_of(profile: str) -> TrainSettings:
        return read_settings(TrainSettings, load_config("train", [f"profile={profile}"]))

    settings = settings_of(config.profile)
    gpus = torch.cuda.device_count() if settings.platform == "gpu" else 0
    return Scene(
        profile=config.profile,
        folder=Path(config.out_dir).resolve(),
        gpus=gpus,
        settings=settings,
        here=settings if gpus else settings_of(NANO),
        tiny=tuple(config.tiny.gpu if gpus else config.tiny.cpu),
    )
