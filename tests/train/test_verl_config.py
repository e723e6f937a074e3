from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf
from verl.utils.config import omega_conf_to_dataclass

from experiments.arm_commands import arm_runs, read_experiment
from rag_zeval.errors import InputError
from rag_zeval.stages.config import CONFIGS, load_config
from train.settings import Settings, SFTSettings, TrainSettings, read_settings
from train.verl_config import PPO, SFT, build, check_keys, schema, unknown_keys, validate

PROFILES = sorted(path.stem for path in (CONFIGS / "profile").glob("*.yaml"))
STAGES = {"train": PPO, "sft": SFT}
SETTINGS: dict[str, type[Settings]] = {"train": TrainSettings, "sft": SFTSettings}


@pytest.mark.parametrize("stage", STAGES)
def test_what_the_stage_sets_itself_has_a_place_but_cannot_be_set(stage: str) -> None:
    for key, source in STAGES[stage].derived.items():
        config = OmegaConf.from_dotlist([f"{key}=x"])
        assert list(unknown_keys(config, STAGES[stage])) == []
        with pytest.raises(InputError, match=rf"^verl\.{key}: the stage sets this key itself, from '{source}'$"):
            check_keys(config, STAGES[stage])


@pytest.mark.parametrize("stage", STAGES)
def test_the_keys_verl_does_not_list_are_really_not_listed(stage: str) -> None:
    trainer = STAGES[stage]
    assert [key for key in trainer.added if OmegaConf.select(schema(trainer), key, default="no") != "no"] == []


@pytest.mark.parametrize(
    ("key", "near"), [("data.train_batchsize", "data.train_batch_size"), ("actor_rollout_ref.rollout.name.deep", "")]
)
def test_a_misspelt_key_is_refused_with_the_nearest(key: str, near: str) -> None:
    with pytest.raises(InputError, match=rf"verl\.{key.split('.', maxsplit=1)[0]}.*no such key.*{near}"):
        check_keys(OmegaConf.from_dotlist([f"{key}=1"]))


def test_places_verl_leaves_open_take_any_name() -> None:
    words = ["actor_rollout_ref.model.override_config.attn_implementation=eager"]
    words.append("actor_rollout_ref.actor.optim.override_optimizer_config.eps=1e-9")
    assert list(unknown_keys(OmegaConf.from_dotlist(words))) == []


def check_by_verl(stage: str, config: DictConfig) -> None:
    """Our checks of a stage's settings, and verl's own of all that they make of its configuration."""
    settings = read_settings(SETTINGS[stage], config)
    model = "model" if stage == "sft" else "actor_rollout_ref.model"
    verl = build(settings.verl, {f"{model}.path": "x"}, settings.trainer)
    if stage == "sft":  # verl checks these by making its own classes of them
        for section in ("engine", "optim", "checkpoint"):
            omega_conf_to_dataclass(verl[section])
        assert verl.optim.lr_scheduler_type == "linear"
    else:
        assert verl.data.shuffle is False
        assert validate(verl) == ("lora_rank: vLLM is not installed" if config.profile == "single" else None)
        omega_conf_to_dataclass(verl.actor_rollout_ref.rollout)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_passes_our_checks_and_verls(profile: str, stage: str) -> None:
    check_by_verl(stage, load_config(stage, [f"profile={profile}"]))


def test_each_arm_of_each_experiment_passes_our_checks_and_verls() -> None:
    checked = set()
    for name in load_config("experiments", []).experiments:
        for run in arm_runs(read_experiment(load_config("experiments", [f"experiment={name}", "seeds=[1]"]))):
            for command in run.commands:
                check_by_verl(command.stage, load_config(command.stage, command.words))
            checked.add(f"{name} {run.name}")
    assert {"proof judge-seed1", "ablations best-only-seed1", "ablations sft-ranker-seed1"} <= checked


def test_table_6_stands_in_the_paper_profile() -> None:
    verl = build(load_config("train", ["profile=paper"]).verl, {})
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

    config = build(load_config("train", []).verl, {"actor_rollout_ref.model.path": str(tmp_path), "data.seed": 7})
    (tmp_path / "verl.yaml").write_text(OmegaConf.to_yaml(config))
    with initialize_config_dir(str(tmp_path), version_base=None):
        again: Any = compose("verl")
    assert OmegaConf.to_container(again) == OmegaConf.to_container(config)


def test_a_wrong_key_stops_the_stage_before_anything_is_loaded(tmp_path: Path, repository: Path) -> None:
    command = f"{sys.executable} -X importtime -m train out_dir={tmp_path} verl.trainer.save_frequency=5".split()
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    refusal = "verl.trainer.save_frequency: verl has no such key (did you mean 'verl.trainer.save_freq'?)"
    assert f"error: {refusal}" in done.stderr
    assert "| torch\n" not in done.stderr and "| verl\n" not in done.stderr
