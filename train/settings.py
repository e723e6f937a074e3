"""The stage's settings: checked before anything is loaded, hashed, and turned into verl's keys."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from rag_zeval.errors import InputError
from rag_zeval.files import file_sha256, model_sha256
from rag_zeval.judge.prompt import find_variant
from rag_zeval.stages.answer_quality import AnswerFilter
from rewards.combined import RULES

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from train.run_folder import RunFolder


def check_settings(config: DictConfig) -> None:
    """Raises InputError for settings that could only fail later, or quietly do something else."""
    find_variant(config.variant)
    read_filter(config)
    if config.accuracy not in RULES:
        raise InputError(f"accuracy={config.accuracy}: there is {', '.join(RULES)}")
    if config.platform not in ("cpu", "gpu"):
        raise InputError(f"platform={config.platform}: there is cpu, gpu")
    if (config.verl.trainer.get("save_freq") or 0) <= 0:
        raise InputError("verl.trainer.save_freq must be above 0: without checkpoints there is no model to export")
    memory = config.gpu_memory_gib
    if memory is not None and (isinstance(memory, bool) or not isinstance(memory, int | float) or memory <= 0):
        raise InputError(f"gpu_memory_gib={memory}: must be a number above 0, or null for no check")
    check_export(config)
    check_cluster(config.verl)
    check_batches(config.verl)
    worker = config.verl.actor_rollout_ref
    check_checkpoint("verl.actor_rollout_ref.actor.checkpoint", worker.actor.checkpoint, worker.model.get("lora_rank"))


def read_filter(config: DictConfig) -> AnswerFilter:
    """What the keys `filter_*` say. Raises InputError naming the one whose value does not fit.

    Null turns a key off and is the default of all but the first, so that a run begun before they were there goes on.
    """
    for key in ("filter_identical", "filter_unfinished"):
        if not isinstance(config[key], bool | None):
            raise InputError(f"{key}={config[key]}: must be true, false or null")
    for key in ("filter_near_identical", "filter_repetition", "filter_passage"):
        value = config[key]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1):
            raise InputError(f"{key}={value}: must be a number above 0 and at most 1, or null to turn it off")
    return AnswerFilter(
        identical=bool(config.filter_identical),
        near_identical=config.filter_near_identical,
        repetition=config.filter_repetition,
        passage=config.filter_passage,
        unfinished=bool(config.filter_unfinished),
    )


def check_export(config: DictConfig) -> None:
    """The best step can be exported only if every validated step is saved, and has one reward."""
    if config.export not in ("last", "best"):
        raise InputError(f"export={config.export}: there is last, best")
    if config.export == "last":
        return
    saved, tested = config.verl.trainer.save_freq, config.verl.trainer.get("test_freq") or 0
    if tested <= 0 or tested % saved:
        raise InputError(
            f"export=best: verl.trainer.test_freq={tested} must be a multiple of verl.trainer.save_freq={saved}, "
            "for a step that is validated but not saved cannot be exported"
        )
    if (replies := config.verl.actor_rollout_ref.rollout.val_kwargs.n) != 1:
        raise InputError(f"export=best: verl.actor_rollout_ref.rollout.val_kwargs.n={replies} must be 1")


def check_cluster(verl: DictConfig) -> None:
    """Several nodes need a cluster that is there; and what is set for its nodes is written into the run's files."""
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
    if "@" in (verl.trainer.get("wandb_proxy") or ""):
        raise InputError("verl.trainer.wandb_proxy: a password would be written into the run's files; set HTTPS_PROXY")


def check_checkpoint(key: str, checkpoint: DictConfig, lora_rank: int | None) -> None:
    """A checkpoint must hold what the model is exported from, in a form that loads."""
    wanted, unwanted = ("model", "hf_model") if lora_rank else ("hf_model", None)
    if wanted not in checkpoint.save_contents:
        raise InputError(f"{key}.save_contents must have {wanted}: the model is exported from it")
    if unwanted in checkpoint.save_contents:
        raise InputError(f"{key}.save_contents: verl's {unwanted} of a LoRA run cannot be loaded; leave it out")


def check_batches(verl: DictConfig) -> None:
    """Rows must fit into the micro-batches, and a step's rollouts fill them; verl finds out only while it runs."""
    worker = verl.actor_rollout_ref
    if worker.actor.use_dynamic_bsz:
        longest = verl.data.max_prompt_length + verl.data.max_response_length
        budget = worker.actor.ppo_max_token_len_per_gpu * (worker.actor.get("ulysses_sequence_parallel_size") or 1)
        if budget < longest:
            raise InputError(
                f"verl.actor_rollout_ref.actor.ppo_max_token_len_per_gpu={worker.actor.ppo_max_token_len_per_gpu} "
                f"does not hold a row of {longest} tokens (data.max_prompt_length + data.max_response_length)"
            )
        return
    share = verl.data.train_batch_size * worker.rollout.n / (verl.trainer.n_gpus_per_node * verl.trainer.nnodes)
    for key in (
        "actor.ppo_micro_batch_size_per_gpu",
        "ref.log_prob_micro_batch_size_per_gpu",
        "rollout.log_prob_micro_batch_size_per_gpu",
    ):
        size = OmegaConf.select(worker, key)
        if size and share % size:
            raise InputError(
                f"verl.actor_rollout_ref.{key}={size} does not divide the {share:g} rollouts of a step "
                "(data.train_batch_size x rollout.n) on each device"
            )


