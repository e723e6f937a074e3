"""The settings in which a rehearsal differs from its profile, each with the reason; nothing else may differ."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from rag_zeval.errors import InputError
from rag_zeval.files import Row, flat
from rag_zeval.stages.config import load_config
from train.derived_keys import derived_keys
from train.run_folder import RunFolder
from train.settings import TrainSettings, read_settings
from train.verl_config import build, schema

STAGE = "train"
NO_GPU = "there is no GPU"
SMALL = "four steps in minutes, on two cores"
FP32 = "in fp32 rollouts and training agree to rounding, so that weights that did not arrive are seen"
RATE = 500  # times the profile's
MOST_RANKS = 2
ROLLOUT, ACTOR = "verl.actor_rollout_ref.rollout", "verl.actor_rollout_ref.actor"
REFERENCE = re.compile(r"\$\{(?:oc\.select:)?\s*([\w.]+)")  # of an interpolation: ${a.b}, ${oc.select:a.b,default}


class Difference(NamedTuple):
    """What a setting is in the rehearsal, and why it cannot be the profile's."""

    value: Any
    reason: str


ALWAYS = {
    "platform": Difference("rehearsal", NO_GPU),
    "variant": Difference("compact", "the tiny model writes no other trajectory"),
    "stages": Difference([{"k": 3, "rows": 4}, {"k": 4, "rows": 4}], SMALL),
    "validation": Difference([{"k": 3, "rows": 4}], SMALL),
    "verl.trainer.device": Difference("cpu", NO_GPU),
    "verl.actor_rollout_ref.model.external_lib": Difference(
        "train.verl_rehearsal.engine", "the same engine, registered for the CPU"
    ),
    "verl.actor_rollout_ref.model.override_config.attn_implementation": Difference("sdpa", "flash attention needs one"),
    "verl.data.train_batch_size": Difference(2, SMALL),
    f"{ACTOR}.ppo_mini_batch_size": Difference(2, "as the batch"),
    f"{ACTOR}.optim.lr_warmup_steps": Difference(1, "the first of four steps, not of ten"),
    "verl.trainer.save_freq": Difference(2, "a checkpoint before the kill"),
    "verl.trainer.test_freq": Difference(2, "validation before and after the kill"),
    f"{ROLLOUT}.agent.num_workers": Difference(1, "memory: a process each"),
    "verl.reward.num_workers": Difference(1, "memory: a process each"),
    "verl.transfer_queue.backend.SimpleStorage.num_data_storage_units": Difference(1, "memory: a process each"),
    "verl.ray_kwargs.ray_init.num_cpus": Difference(32, "logical: every actor of verl asks for one"),
    "verl.ray_kwargs.ray_init.object_store_memory": Difference(300_000_000, "memory"),
}
# Of the run whose checks are sharp. The other one computes in the profile's own precision.
EXACT = {
    f"{ROLLOUT}.dtype": Difference("float32", FP32),
    **{
        f"verl.actor_rollout_ref.{role}.fsdp_config.{key}": Difference(value, FP32)
        for role in ("actor", "ref")
        for key, value in {
            "dtype": "float32",
            "mixed_precision": {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
        }.items()
    },
}


def differences(profile: str, *, exact: bool) -> dict[str, Difference]:
    """By dotted name of a key of the train stage. Raises InputError for a profile that runs on a CPU as it is."""
    config = load_config(STAGE, [f"profile={profile}"])
    if config.platform != "gpu":
        raise InputError(f"profile={profile} trains on a CPU as it is; what is rehearsed is paper or single")
    ranks = min(config.verl.trainer.n_gpus_per_node, MOST_RANKS)
    rate = config.verl.actor_rollout_ref.actor.optim.lr * RATE
    fewer = {"verl.trainer.n_gpus_per_node": Difference(ranks, "a process each, on two cores")}
    return {
        **ALWAYS,
        **(fewer if ranks < config.verl.trainer.n_gpus_per_node else {}),
        f"{ACTOR}.optim.lr": Difference(rate, f"{RATE} times the profile's: four steps must move what can be measured"),
        "verl.ray_kwargs.ray_init.num_gpus": Difference(ranks, "logical: verl schedules its ranks on them"),
        **(EXACT if exact else {}),
    }


def places(out_dir: Path, responses: Path, base: Path) -> dict[str, Difference]:
    """The settings that say where a run goes, and on what; a rehearsal has a model and answers of its own."""
    return {
        "out_dir": Difference(str(out_dir), "a folder of its own"),
        "responses": Difference(str(responses), "answers of the nano world, made in a minute"),
        "base_model": Difference(str(base), "a tiny model of Qwen2's architecture with an untied head, as 7B has it"),
    }


def words(profile: str, *settings: Mapping[str, Difference]) -> list[str]:
    """The command line of the stage."""
    return [
        f"profile={profile}",
        *(f"{key}={json.dumps(value)}" for part in settings for key, (value, _) in part.items()),
    ]


def unlisted(profile: str, where: Mapping[str, Difference], listed: Mapping[str, Difference]) -> list[str]:
    """Settings in which the rehearsal differs from its profile, that are neither listed nor follow from a listed one.

    Compared are the stage's own keys and verl's whole configuration as it is resolved, both in the same places.
    """
    own = _resolved(load_config(STAGE, words(profile, where)))
    ours = _resolved(load_config(STAGE, words(profile, where, listed)))
    raw = _interpolations(load_config(STAGE, [f"profile={profile}"]))
    differ = [key for key in sorted(own.keys() | ours.keys()) if own.get(key) != ours.get(key)]
    return [key for key in differ if not _follows(key, listed, raw)]


def changed(profile: str, listed: Collection[str]) -> Row:
    """The profile's own values of the listed settings; null where it has none."""
    values = _resolved(load_config(STAGE, [f"profile={profile}"]))
    return {key: values.get(key, _below(values, key) or None) for key in listed}


def _below(values: Row, key: str) -> Row:
    return {name.removeprefix(f"{key}."): value for name, value in values.items() if name.startswith(f"{key}.")}


def _resolved(config: DictConfig) -> Row:
    """All settings by dotted name, those of verl with its defaults and what the stage derives."""
    settings = read_settings(TrainSettings, config)
    stage: Any = OmegaConf.to_container(config, resolve=True)
    verl = build(settings.verl, derived_keys(settings, RunFolder(settings.out_dir), 0, 0))
    return flat({**stage, "verl": OmegaConf.to_container(verl, resolve=True)})


def _interpolations(config: DictConfig) -> dict[str, list[str]]:
    """Of each setting of verl that refers to others, which; ours come over verl's own."""
    raw = {f"verl.{key}": value for key, value in flat(OmegaConf.to_container(schema(), resolve=False)).items()}
    refers = {
        key: [f"verl.{name}" for name in REFERENCE.findall(value)] for key, value in raw.items() if "${" in str(value)
    }
    ours = flat(OmegaConf.to_container(config, resolve=False))
    return refers | {key: REFERENCE.findall(value) for key, value in ours.items() if "${" in str(value)}


def _follows(key: str, listed: Collection[str], refers: Mapping[str, Sequence[str]]) -> bool:
    """Whether a key is listed, alone or as part of a larger one, or is made of one that is."""

    def around(name: str) -> Iterator[str]:  # the name itself, and what it stands in
        while name:
            yield name
            name = name.rpartition(".")[0]

    if any(name in listed for name in around(key)) or any(name.startswith(f"{key}.") for name in listed):
        return True
    sources = (source for name in around(key) for source in refers.get(name, ()))
    return any(_follows(source, listed, refers) for source in sources if source != key)
