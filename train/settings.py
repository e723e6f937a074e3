"""The settings of both trainers of verl. They are typed, and checked before anything is loaded."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Callable, Mapping
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
from train.verl_config import PPO, SFT, Trainer, check_keys, schema

SECRET = re.compile("(^|_)(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)(_|$)", re.IGNORECASE)  # names of secret variables

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
MICRO_BATCH = "micro_batch_size_per_gpu"
# Keys below actor_rollout_ref: rows of a micro-batch; its tokens with use_dynamic_bsz; devices that work as a group.
MICRO_BATCHES = (
    f"actor.ppo_{MICRO_BATCH}",
    f"ref.log_prob_{MICRO_BATCH}",
    f"rollout.log_prob_{MICRO_BATCH}",
)
TOKEN_BUDGETS = (
    "actor.ppo_max_token_len_per_gpu",
    "ref.log_prob_max_token_len_per_gpu",
    "rollout.log_prob_max_token_len_per_gpu",
)
GROUPS = (
    "actor.fsdp_config.fsdp_size",
    "actor.ulysses_sequence_parallel_size",
    "rollout.tensor_model_parallel_size",
)
# Keys of verl with which the stages calculate, and the smallest whole number that they may have.
COUNTS = {
    "data.train_batch_size": 1,
    "data.max_prompt_length": 1,
    "data.max_response_length": 1,
    "actor_rollout_ref.actor.ppo_mini_batch_size": 1,
    "actor_rollout_ref.actor.ppo_epochs": 1,
    "actor_rollout_ref.model.lora_rank": 0,
    "actor_rollout_ref.rollout.max_model_len": 1,
    "actor_rollout_ref.rollout.n": 2,  # with one rollout a prompt has no mean to compare it with
    "actor_rollout_ref.rollout.val_kwargs.n": 1,
    **dict.fromkeys(("actor_rollout_ref.rollout.top_k", "actor_rollout_ref.rollout.val_kwargs.top_k"), -1),  # -1: all
    **{f"actor_rollout_ref.{key}": 1 for key in (*MICRO_BATCHES, *TOKEN_BUDGETS)},
    "actor_rollout_ref.actor.fsdp_config.fsdp_size": -1,
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size": 1,
    "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
    "trainer.n_gpus_per_node": 1,
    "trainer.nnodes": 1,
    "trainer.total_epochs": 1,
    "trainer.total_training_steps": 1,
    "trainer.save_freq": 1,  # without checkpoints there is no model to export
    # verl removes an older checkpoint before the step of the next is logged. With a limit of 1, a kill between the two
    # would leave no checkpoint to resume from.
    "trainer.max_actor_ckpt_to_keep": 2,
}
SFT_COUNTS = {
    "data.train_batch_size": 1,
    "data.max_length": 1,
    "data.max_token_len_per_gpu": 1,
    f"data.{MICRO_BATCH}": 1,
    "model.lora_rank": 0,
    "trainer.n_gpus_per_node": 1,
    "trainer.total_epochs": 1,
    "trainer.total_training_steps": 1,
    "trainer.max_ckpt_to_keep": 2,  # as above
}
ABOVE_0, NOT_BELOW_0, SHARE = "above 0", "0 or more", "above 0 and at most 1"
RANGES: Mapping[str, Callable[[float], bool]] = {
    ABOVE_0: lambda number: number > 0,
    NOT_BELOW_0: lambda number: number >= 0,
    SHARE: lambda number: 0 < number <= 1,
}
# Keys of verl whose number it does not check. With a wrong one nothing is learned, or the opposite, or vLLM ends.
NUMBERS = {
    "algorithm.kl_ctrl.kl_coef": NOT_BELOW_0,
    "actor_rollout_ref.actor.kl_loss_coef": NOT_BELOW_0,  # a negative one rewards the distance from the base
    "actor_rollout_ref.actor.optim.lr": ABOVE_0,
    "actor_rollout_ref.actor.optim.clip_grad": ABOVE_0,  # a negative one reverses the gradient
    "actor_rollout_ref.rollout.temperature": ABOVE_0,
    "actor_rollout_ref.rollout.top_p": SHARE,
    "actor_rollout_ref.rollout.val_kwargs.temperature": NOT_BELOW_0,
    "actor_rollout_ref.rollout.val_kwargs.top_p": SHARE,
    "actor_rollout_ref.rollout.gpu_memory_utilization": SHARE,
}
SFT_NUMBERS = {"optim.lr": ABOVE_0, "optim.clip_grad": ABOVE_0}
SCHEDULES = ("linear", "constant", "cosine")  # that of train.linear_decay, and verl's own


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
        worker = self.verl.actor_rollout_ref
        check_counts(self.verl, COUNTS)
        if self.verl.trainer.total_epochs > 1 and len({stage.k for stage in self.stages}) > 1:
            raise InputError(
                "verl.trainer.total_epochs: must be 1, because a second epoch would begin with the first stage again; "
                "for the same questions in each stage set same_questions=true"
            )
        check_numbers(self.verl, NUMBERS)
        check_schedule(self)
        check_logger(self.verl)
        if self.export == "best":
            check_validated_steps(self.verl)
        check_cluster(self.verl)
        check_lengths(self.verl)
        check_devices(self.verl)
        check_precision(self.verl)
        actor = "verl.actor_rollout_ref.actor"
        check_checkpoint(f"{actor}.checkpoint", worker.actor.checkpoint, worker.model.get("lora_rank"))
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
        check_counts(self.verl, SFT_COUNTS)
        check_numbers(self.verl, SFT_NUMBERS)
        check_schedule(self)
        check_logger(self.verl)
        check_checkpoint("verl.checkpoint", self.verl.checkpoint, self.verl.model.get("lora_rank"))
        for key in ("save_freq", "test_freq"):  # verl divides by both in every step
            if self.verl.trainer.get(key) == 0:
                raise InputError(f"verl.trainer.{key}: must be a whole number above 0, or -1 for never, found 0")
        if self.verl.trainer.save_freq > 0 and not {"model", "optimizer", "extra"} <= {
            *self.verl.checkpoint.save_contents
        }:
            raise InputError(
                "verl.trainer.save_freq: verl.checkpoint.save_contents must have model, optimizer and extra"
            )
        data, devices = self.verl.data, self.verl.trainer.n_gpus_per_node
        if data.use_dynamic_bsz and data.max_token_len_per_gpu < data.max_length:
            raise InputError(
                f"verl.data.max_token_len_per_gpu={data.max_token_len_per_gpu} does not hold a row of "
                f"verl.data.max_length={data.max_length} tokens"
            )
        share = data.train_batch_size / devices
        rows = 1 if data.use_dynamic_bsz else data.get(MICRO_BATCH, schema(SFT).data[MICRO_BATCH])
        if share % rows:
            parts = "" if data.use_dynamic_bsz else f" into micro-batches of verl.data.{MICRO_BATCH}={rows}"
            raise InputError(
                f"verl.data.train_batch_size={data.train_batch_size} does not divide among {devices} devices{parts}"
            )
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


def check_counts(verl: DictConfig, least: Mapping[str, int]) -> None:
    """Raise InputError for a key that is neither missing nor null, nor a whole number of at least `least`.

    `check_keys` has refused null where verl's default is a number.
    """
    for key, lowest in least.items():
        value = OmegaConf.select(verl, key)
        if value is not None and (type(value) is not int or value < lowest):
            raise InputError(f"verl.{key}: must be a whole number above {lowest - 1}, found {value}")


def check_numbers(verl: DictConfig, ranges: Mapping[str, str]) -> None:
    """Raise InputError for a key whose number is not in its range. A missing key has verl's default."""
    for key, wanted in ranges.items():
        number = OmegaConf.select(verl, key)
        if number is not None and not RANGES[wanted](number):
            raise InputError(f"verl.{key}: must be {wanted}, found {number}")


