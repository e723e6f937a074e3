from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf
from verl.utils.config import omega_conf_to_dataclass

from experiments.plan import plan_runs, read_experiment
from rag_zeval.errors import InputError
from rag_zeval.stages.config import CONFIGS, load_config
from train import settings
from train.sft import __main__ as sft
from train.verl_config import PPO, SFT, build, check_keys, schema, unknown_keys, validate

PROFILES = sorted(path.stem for path in (CONFIGS / "profile").glob("*.yaml"))
STAGES = {"train": PPO, "sft": SFT}


@pytest.fixture(scope="module")
def verl() -> DictConfig:
    return schema()


@pytest.fixture(scope="module")
def schemas(verl: DictConfig) -> dict[str, DictConfig]:
    return {"train": verl, "sft": schema(SFT)}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("profile", PROFILES)
def test_every_key_of_ours_is_one_of_verls(profile: str, stage: str, schemas: dict[str, DictConfig]) -> None:
    """Each key is walked here by itself: verl's config has it, or its parent is an open place, or it is in `added`."""
    config, trainer = load_config(stage, [f"profile={profile}"]), STAGES[stage]
    assert list(unknown_keys(config.verl, schemas[stage], trainer)) == []
    check_keys(config.verl, schemas[stage], trainer)
    known, walked = OmegaConf.to_container(schemas[stage]), 0
    for key in leaves(OmegaConf.to_container(config.verl)):
        if not any(key == added or key.startswith(f"{added}.") for added in trainer.added):
            assert placed(key.split("."), known), key
            walked += 1
    assert walked > 20


def leaves(node: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(node, dict) and node:
        for key, child in node.items():
            yield from leaves(child, f"{prefix}{key}.")
    else:
        yield prefix.rstrip(".")


def placed(names: list[str], known: Any) -> bool:
    for name in names:
        if known is None or known == {}:  # verl leaves these open
            return True
        if not isinstance(known, dict) or name not in known:
            return False
        known = known[name]
    return True


@pytest.mark.parametrize("stage", STAGES)
def test_what_the_stage_sets_itself_has_a_place_too(stage: str, schemas: dict[str, DictConfig]) -> None:
    config = OmegaConf.create({})
    for key in STAGES[stage].derived:
        OmegaConf.update(config, key, "x", force_add=True)
    assert list(unknown_keys(config, schemas[stage], STAGES[stage])) == []


@pytest.mark.parametrize("stage", STAGES)
def test_the_keys_verl_does_not_list_are_really_not_listed(stage: str, schemas: dict[str, DictConfig]) -> None:
    listed = [key for key in STAGES[stage].added if OmegaConf.select(schemas[stage], key, default="no") != "no"]
    assert listed == []


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("data.train_batchsize", "data.train_batch_size"),
        ("actor_rollout_ref.actor.kl_loss_coeff", "actor_rollout_ref.actor.kl_loss_coef"),
        ("trainer.savefreq", "trainer.save_freq"),
        ("actor_rollout_ref.rollout.name.deep", ""),
    ],
)
def test_a_misspelt_key_is_refused_with_the_nearest(key: str, near: str, verl: DictConfig) -> None:
    config = OmegaConf.create({})
    OmegaConf.update(config, key, 1, force_add=True)
    with pytest.raises(InputError, match=rf"verl\.{key.split('.', maxsplit=1)[0]}.*no such key.*{near}"):
        check_keys(config, verl)


@pytest.mark.parametrize("key", ["reward.custom_reward_function.path", "trainer.default_local_dir", "data.train_files"])
def test_a_key_the_stage_sets_cannot_be_set(key: str, verl: DictConfig) -> None:
    config = OmegaConf.create({})
    OmegaConf.update(config, key, "x", force_add=True)
    with pytest.raises(InputError, match="the stage sets this key itself"):
        check_keys(config, verl)


def test_places_verl_leaves_open_take_any_name(verl: DictConfig) -> None:
    ours = {
        "actor_rollout_ref": {
            "model": {"override_config": {"attn_implementation": "eager"}},
            "actor": {"optim": {"override_optimizer_config": {"eps": 1e-9}}},
        },
        "trainer": {"v1": {"sampler": {"sampler_kwargs": {"poll_interval": 1.0}}}},
    }
    assert list(unknown_keys(OmegaConf.create(ours), verl)) == []


def resolved(profile: str, tmp_path: Path, *words: str) -> DictConfig:
    config = load_config("train", [f"profile={profile}", *words])
    return build(config.verl, {"actor_rollout_ref.model.path": str(tmp_path), "data.seed": 7})


def arms_of(profile: str) -> Iterator[tuple[str, str, DictConfig]]:
    """Name, stage and settings of each training stage: the profile's own, and those of every experiment's arms."""
    for stage in STAGES:
        yield stage, stage, load_config(stage, [f"profile={profile}"])
    for name in load_config("experiments", [f"profile={profile}"]).experiments:
        config = load_config("experiments", [f"profile={profile}", f"experiment={name}", "seeds=[1]"])
        for run in plan_runs(read_experiment(config)):
            for command in run.commands:
                yield f"{name} {run.name}", command.stage, load_config(command.stage, command.words)