SECRET = re.compile("(^|_)(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)(_|$)", re.IGNORECASE)  # names of variables

# Keys that change how fast or where a run goes, not what it learns: they may change when it is taken up again.
NOT_BINDING = (
    "out_dir",
    "responses",
    "base_model",
    "threads",
    "dry_run",
    "gpu_memory_gib",
    "verl.actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
    "verl.actor_rollout_ref.rollout.gpu_memory_utilization",
    "verl.actor_rollout_ref.rollout.max_num_batched_tokens",
    "verl.trainer.logger",
    "verl.trainer.max_actor_ckpt_to_keep",
    "verl.trainer.save_freq",
)


def binding_settings(config: DictConfig) -> dict[str, Any]:
    """The settings that make a run what it is: all but NOT_BINDING, and `export` only where it is not the paper's."""
    settings: Any = OmegaConf.to_container(config, resolve=True)
    for key in NOT_BINDING:
        *path, last = key.split(".")
        node = settings
        for name in path:
            node = node.get(name) or {}
        node.pop(last, None)
    if settings["export"] == "last":  # so that runs from before there was a choice are taken up and recognised
        del settings["export"]
    return settings


def identity(config: DictConfig) -> dict[str, Any]:
    """What the run is made of: all binding settings, the prompt, and the contents of what it reads."""
    return {
        "config": binding_settings(config),
        "prompt_hash": find_variant(config.variant).prompt_hash,
        "responses": responses_sha256(config.responses),
        "base": base_sha256(config.base_model),
    }


def responses_sha256(pattern: str) -> str:
    paths = sorted(glob.glob(pattern))
    if not paths:
        raise InputError(f"{pattern}: no responses here; make synthesize writes them, responses=FILE names others")
    return hashlib.sha256("".join(file_sha256(path) for path in paths).encode()).hexdigest()


def base_sha256(base: str) -> str:
    """Hash of a local model; a name on the hub stands for itself."""
    if Path(base).is_dir():
        return model_sha256(base)
    if base.startswith((".", "/")) or base.count("/") != 1 or Path(base).parent.is_dir():
        raise InputError(f"base_model={base}: there is no such folder")
    return base


def runtime_env_keys(verl: DictConfig, variables: Mapping[str, str]) -> dict[str, Any]:
    """The keys that give verl's workers these variables, beside the user's own; ray takes text alone.

    In a cluster that was there they inherit the environment of `ray start`, not ours.
    """
    key = "ray_kwargs.ray_init.runtime_env.env_vars"
    given = OmegaConf.select(verl, key) or {}
    return {f"{key}.{name}": str(value) for name, value in {**given, **variables}.items()}


def derived_keys(config: DictConfig, folder: RunFolder, done: int, val_rows: int) -> dict[str, Any]:
    """The keys of verl's config that follow from the stage's own settings, and from how many rows it has."""
    base = str(Path(config.base_model).resolve()) if Path(config.base_model).is_dir() else config.base_model
    keys: dict[str, Any] = {
        "data.train_files": str(folder.train_rows),
        "data.val_files": str(folder.val_rows),
        "data.seed": config.seed,
        "actor_rollout_ref.rollout.seed": config.seed,
        "actor_rollout_ref.model.path": base,
        "reward.custom_reward_function.path": "pkg://rewards.verl_entry",
        "reward.custom_reward_function.name": "compute_score",
        "reward.custom_reward_function.reward_kwargs": {"tokenizer": base, "accuracy": config.accuracy},
        "trainer.default_local_dir": str(folder.checkpoints),
        "trainer.rollout_data_dir": str(folder.path / "rollouts" / "train"),
        "trainer.validation_data_dir": str(folder.path / "rollouts" / "val"),
        "trainer.resume_mode": "resume_path" if done else "disable",
        "trainer.resume_from_path": str(folder.checkpoint(done)) if done else None,
    }
    if done:  # the validation after step `done` is in the metrics already
        keys["trainer.val_before_train"] = False
    if config.platform == "cpu":  # lets the rollout server see when all requests of a step are there
        rollout = config.verl.actor_rollout_ref.rollout
        keys["actor_rollout_ref.rollout.engine_kwargs.hf_cpu"] = {
            "train_rows": config.verl.data.train_batch_size * rollout.n,
            "val_rows": val_rows * rollout.val_kwargs.n,
        }
    return keys