def check_schedule(settings: Settings) -> None:
    """Raise InputError for a schedule of the learning rate that does not exist.

    verl refuses such a schedule too, but does not say which there are.
    """
    key = f"{settings.trainer.optim}.lr_scheduler_type"
    schedule = OmegaConf.select(settings.verl, key)
    if schedule not in (None, *SCHEDULES):
        raise InputError(f"verl.{key}: must be {', '.join(SCHEDULES)}, found {schedule}")


def check_logger(verl: DictConfig) -> None:
    """Raise InputError if verl would not write its metrics into a file."""
    if "file" not in verl.trainer.logger:
        raise InputError("verl.trainer.logger: must have file, because the stage reads the steps from it")


def check_validated_steps(verl: DictConfig) -> None:
    """Raise InputError unless every validated step is saved and validated with one reply to each row.

    Otherwise the best step could not be exported.
    """
    saved, validated = verl.trainer.save_freq, verl.trainer.get("test_freq") or 0
    if validated <= 0 or validated % saved:
        raise InputError(
            f"export=best: verl.trainer.test_freq={validated} must be a multiple of verl.trainer.save_freq={saved}, "
            "for a step that is validated but not saved cannot be exported"
        )
    if (replies := verl.actor_rollout_ref.rollout.val_kwargs.n) != 1:
        raise InputError(f"export=best: verl.actor_rollout_ref.rollout.val_kwargs.n={replies} must be 1")


