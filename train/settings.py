"""The settings of both trainers of verl. They are typed, and checked before anything is loaded."""

from __future__ import annotations

import glob
import hashlib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from omegaconf import DictConfig, OmegaConf
from pydantic import AfterValidator, ConfigDict, Field, PositiveFloat, PositiveInt, StrictInt, model_validator
from pydantic.dataclasses import dataclass

from rag_zeval.errors import InputError
from rag_zeval.files import file_sha256
from rag_zeval.judge.prompt import PROMPTS, RANKING, find_variant
from rag_zeval.models.folder import check_weights, model_sha256
from rag_zeval.stages.answer_quality import AnswerFilter
from rag_zeval.stages.config import Alphas, Section, Seed, Share, Text, check_settings, stored
from rewards.accuracy import AccuracyRule
from train.verl_checks import check_ppo, check_sft, check_validated_steps
from train.verl_config import PPO, SFT, Trainer, check_keys

# Keys that affect the speed or the place of a run, but not what it learns. They may change when it is resumed.
NOT_BINDING = (
    "out_dir",
    "responses",
    "base_model",
    "threads",
    "dry_run",
    "gpu_memory_gib",
    "verl.actor_rollout_ref.actor.fsdp_config.optimizer_offload",
    "verl.actor_rollout_ref.actor.fsdp_config.param_offload",
    "verl.actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
    "verl.actor_rollout_ref.rollout.gpu_memory_utilization",
    "verl.actor_rollout_ref.rollout.max_num_batched_tokens",
    "verl.trainer.logger",
    "verl.trainer.max_actor_ckpt_to_keep",
    "verl.trainer.max_ckpt_to_keep",
    "verl.trainer.save_freq",
    "verl.checkpoint.save_contents",
)

FOLDERS = ("", "checkpoints", "models", "runs")  # `models/NAME` is a folder, and no name on the hub


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Stage:
    """`rows` rows with `k` candidates each. If `rows` is None, it takes as many as there are."""

    k: Annotated[StrictInt, Field(ge=1)]
    rows: Annotated[StrictInt, Field(gt=0)] | None


Stages = Annotated[
    list[Stage],
    Field(min_length=1, description="a list of {k: a number, rows: a number, or null for all}, at least one"),
]


class Settings(Section):
    """The keys that `configs/train.yaml` and `configs/sft.yaml` share. These files explain them.

    A filter that is null is off. All but the first are null by default, so that older runs can be resumed.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    trainer: ClassVar[Trainer]

    config: DictConfig  # the whole configuration as it was read, with verl's keys
    out_dir: Text
    responses: Text
    base_model: Text
    platform: Annotated[Literal["cpu", "gpu", "rehearsal"], Field(description="'cpu' or 'gpu'")]  # train/verl_rehearsal
    export: Literal["last", "best"] = "last"  # supervised fine-tuning always exports the last
    variant: str
    threads: PositiveInt
    seed: Seed
    alphas: Alphas | None
    half: Literal["first", "second"] | None
    filter_identical: bool | None
    filter_near_identical: Share | None
    filter_repetition: Share | None
    filter_passage: Share | None
    filter_unfinished: bool | None

    @property
    def verl(self) -> DictConfig:
        """The keys of verl's config that we set."""
        return self.config.verl

    @property
    def answer_filter(self) -> AnswerFilter:
        return AnswerFilter(
            identical=bool(self.filter_identical),
            near_identical=self.filter_near_identical,
            repetition=self.filter_repetition,
            passage=self.filter_passage,
            unfinished=bool(self.filter_unfinished),
        )

    @property
    def base_is_local(self) -> bool:
        """Whether the base model is a folder. Otherwise it is a name on the hub."""
        return Path(self.base_model).is_dir()

    @property
    def base_path(self) -> str:
        """The base model for processes that run in another folder: an absolute path, or its name on the hub."""
        return str(Path(self.base_model).resolve()) if self.base_is_local else self.base_model


