from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from rag_zeval.config import load_config
from rag_zeval.errors import InputError
from train.verl_config import ADDED, DERIVED, build, check_keys, schema, unknown_keys, validate

PROFILES = ("nano", "paper")


@pytest.fixture(scope="module")
def verl() -> DictConfig:
    return schema()


@pytest.mark.parametrize("profile", PROFILES)
def test_every_key_of_ours_is_one_of_verls(profile: str, verl: DictConfig) -> None:
    config = load_config("train", [f"profile={profile}"])
    assert list(unknown_keys(config.verl, verl)) == []
    check_keys(config.verl, verl)


def test_what_the_stage_sets_itself_has_a_place_too(verl: DictConfig) -> None:
    config = OmegaConf.create({})
    for key in DERIVED:
        OmegaConf.update(config, key, "x", force_add=True)
    assert list(unknown_keys(config, verl)) == []


def test_the_keys_verl_does_not_list_are_really_not_listed(verl: DictConfig) -> None:
    listed = [key for key in ADDED if OmegaConf.select(verl, key, default="absent") != "absent"]
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


@pytest.mark.parametrize("profile", PROFILES)
def test_the_whole_config_passes_verls_own_checks(profile: str, tmp_path: Path, repository: Path) -> None:
    from train.nano_tokenizer import build_tokenizer

    build_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    config = resolved(profile, tmp_path)
    assert config.data.seed == 7 and config.data.shuffle is False
    validate(config)


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