def check_cluster(verl: DictConfig) -> None:
    """Raise InputError if a run on several nodes does not join an existing cluster, or if a key holds a secret.

    Keys are written to the run's files, so variables for the nodes must not be secret.
    """
    ray = verl.ray_kwargs.ray_init
    if verl.trainer.nnodes > 1 and ray.address == "local":
        raise InputError(
            f"verl.trainer.nnodes={verl.trainer.nnodes} needs a ray cluster that is there (`ray start`): set "
            "verl.ray_kwargs.ray_init.address=auto"
        )
    for name in (ray.get("runtime_env") or {}).get("env_vars") or {}:
        if SECRET.search(str(name)):
            raise InputError(
                f"verl.ray_kwargs.ray_init.runtime_env.env_vars.{name}: a secret would be written into the run's "
                "files; set it where `ray start` is called"
            )


def check_checkpoint(key: str, checkpoint: DictConfig, lora_rank: int | None) -> None:
    """Raise InputError unless a checkpoint has what the model is exported from, and nothing that cannot be loaded."""
    wanted, unwanted = ("model", "hf_model") if lora_rank else ("hf_model", None)
    if wanted not in checkpoint.save_contents:
        raise InputError(f"{key}.save_contents must have {wanted}: the model is exported from it")
    if unwanted in checkpoint.save_contents:
        raise InputError(f"{key}.save_contents: verl's {unwanted} of a LoRA run cannot be loaded; leave it out")


def check_lengths(verl: DictConfig) -> None:
    """Raise InputError if the longest row does not fit into a micro-batch, or not into vLLM's window.

    verl itself would fail only when such a row comes, or end replies early.
    """
    worker = verl.actor_rollout_ref
    longest = verl.data.max_prompt_length + verl.data.max_response_length
    budgets = TOKEN_BUDGETS if worker.actor.use_dynamic_bsz else ()
    limits = dict.fromkeys(budgets, worker.actor.get("ulysses_sequence_parallel_size") or 1)
    for key, times in {**limits, "rollout.max_model_len": 1}.items():
        limit = OmegaConf.select(worker, key)
        if limit is not None and limit * times < longest:
            raise InputError(
                f"verl.actor_rollout_ref.{key}={limit} does not hold a row of {longest} tokens "
                "(data.max_prompt_length + data.max_response_length)"
            )


def check_devices(verl: DictConfig) -> None:
    """Raise InputError if groups do not divide the devices, or if rollouts do not fill devices, micro-batches, updates.

    verl itself would fail only during the run, or train on updates of different sizes.
    """
    worker, devices = verl.actor_rollout_ref, verl.trainer.n_gpus_per_node * verl.trainer.nnodes
    for key in GROUPS:
        size = OmegaConf.select(worker, key, default=-1)
        if size >= 0 and (size == 0 or devices % size):
            raise InputError(f"verl.actor_rollout_ref.{key}={size} does not divide the {devices} devices")
    ranks = devices // (worker.actor.get("ulysses_sequence_parallel_size") or 1)
    rollouts = worker.actor.ppo_mini_batch_size * worker.rollout.n
    if rollouts % ranks:
        raise InputError(
            f"verl.trainer.n_gpus_per_node: the {rollouts} rollouts of an update (actor.ppo_mini_batch_size x "
            f"rollout.n) cannot be divided among {ranks} devices"
        )
    share = verl.data.train_batch_size * worker.rollout.n / devices
    for key in () if worker.actor.use_dynamic_bsz else MICRO_BATCHES:
        size = OmegaConf.select(worker, key)
        if size and share % size:
            raise InputError(
                f"verl.actor_rollout_ref.{key}={size} does not divide the {share:g} rollouts of a step "
                "(data.train_batch_size x rollout.n) on each device"
            )
    if verl.data.train_batch_size % worker.actor.ppo_mini_batch_size:
        raise InputError(
            f"verl.actor_rollout_ref.actor.ppo_mini_batch_size={worker.actor.ppo_mini_batch_size} does not divide "
            f"verl.data.train_batch_size={verl.data.train_batch_size}: verl would fill the last update of each step "
            "with empty rows"
        )


def check_precision(verl: DictConfig) -> None:
    """Raise InputError if actor and reference model compute in different precisions, which verl allows.

    Then the KL divergence of equal weights would not be 0. A run with LoRA has one model for both.
    """
    worker = verl.actor_rollout_ref
    for key, default in (("model_dtype", "fp32"), ("mixed_precision.param_dtype", "bf16")):
        actor, ref = (
            OmegaConf.select(worker, f"{role}.fsdp_config.{key}", default=default) or default
            for role in ("actor", "ref")
        )
        if actor != ref and not worker.model.get("lora_rank"):
            raise InputError(
                f"verl.actor_rollout_ref.ref.fsdp_config.{key} is {ref} and that of the actor {actor}: with two "
                "precisions the KL divergence of equal weights is not 0"
            )


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
