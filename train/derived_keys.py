"""The keys of verl's config that follow from a stage's own settings and from the state of its run."""

import os
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from train.run_folder import RunFolder
from train.settings import SFTSettings, TrainSettings
from train.verl_config import PPO, schema, starts_ray

AGENT_LOOPS = Path(__file__).parent / "rollouts" / "agent_loops.yaml"
CPUS = "ray_kwargs.ray_init.num_cpus"
CPUS_OF_RANK = 3  # what verl reserves for each GPU


def derived_keys(settings: TrainSettings, folder: RunFolder, done: int, val_rows: int) -> dict[str, Any]:
    """Return the keys of verl's config that follow from the training stage's settings and its run.

    done: step of the checkpoint to resume from; 0: a new run. val_rows: number of validation rows.
    """
    base = settings.base_path
    keys: dict[str, Any] = {
        "data.train_files": str(folder.train_rows),
        "data.val_files": str(folder.val_rows),
        "data.seed": settings.seed,
        "actor_rollout_ref.rollout.seed": settings.seed,
        "actor_rollout_ref.model.path": base,
        "reward.custom_reward_function.path": "pkg://rewards.verl_entry",
        "reward.custom_reward_function.name": "compute_score",
        "reward.custom_reward_function.reward_kwargs": {"tokenizer": base, "accuracy": settings.accuracy},
        "trainer.default_local_dir": str(folder.checkpoints),
        "trainer.rollout_data_dir": str(folder.rollouts / "train"),
        "trainer.validation_data_dir": str(folder.rollouts / "val"),
        **_resumed(folder, done),
    }
    if done:  # the metrics already have the validation after step `done`
        keys["trainer.val_before_train"] = False
    if starts_ray(settings.verl) and OmegaConf.select(settings.verl, CPUS) is None:
        keys[CPUS] = max(os.cpu_count() or 1, logical_cpus(settings.verl))
    if settings.platform == "cpu":  # tells the rollout server when it has all requests of a step
        rollout = settings.verl.actor_rollout_ref.rollout
        keys["actor_rollout_ref.rollout.engine_kwargs.hf_cpu"] = {
            "train_rows": settings.verl.data.train_batch_size * rollout.n,
            "val_rows": val_rows * rollout.val_kwargs.n,
        }
    else:  # vLLM does not seed rollouts, so the agent loop does; on a CPU the rollout server seeds them
        agent = "actor_rollout_ref.rollout.agent"
        keys[f"{agent}.agent_loop_config_path"] = str(AGENT_LOOPS)
        keys[f"{agent}.default_agent_loop"] = OmegaConf.load(AGENT_LOOPS)[0].name
    return keys


def logical_cpus(verl: DictConfig) -> int:
    """Return how many logical CPUs ray must have. With fewer, verl waits forever for processes that cannot start.

    A rank reserves some, each process of TransferQueue one: its storage units and its controller. The other processes
    reserve none, but one must be free when they start.
    """
    key = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
    units: int = OmegaConf.select(verl, key, default=OmegaConf.select(schema(PPO), key))
    return CPUS_OF_RANK * verl.trainer.n_gpus_per_node * verl.trainer.nnodes + units + 1 + 1


def sft_derived_keys(settings: SFTSettings, folder: RunFolder, done: int) -> dict[str, Any]:
    """Return the same as `derived_keys`, for the SFT trainer."""
    return {
        "data.train_files": str(folder.train_rows),
        "model.path": settings.base_path,
        "trainer.default_local_dir": str(folder.checkpoints),
        **_resumed(folder, done),
    }


def _resumed(folder: RunFolder, done: int) -> dict[str, Any]:
    return {
        "trainer.resume_mode": "resume_path" if done else "disable",
        "trainer.resume_from_path": str(folder.checkpoint(done)) if done else None,
    }