@pytest.mark.parametrize("profile", sorted({*PROFILES} - {"nano"}))
def test_experiments_are_refused_where_they_would_be_others(profile: str) -> None:
    with pytest.raises(InputError, match=f"profile={profile}: the experiments are planned for profile=nano"):
        list(arms_of(profile))


def test_each_arm_of_each_experiment_passes_our_checks_and_verls() -> None:
    checked = set()
    for name, stage, config in arms_of("nano"):
        (sft if stage == "sft" else settings).check_settings(config)
        whole = build(
            config.verl, {f"{'model' if stage == 'sft' else 'actor_rollout_ref.model'}.path": "x"}, STAGES[stage]
        )
        if stage == "sft":  # verl checks these by making its own classes of them
            for section in ("engine", "optim", "checkpoint"):
                omega_conf_to_dataclass(whole[section])
        else:
            assert whole.data.shuffle is False
            assert validate(whole) is None
            omega_conf_to_dataclass(whole.actor_rollout_ref.rollout)
        checked.add(name)
    assert {"train", "sft", "proof judge-seed1", "ablations best-only-seed1", "ablations sft-ranker-seed1"} <= checked


def test_what_verl_refuses_is_one_line() -> None:
    words = ["profile=paper", "verl.actor_rollout_ref.actor.loss_agg_mode=median"]
    with pytest.raises(InputError, match=r"^verl refuses this configuration: .*Invalid loss_agg_mode: median") as error:
        validate(build(load_config("train", words).verl, {}))
    assert "\n" not in str(error.value)


def test_table_6_stands_in_the_paper_profile(tmp_path: Path) -> None:
    verl = resolved("paper", tmp_path)
    actor, rollout = verl.actor_rollout_ref.actor, verl.actor_rollout_ref.rollout
    assert (verl.data.train_batch_size, verl.data.max_prompt_length, verl.data.max_response_length) == (32, 8192, 8192)
    assert (actor.optim.optimizer, actor.optim.lr, actor.optim.lr_warmup_steps) == ("AdamW", 1e-6, 10)
    assert actor.optim.lr_scheduler_type == "linear"
    assert (actor.use_kl_loss, actor.kl_loss_coef, actor.kl_loss_type) == (True, 0.015, "low_var_kl")
    assert (rollout.n, rollout.temperature) == (8, 1.0)
    assert verl.algorithm.adv_estimator == "grpo" and verl.trainer.n_gpus_per_node == 8
    assert verl.actor_rollout_ref.actor.ppo_mini_batch_size == 32
    assert (verl.data.shuffle, verl.trainer.total_epochs) == (False, 1)
    stages = [(stage.k, stage.rows) for stage in load_config("train", ["profile=paper"]).stages]
    assert stages == [(3, 5500), (4, 5500)] and 11000 // verl.data.train_batch_size == 343


def test_a_written_config_is_read_back_by_hydra_as_it_was(tmp_path: Path) -> None:
    """`main_ppo --config-path --config-name` must see the same values, types included."""
    from hydra import compose, initialize_config_dir

    config = resolved("nano", tmp_path)
    (tmp_path / "verl.yaml").write_text(OmegaConf.to_yaml(config))
    with initialize_config_dir(str(tmp_path), version_base=None):
        again: Any = compose("verl")
    assert OmegaConf.to_container(again) == OmegaConf.to_container(config)


def test_a_wrong_key_stops_the_stage_before_anything_is_loaded(tmp_path: Path, repository: Path) -> None:
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "train",
        f"out_dir={tmp_path}",
        "verl.trainer.save_frequency=5",
    ]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert (
        "error: verl.trainer.save_frequency: verl has no such key (did you mean 'verl.trainer.save_freq'?)"
        in done.stderr
    )
    assert "| torch\n" not in done.stderr and "| verl\n" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["accuracy=best"], "accuracy=best: there is all-pairs, best-only"),
        (["variant=long"], "prompt variant 'long' does not exist"),
        (["platform=tpu"], "platform=tpu: there is cpu, gpu"),
        (
            ["verl.data.train_batch_size=3", "verl.actor_rollout_ref.rollout.n=4"],
            "actor.ppo_micro_batch_size_per_gpu=8 does not divide the 12 rollouts",
        ),
        (["verl.trainer.save_freq=-1"], "save_freq must be above 0"),
        (["gpu_memory_gib=0"], "gpu_memory_gib=0: must be a number above 0, or null"),
        (["gpu_memory_gib=much"], "gpu_memory_gib=much: must be a number above 0, or null"),
        (
            ["profile=paper", "verl.data.max_prompt_length=9000"],
            "ppo_max_token_len_per_gpu=16384 does not hold a row of 17192 tokens",
        ),
        (["profile=paper", "gpu_memory_gib=24"], "gpu_memory_gib=24: 'update' needs 35.3 GiB on each GPU"),
        (["responses=nowhere.jsonl"], "nowhere.jsonl: no responses here"),
        (["responses={responses}", "base_model=./nowhere"], "base_model=./nowhere: there is no such folder"),
    ],
)
def test_wrong_settings_are_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from train.__main__ import main

    responses = tmp_path / "responses.jsonl"
    responses.write_text("")
    assert main([f"out_dir={tmp_path / 'out'}", *(word.format(responses=responses) for word in words)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ") and message in shown and shown.count("\n") == 1