class TrainSettings(Settings):
    """The keys of `configs/train.yaml`."""

    trainer = PPO

    profile: str
    gpu_memory_gib: PositiveFloat | None
    dry_run: bool
    variant: Annotated[str, AfterValidator(lambda name: find_variant(name).name)]
    stages: Stages
    same_questions: bool
    only_contested: bool | None
    single_answer_every: Annotated[StrictInt, Field(ge=2)] | None
    max_rule_tokens: PositiveInt | None
    validation: Stages
    accuracy: AccuracyRule

    @model_validator(mode="after")
    def _check(self) -> TrainSettings:
        if any(stage.k < 2 for stage in [*self.stages, *self.validation]):
            raise InputError("stages, validation: a judge ranks two candidates or more (k)")
        if self.verl.data.get("shuffle", True) and len(self.stages) > 1:
            raise InputError("verl.data.shuffle: must be false, because the order of the rows is the curriculum")
        check_ppo(self.verl)
        if self.verl.trainer.total_epochs > 1 and len({stage.k for stage in self.stages}) > 1:
            raise InputError(
                "verl.trainer.total_epochs: must be 1, because a second epoch would begin with the first stage again; "
                "for the same questions in each stage set same_questions=true"
            )
        if self.export == "best":
            check_validated_steps(self.verl)
        return self


class SFTSettings(Settings):
    """The keys of `configs/sft.yaml`."""

    trainer = SFT

    variant: Annotated[str, AfterValidator(lambda name: name if name == RANKING.name else find_variant(name).name)]
    rows: Stages
    sets_per_question: Annotated[int, Field(ge=1)] | None

    @model_validator(mode="after")
    def _check(self) -> SFTSettings:
        if self.variant == RANKING.name and any(stage.k < 2 for stage in self.rows):
            raise InputError(f"rows: variant={RANKING.name} ranks two candidates or more")
        check_sft(self.verl)
        return self


AnySettings = TypeVar("AnySettings", bound=Settings)


def read_settings(kind: type[AnySettings], config: DictConfig) -> AnySettings:
    """Return the typed settings of a stage's configuration, with all keys of verl checked against verl's schema.

    Raises InputError, naming the key, for values that would fail later or silently do something else.
    """
    check_keys(config.verl, kind.trainer)
    return typed_settings(kind, config)


def typed_settings(kind: type[AnySettings], config: DictConfig) -> AnySettings:
    """As `read_settings`, but verl's keys are not compared with its schema, so verl need not be installed."""
    values: Any = OmegaConf.to_container(config, resolve=True)
    return check_settings(kind, {**values, "config": config})


def binding_settings(config: DictConfig) -> dict[str, Any]:
    """Return the settings that must not change when a run is resumed: all but NOT_BINDING.

    `export` is left out if it is "last".
    """
    settings = stored(config)
    for key in NOT_BINDING:
        *path, last = key.split(".")
        node = settings
        for name in path:
            node = node.get(name) or {}
        node.pop(last, None)
    if settings.get("export") == "last":  # so that runs made before this key existed can be resumed
        del settings["export"]
    return settings


def identity(settings: Settings) -> dict[str, Any]:
    """Return a run's identity: all binding settings, and hashes of the prompt, the responses and the base model."""
    return {
        "config": binding_settings(settings.config),
        "prompt_hash": PROMPTS[settings.variant].prompt_hash,
        "responses": hashlib.sha256("".join(map(file_sha256, response_files(settings.responses))).encode()).hexdigest(),
        "base": base_sha256(settings.base_model),
    }


def response_files(pattern: str) -> list[str]:
    """As `existing_responses`. Raises InputError if there is no file."""
    paths = existing_responses(pattern)
    if not paths:
        raise InputError(
            f"{pattern}: no responses found; run `make synthesize` with the same PROFILE, or set `responses`"
        )
    return paths


def existing_responses(pattern: str) -> list[str]:
    """Return the responses.jsonl files that match a path or glob, sorted.

    A file of exactly this path counts alone, so that brackets in a folder's name are no pattern.
    """
    return [pattern] if Path(pattern).is_file() else sorted(glob.glob(pattern))


def base_sha256(base: str) -> str:
    """Return the hash of a model's folder, or a name on the hub as it is. Raises InputError as `check_base`."""
    check_base(base)
    return model_sha256(base) if Path(base).is_dir() else base


def check_base(base: str) -> None:
    """Raise InputError if a base model is no name on the hub, and its folder is missing or has no weights."""
    if Path(base).is_dir():
        check_weights(base)
        return
    owner, *names = base.split("/")
    if owner in FOLDERS or owner.startswith(".") or len(names) != 1 or Path(owner).is_dir():
        raise InputError(f"base_model={base}: there is no such folder")
