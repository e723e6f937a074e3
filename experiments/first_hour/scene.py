"""The setting in which checks run (lane, profile, GPUs, folder), the findings of a check, and its exceptions."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import torch
from omegaconf import DictConfig

from rag_zeval.errors import InputError
from rag_zeval.stages.config import Section, Text, check_settings, load_config
from train.model_shape import Shape, read_shape
from train.settings import TrainSettings, read_settings

NANO = "nano"
Lane = Literal["first-hour", "rehearsal"]
FIRST_HOUR, REHEARSAL = LANES = get_args(Lane)


class Tiny(Section):
    """Words of `train`: how the training of a tiny model differs from the profile's, on GPUs and without."""

    gpu: list[str]
    cpu: list[str]


class HourSettings(Section):
    """The keys of `configs/first_hour.yaml`, which explains them."""

    profile: str
    lane: Lane
    out_dir: Text
    only: Text | None
    tiny: Tiny
    rehearsal: dict[str, list[str]]


class CheckFailed(Exception):
    """The check found a problem. The message is one line."""


class CannotRun(Exception):
    """The check needs something that this machine or folder lacks. The message says what, and how to get it."""


class Finding(NamedTuple):
    """One result of a check, and the figure that it is based on."""

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
    """What the checks need to know: lane, profile, folder, GPUs and settings.

    settings: those of the profile's training. here: those of the scale at which this machine checks it. The two are the
    same on GPUs and in a rehearsal, which checks GPU profiles with stand-ins for the GPU. Elsewhere the checks that
    need no GPU run at nano scale, whatever the profile.
    """

    lane: str
    profile: str
    folder: Path
    gpus: int  # that torch sees, if the profile trains on GPUs; 0 in a rehearsal
    settings: TrainSettings
    here: TrainSettings
    tiny: tuple[str, ...]  # words of `train`: how the training of a tiny model differs from `here`
    fp32: tuple[str, ...] = ()  # more words of `train` with which a rehearsal computes in fp32

    @property
    def scale(self) -> str:
        """The scale of the checks, in words. Stored results are valid only for the same profile and scale."""
        return self.lane if self.lane == REHEARSAL else f"{self.gpus} GPUs" if self.gpus else "on the CPU at nano scale"

    def need_gpu(self) -> None:
        """Raise CannotRun if there is no GPU to use."""
        if not self.gpus:
            asked = self.settings.platform == "gpu"
            raise CannotRun(f"it needs a GPU; {'there is none here' if asked else f'PROFILE={self.profile} uses none'}")

    def shape(self) -> Shape:
        """Return the shape of the model that is trained at the scale `here`. Raises CheckFailed if it is unknown."""
        shape, where = read_shape(self.here.base_model)
        if shape is None:
            raise CheckFailed(where)
        return shape


def profile_settings(profile: str, *words: str) -> TrainSettings:
    """Return the settings of `train` with a profile and words. Raises InputError as `train` does."""
    return read_settings(TrainSettings, load_config("train", [f"profile={profile}", *words]))


def read_scene(config: DictConfig) -> Scene:
    """Make the scene from the configuration, `configs/first_hour.yaml` with the words of the command line.

    Raises InputError as the settings of `train` do, for values of the wrong kind, and for a profile that cannot be
    rehearsed.
    """
    hour = check_settings(HourSettings, config)
    lane, profile, words = hour.lane, hour.profile, hour.rehearsal
    settings, folder = profile_settings(profile), Path(hour.out_dir).resolve()
    if lane == REHEARSAL:
        if profile not in words:
            raise InputError(f"profile={profile} trains on a CPU as it is; what is rehearsed is paper or single")
        tiny = (*words["all"], *words[profile])
        return Scene(lane, profile, folder, 0, settings, settings, tiny, tuple(words["fp32"]))
    gpus = torch.cuda.device_count() if settings.platform == "gpu" else 0
    here, own = (settings, hour.tiny.gpu) if gpus else (profile_settings(NANO), hour.tiny.cpu)
    return Scene(lane, profile, folder, gpus, settings, here, tuple(own))
