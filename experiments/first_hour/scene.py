"""Where the checks run: lane, profile, GPUs, folder; and what a check finds, or how it ends if it does not pass."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from omegaconf import DictConfig

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from train.model_shape import Shape, read_shape
from train.settings import TrainSettings, read_settings

NANO = "nano"
FIRST_HOUR, REHEARSAL = LANES = ("first-hour", "rehearsal")


class CheckFailed(Exception):
    """What the check tests is not as it must be; the message is one line."""


class CannotRun(Exception):
    """The check needs what this machine, or this folder, does not have; the message says what, and how to get it."""


class Finding(NamedTuple):
    """One of several things that a check looks at, and the figure it rests on."""

    name: str
    passed: bool
    figure: str


def conclude(findings: Iterable[Finding]) -> None:
    """Print each finding. Raises CheckFailed naming all that did not pass."""
    failed = []
    for name, passed, figure in findings:
        print(f"{'PASS' if passed else 'FAIL'} {name}: {figure}")
        failed += [] if passed else [f"{name}: {figure}"]
    if failed:
        raise CheckFailed("; ".join(failed))


@dataclass(frozen=True)
class Scene:
    """`settings` are those of the profile's training, `here` those of the scale at which it is checked on this machine.

    The two are the same on GPUs and in a rehearsal, which is for GPU profiles and has stand-ins for the GPU. Elsewhere,
    the checks that need no GPU run at nano scale, whatever the profile.
    """

    lane: str
    profile: str
    folder: Path
    gpus: int  # that torch sees, if the profile trains on them; 0 in a rehearsal
    settings: TrainSettings
    here: TrainSettings
    tiny: tuple[str, ...]  # how the training of a tiny model differs from `here`, as words of `train`
    fp32: tuple[str, ...] = ()  # the words, in a rehearsal, of the training that computes in fp32

    @property
    def scale(self) -> str:
        """What the results belong to beside the profile."""
        return self.lane if self.lane == REHEARSAL else f"{self.gpus} GPUs" if self.gpus else "on the CPU at nano scale"

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


def profile_settings(profile: str, *words: str) -> TrainSettings:
    """The settings of `train` with a profile and words. Raises InputError as `train` does."""
    return read_settings(TrainSettings, load_config("train", [f"profile={profile}", *words]))


def read_scene(config: DictConfig) -> Scene:
    """The scene of `configs/first_hour.yaml` with its words.

    Raises InputError as the settings of `train` do, for an unknown lane, and if there is nothing to rehearse.
    """
    if config.lane not in LANES:
        raise InputError(f"lane={config.lane}: there is {', '.join(LANES)}")
    settings, folder, words = profile_settings(config.profile), Path(config.out_dir).resolve(), config.rehearsal
    if config.lane == REHEARSAL:
        if config.profile not in words:
            raise InputError(f"profile={config.profile} trains on a CPU as it is; what is rehearsed is paper or single")
        tiny = (*words.all, *words[config.profile])
        return Scene(config.lane, config.profile, folder, 0, settings, settings, tiny, tuple(words.fp32))
    gpus = torch.cuda.device_count() if settings.platform == "gpu" else 0
    here, tiny = (settings, config.tiny.gpu) if gpus else (profile_settings(NANO), config.tiny.cpu)
    return Scene(config.lane, config.profile, folder, gpus, settings, here, tuple(tiny))
