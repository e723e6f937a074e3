"""Compose verl's configuration: verl's defaults, overridden by our `verl:` subtree. Each key is checked."""

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rag_zeval.errors import InputError, nearest
from rag_zeval.files import flat
from rag_zeval.stages.config import key_paths
from rag_zeval.text import one_line

NUMBER = "a number"
KINDS: Mapping[type, tuple[type | tuple[type, ...], str]] = {  # type of a default of verl -> what may take its place
    bool: (bool, "true or false"),
    int: ((int, float), NUMBER),
    float: ((int, float), NUMBER),
    list: (list, "a list"),
    dict: ((dict, DictConfig), "keys with values"),
}
# Keys that verl reads but does not list in its YAML (on verl's command line they need a "+"), and what they may hold
# beside null. verl or ray itself checks the keys below them.
ADDED: Mapping[str, type] = {
    "actor_rollout_ref.actor.fsdp_config.mixed_precision": dict,  # dtypes of FSDP; verl's default is bf16
    "actor_rollout_ref.ref.fsdp_config.mixed_precision": dict,  # the same for the reference model
    "actor_rollout_ref.actor.checkpoint.save_lora_only": bool,  # checkpoints hold the adapter, not the base under it
    "reward.custom_reward_function.reward_kwargs": dict,  # keyword arguments of our reward
    "ray_kwargs.ray_init.address": str,  # 'local' starts a ray of our own, 'auto' joins a cluster
    "ray_kwargs.ray_init.runtime_env.env_vars": dict,  # variables of verl's processes on the nodes of a cluster
    "ray_kwargs.ray_init.num_gpus": int,  # logical GPUs for the CPU platform
    "ray_kwargs.ray_init.include_dashboard": bool,  # ray's web dashboard
    "ray_kwargs.ray_init.object_store_memory": int,  # bytes of shared memory
}
# Keys that the stage sets from its own key on the right. Setting them under `verl:` too is an error.
DERIVED = {
    "data.train_files": "responses",
    "data.val_files": "responses",
    "data.seed": "seed",
    "actor_rollout_ref.rollout.seed": "seed",
    "actor_rollout_ref.rollout.agent.agent_loop_config_path": "seed",
    "actor_rollout_ref.rollout.agent.default_agent_loop": "seed",
    "actor_rollout_ref.model.path": "base_model",
    "reward.custom_reward_function.path": "accuracy",
    "reward.custom_reward_function.name": "accuracy",
    "reward.custom_reward_function.reward_kwargs": "accuracy",
    "trainer.default_local_dir": "out_dir",
    "trainer.rollout_data_dir": "out_dir",
    "trainer.validation_data_dir": "out_dir",
    "trainer.resume_mode": "out_dir",
    "trainer.resume_from_path": "out_dir",
}


@dataclass(frozen=True, eq=False)
class Trainer:
    """A trainer of verl: what `python -m` runs, the name of its config, and its keys like ADDED and DERIVED.

    model, optim: the keys with the settings of the model and of the optimizer. precisions: for each part of the
    training, the key with its precision.
    """

    program: Sequence[str]  # {devices} is replaced by the number of devices
    config_name: str
    model: str
    optim: str
    added: Mapping[str, type]
    derived: Mapping[str, str]
    precisions: Mapping[str, str]


PPO = Trainer(
    ["verl.trainer.main_ppo"],
    "ppo_trainer",
    "actor_rollout_ref.model",
    "actor_rollout_ref.actor.optim",
    ADDED,
    DERIVED,
    precisions={
        "rollouts": "actor_rollout_ref.rollout.dtype",
        "updates": "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype",
    },
)
SFT = Trainer(
    "torch.distributed.run --standalone --nproc_per_node={devices} -m verl.trainer.sft_trainer".split(),
    "sft_trainer_engine",
    "model",
    "optim",
    added={"engine.mixed_precision": dict, "checkpoint.save_lora_only": bool},
    derived={
        "data.train_files": "responses",
        "model.path": "base_model",
        "trainer.default_local_dir": "out_dir",
        "trainer.resume_mode": "out_dir",
        "trainer.resume_from_path": "out_dir",
    },
    precisions={"updates": "engine.mixed_precision.param_dtype"},
)


@cache
def schema(trainer: Trainer) -> DictConfig:
    """Return the trainer's config with verl's defaults, composed by Hydra. This takes seconds, but imports no verl.

    All callers get the same object, so copy it before you change it. Raises InputError if verl is not installed.
    """
    from hydra import compose, initialize_config_dir

    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("verl is not installed: pip install -r requirements/nano.txt (or gpu.txt)")
    folder = Path(spec.submodule_search_locations[0]) / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        return compose(trainer.config_name)


@cache
def defaults(trainer: Trainer) -> Any:
    """Return verl's defaults as plain values."""
    return OmegaConf.to_container(schema(trainer), resolve=True)


def unknown_keys(ours: Any, trainer: Trainer) -> Iterator[str]:
    """Yield the dotted keys of `ours` that verl does not have. Below a key with `{}` or null verl accepts any name."""
    known = OmegaConf.to_container(schema(trainer), resolve=False)
    listed, leaves = {*key_paths(known)}, flat(known)
    for key in key_paths(ours):
        place = key
        while place and place not in listed:
            place = place.rpartition(".")[0]
        is_open = leaves.get(place, "") in (None, {})
        is_added = any(key == added or key.startswith(added + ".") for added in trainer.added)
        if place != key and not is_open and not is_added:
            yield key


def wrong_kinds(ours: Mapping[str, Any], known: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield `(dotted key, what it must be, value)` for each value that is of another kind than verl's default.

    A default that is a text or null allows anything, and below a default of `{}` there may be anything.
    """
    for key, value in ours.items():
        default = known.get(key)
        if is_other_kind(value, type(default)):
            yield f"{prefix}{key}", KINDS[type(default)][1], value
        elif isinstance(value, dict) and isinstance(default, dict):
            yield from wrong_kinds(value, default, f"{prefix}{key}.")


def is_other_kind(value: Any, kind: type) -> bool:
    """Whether a value may not take the place of one of this type."""
    kinds, name = KINDS.get(kind, (object, ""))
    return not isinstance(value, kinds) or (name == NUMBER and isinstance(value, bool))


def check_keys(ours: Any, trainer: Trainer) -> None:
    """Raise InputError for a key of ours that verl does not have (naming the nearest), or that the stage sets.

    It is also raised for a value of another kind than verl's default. verl itself would fail only during the run.
    """
    if not isinstance(ours, DictConfig):
        raise InputError(f"verl: must be keys with values, found {'null' if ours is None else ours}")
    for key in unknown_keys(ours, trainer):
        near = nearest(f"verl.{key}", [f"verl.{name}" for name in (*key_paths(schema(trainer)), *trainer.added)])
        raise InputError(f"verl.{key}: verl has no such key{near}")
    for key, source in trainer.derived.items():
        if OmegaConf.select(ours, key) is not None:
            raise InputError(f"verl.{key}: the stage sets this key itself, from '{source}'")
    plain: Any = OmegaConf.to_container(ours, resolve=True)
    wrong = [*wrong_kinds(plain, defaults(trainer))]
    for key, kind in trainer.added.items():
        value = OmegaConf.select(ours, key)
        if value is not None and is_other_kind(value, kind):
            wrong.append((key, KINDS[kind][1], value))
    for key, wanted, value in wrong:
        raise InputError(f"verl.{key}: must be {wanted}, found {'null' if value is None else one_line(str(value))}")


def build(ours: DictConfig, derived: Mapping[str, Any], trainer: Trainer = PPO) -> DictConfig:
    """Return verl's whole config, resolved: verl's defaults, our subtree, then the stage's derived keys (dotted)."""
    check_keys(ours, trainer)
    config = schema(trainer).copy()
    OmegaConf.set_struct(config, False)
    config.merge_with(OmegaConf.to_container(ours, resolve=True))  # resolved first: it may refer to the stage's keys
    for key, value in derived.items():
        OmegaConf.update(config, key, value, force_add=True)
    OmegaConf.resolve(config)
    return config


def starts_ray(verl: DictConfig) -> bool:
    """Whether the run starts its own ray. Otherwise it joins a cluster, or needs no ray."""
    return bool(OmegaConf.select(verl, "ray_kwargs.ray_init.address") == "local")


def runtime_env_keys(verl: DictConfig, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the keys that set the environment variables of verl's workers, as text, which ray requires.

    They include the user's own variables. In an existing cluster workers inherit the environment of `ray start`, not
    ours, so they get `variables` too.
    """
    if "ray_kwargs" not in verl:  # the SFT trainer runs without ray
        return {}
    key = "ray_kwargs.ray_init.runtime_env.env_vars"
    own = OmegaConf.select(verl, key) or {}
    return {f"{key}.{name}": str(value) for name, value in {**own, **({} if starts_ray(verl) else variables)}.items()}


def validate(config: DictConfig) -> str | None:
    """Run verl's own checks, as `main_ppo` does first, and return which one could not be run here (None: all were).

    This imports verl, so choose verl's platform before. Raises InputError with verl's message.
    """
    from hydra.errors import HydraException
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    worker, unchecked = config.actor_rollout_ref, None
    if worker.model.lora_rank > 0 and worker.rollout.name == "vllm" and importlib.util.find_spec("vllm") is None:
        # verl asks vLLM for its allowed ranks, unless the adapter is merged before vLLM gets it.
        config = config.copy()
        OmegaConf.update(config, "actor_rollout_ref.model.lora.merge", True)
        unchecked = "lora_rank: vLLM is not installed"
    try:
        validate_config(config, need_reference_policy(config), need_critic(config))
    except (AssertionError, HydraException, OmegaConfBaseException, TypeError, ValueError) as error:
        raise InputError(f"verl refuses this configuration: {' '.join(str(error).split())}") from error
    return unchecked
