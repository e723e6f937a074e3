"""The settings of both trainers and of verl: what is refused before anything is loaded, and what a run is known by."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, ListConfig, OmegaConf
from verl.utils.config import omega_conf_to_dataclass

from experiments.arm_commands import arm_runs, read_experiment
from rag_zeval.errors import InputError
from rag_zeval.files import first_difference
from rag_zeval.stages.answer_quality import AnswerFilter
from rag_zeval.stages.config import CONFIGS, key_paths, load_config
from train.__main__ import main
from train.run_folder import RunFolder
from train.settings import Settings, SFTSettings, Stage, TrainSettings, binding_settings, identity, read_settings
from train.sft.__main__ import main as sft_main
from train.verl_config import PPO, SFT, build, check_keys, schema, unknown_keys, validate

SETTINGS: dict[str, type[Settings]] = {"train": TrainSettings, "sft": SFTSettings}
TRAINERS = {"train": PPO, "sft": SFT}
MAIN = {"train": main, "sft": sft_main}
JOINED = ["profile=paper", "verl.trainer.nnodes=2", "verl.ray_kwargs.ray_init.address=auto"]
SAVED = "verl.actor_rollout_ref.actor.checkpoint.save_contents"
NOT_RANKED = ["rows=[{k: 1, rows: 3}]", "verl.data.train_batch_size=6"]
SFT_PAPER = ["rows=[{k: 2, rows: null}]", "profile=paper"]
ACTOR, ROLLOUT = "verl.actor_rollout_ref.actor", "verl.actor_rollout_ref.rollout"
VARIABLES = "verl.ray_kwargs.ray_init.runtime_env.env_vars"


def read(stage: str, *words: str) -> Any:
    return read_settings(SETTINGS[stage], load_config(stage, words))


@pytest.mark.parametrize("stage", SETTINGS)
@pytest.mark.parametrize("word", ["platform=tpu", "filter_near_identical=0", "filter_near_identical=True"])
def test_what_neither_trainer_takes_is_named(stage: str, word: str) -> None:
    key, value = word.split("=")
    with pytest.raises(InputError, match=f"^{key}: .*, found {value}$"):
        read(stage, word)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["accuracy=best"], "^accuracy: .*'all-pairs' or 'best-only'"),
        (["variant=long"], "^variant: unknown prompt variant 'long'"),
        (["stages=[{k: 1, rows: 3}]"], "^stages, validation: a judge ranks two candidates or more"),
        *(
            ([f"stages=[{{k: 3, rows: null}}, {entry}]"], "^stages: must be a list of {k: a number, rows: a number, or")
            for entry in ("{k: 3, row: 120}", "{k: '3', rows: 3}", "{k: 0, rows: 3}", "{k: 3, rows: 0}", "3")
        ),
        (["validation=3"], "^validation: must be a list of {k: a number"),
        (
            ["verl.data.train_batch_size=3", "verl.actor_rollout_ref.rollout.n=4"],
            "actor.ppo_micro_batch_size_per_gpu=8 does not divide the 6 rollouts",
        ),
        (
            ["profile=paper", "verl.data.max_prompt_length=9000"],
            "ppo_max_token_len_per_gpu=16384 does not hold a row of 17192 tokens",
        ),
        (["verl.trainer.save_freq=-1"], "save_freq: must be a whole number above 0, found -1"),
        (["verl.trainer.logger=[console]"], "^verl.trainer.logger: must have file, because the stage reads the steps"),
        (["verl.trainer.max_actor_ckpt_to_keep=1"], "max_actor_ckpt_to_keep: must be a whole number above 1, found 1"),
        (["verl.trainer.total_training_steps=-5"], "total_training_steps: must be a whole number above 0, found -5"),
        ([f"{ACTOR}.ppo_micro_batch_size_per_gpu=many"], "size_per_gpu: must be a whole number above 0, found many"),
        ([f"{ACTOR}.fsdp_config.fsdp_size=0"], "fsdp_size=0 does not divide the 2 devices"),
        (["profile=paper", f"{ROLLOUT}.tensor_model_parallel_size=3"], "parallel_size=3 does not divide the 8 devices"),
        (["profile=paper", "verl.data.train_batch_size=40"], "size=32 does not divide verl.data.train_batch_size=40"),
        (["profile=paper", "verl.trainer.n_gpus_per_node=6"], "the 256 rollouts of an update .* among 6 devices"),
        (
            ["profile=paper", "verl.data.max_prompt_length=12288", f"{ACTOR}.ppo_max_token_len_per_gpu=20480"],
            "rollout.max_model_len=16384 does not hold a row of 20480 tokens",
        ),
        (
            ["profile=paper", f"{ROLLOUT}.log_prob_max_token_len_per_gpu=8192"],
            "rollout.log_prob_max_token_len_per_gpu=8192 does not hold a row of 16384 tokens",
        ),
        (["verl.trainer.total_epochs=2"], "^verl.trainer.total_epochs: must be 1, because a second epoch would begin"),
        ([f"{ROLLOUT}.n=1"], "^verl.actor_rollout_ref.rollout.n: must be a whole number above 1, found 1"),
        ([f"{ROLLOUT}.temperature=0"], "rollout.temperature: must be above 0, found 0$"),
        ([f"{ROLLOUT}.top_p=1.1"], f"^{ROLLOUT}.top_p: must be above 0 and at most 1, found 1.1$"),
        ([f"{ROLLOUT}.val_kwargs.top_p=0"], "val_kwargs.top_p: must be above 0 and at most 1, found 0$"),
        ([f"{ACTOR}.kl_loss_coef=-0.015"], f"^{ACTOR}.kl_loss_coef: must be 0 or more, found -0.015$"),
        *(([f"{ACTOR}.optim.clip_grad={norm}"], f"clip_grad: must be above 0, found {norm}$") for norm in (0, -1.0)),
        ([f"{ACTOR}.ppo_epochs=0"], "ppo_epochs: must be a whole number above 0, found 0$"),
        ([f"{ACTOR}.optim.lr=-1.0e-6"], "^verl.actor_rollout_ref.actor.optim.lr: must be above 0, found -1e-06"),
        ([f"{ACTOR}.optim.lr_scheduler_type=linaer"], "type: must be linear, constant, cosine, found linaer$"),
        ([*SFT_PAPER, "verl.optim.lr=0"], "^verl.optim.lr: must be above 0, found 0"),
        ([*SFT_PAPER, "verl.optim.lr_scheduler_type=linaer"], "^verl.optim.lr_scheduler_type: must be linear, "),
        (["verl.data.shuffle=true"], "^verl.data.shuffle: must be false, because the order of the rows"),
        *(([f"{key}=[]"], f"^{key}: must be a list of {{k: .*at least one$") for key in ("stages", "validation")),
        (["alphas=[]"], "^alphas: "),
        (["alphas=[0, 0]"], "^alphas: each number may occur only once"),
        *(([f"seed={seed}"], f"^seed: .*found {seed}$") for seed in (-1, 2**31)),
        (["verl.actor_rollout_ref.model.lora_rank=8"], "save_contents: verl's hf_model of a LoRA run cannot be loaded"),
        ([f"{SAVED}=[model]"], "save_contents must have hf_model: the model is exported from it"),
        (["profile=single", f"{SAVED}=[optimizer]"], "save_contents must have model: the model is exported from it"),
        (["export=first"], "^export: .*'last' or 'best'"),
        (["export=best", "verl.trainer.test_freq=12"], "test_freq=12 must be a multiple of verl.trainer.save_freq=5"),
        (["export=best", "verl.trainer.test_freq=-1"], "test_freq=-1 must be a multiple"),
        (["export=best", "verl.actor_rollout_ref.rollout.val_kwargs.n=2"], "val_kwargs.n=2 must be 1"),
        (
            ["profile=paper", "verl.actor_rollout_ref.ref.fsdp_config.model_dtype=bf16"],
            "ref.fsdp_config.model_dtype is bf16 and that of the actor fp32: .*KL divergence of equal weights is not 0",
        ),
        (
            ["profile=paper", "verl.actor_rollout_ref.actor.fsdp_config.mixed_precision={param_dtype: fp32}"],
            "ref.fsdp_config.mixed_precision.param_dtype is bf16 and that of the actor fp32",
        ),
        (["verl.trainer.nnodes=2"], "nnodes=2 needs a ray cluster that is there .* set verl.ray_kwargs.ray_init.addr"),
        ([*JOINED, f"{VARIABLES}.WANDB_API_KEY=x"], "env_vars.WANDB_API_KEY: a secret would be written into the run's"),
        ([*JOINED, f"{VARIABLES}.hf_token=x"], "env_vars.hf_token: a secret"),
        ([NOT_RANKED[0]], "^rows: variant=ranking-only ranks two candidates or more"),
        ([NOT_RANKED[1]], "train_batch_size=6 does not divide among 1 devices into micro-batches of .*per_gpu=8$"),
        ([*SFT_PAPER, "verl.data.train_batch_size=33"], "train_batch_size=33 does not divide among 8 devices$"),
        ([*SFT_PAPER, "verl.data.use_dynamic_bsz=false", "verl.data.train_batch_size=40"], "verl.data.micro_.*gpu=4$"),
        ([*SFT_PAPER, "verl.data.max_length=20000"], "max_token_len_per_gpu=16384 does not hold a row of .*=20000 tok"),
        ([*SFT_PAPER, "verl.trainer.test_freq=0"], "^verl.trainer.test_freq: must be a whole number above 0, or -1"),
    ],
)
def test_what_could_only_fail_later_is_refused(words: list[str], message: str) -> None:
    stage = "sft" if words[0] in (*NOT_RANKED, SFT_PAPER[0]) else "train"
    with pytest.raises(InputError, match=message):
        read(stage, *words)


@pytest.mark.parametrize("stage", SETTINGS)
def test_a_value_of_another_kind_is_named(stage: str) -> None:
    """A word, null or a bare number in place of any of verl's numbers, switches and sections that a profile sets."""
    config: Any = OmegaConf.create(OmegaConf.to_container(load_config(stage, []), resolve=True))
    defaults = schema(TRAINERS[stage])
    tried = 0
    for key in key_paths(config.verl):
        default = OmegaConf.select(defaults, key)
        if isinstance(default, bool | int | float) or (isinstance(default, DictConfig | ListConfig) and default):
            for value in ("abc", None, *([] if isinstance(default, int | float) else [5])):
                wrong = config.copy()
                OmegaConf.update(wrong, f"verl.{key}", value, merge=False)
                with pytest.raises(InputError, match=r"^verl\..*: must be .*, found (abc|null|5)$"):
                    read_settings(SETTINGS[stage], wrong)
                tried += 1
    assert tried > 20
    for key, kind in TRAINERS[stage].added.items():
        if kind is not str and key not in TRAINERS[stage].derived:
            with pytest.raises(InputError, match=rf"^verl\.{key}: must be .*, found abc$"):
                read(stage, f"verl.{key}=abc")
            check_keys(OmegaConf.from_dotlist([f"{key}=null"]), TRAINERS[stage])
    for verl in (None, 5):
        with pytest.raises(InputError, match=r"^verl: must be keys with values, found (null|5)$"):
            read_settings(SETTINGS[stage], DictConfig({**config, "verl": verl}))


def test_what_only_looks_wrong_passes() -> None:
    """A run with LoRA has one model for both roles; a name only sounds like a secret; verl leaves places open."""
    read("train", "profile=single", "verl.actor_rollout_ref.actor.fsdp_config.model_dtype=bf16")
    read("train", *JOINED, f"{VARIABLES}.TOKENIZERS_PARALLELISM=true")
    read("train", "verl.actor_rollout_ref.model.override_config.attn_implementation=eager")
    read("train", "verl.actor_rollout_ref.actor.optim.override_optimizer_config.eps=1e-9")
    assert read("sft", NOT_RANKED[0], "variant=compact").rows == [Stage(1, 3)]  # taught, not ranked


@pytest.mark.parametrize("stage", SETTINGS)
def test_filters_are_read_and_all_but_the_first_are_off(stage: str) -> None:
    assert read(stage).answer_filter == AnswerFilter()
    words = ["identical=false", "near_identical=0.8", "repetition=1", "passage=0.5", "unfinished=true"]
    assert read(stage, *(f"filter_{word}" for word in words)).answer_filter == AnswerFilter(False, 0.8, 1, 0.5, True)


@pytest.mark.parametrize("stage", SETTINGS)
def test_a_run_begun_before_the_filters_were_there_goes_on(stage: str, tmp_path: Path) -> None:
    now = OmegaConf.to_container(load_config(stage, []), resolve=True)
    assert isinstance(now, dict)
    folder = RunFolder(tmp_path)
    folder.claim({"config": {k: v for k, v in now.items() if k == "filter_identical" or "filter" not in str(k)}})
    folder.next_attempt().write_text('{"step": 0, "data": {}}\n{"step": 1, "data": {}}\n')
    folder.claim({"config": now})
    with pytest.raises(InputError, match=r"config\.filter_passage=None, not 0\.9"):
        folder.claim({"config": {**now, "filter_passage": 0.9}})


@pytest.mark.parametrize(
    ("stage", "free", "binding"),
    [
        (
            "train",
            ["gpu_memory_gib=40", "dry_run=true", "threads=2", "verl.trainer.save_freq=5"],
            ["seed=1", "variant=paper", "export=best", "verl.actor_rollout_ref.actor.optim.lr=1"],
        ),
        (
            "sft",
            ["threads=2", "verl.trainer.logger=[file]", "verl.trainer.max_ckpt_to_keep=3"],
            ["seed=1", "verl.optim.lr=1", "alphas=[0,-1]", "sets_per_question=1"],
        ),
    ],
)
def test_a_run_is_known_by_what_its_model_depends_on(
    stage: str, free: list[str], binding: list[str], nano_responses: Callable[..., str], nano_base: Path
) -> None:
    def made_of(*words: str) -> Any:
        return identity(read(stage, f"responses={responses}", f"base_model={nano_base}", *words))

    responses = nano_responses(2)
    run = made_of()
    assert run == made_of(*free, "out_dir=elsewhere")
    assert all(made_of(word) != run for word in binding)
    responses = nano_responses(3)
    assert made_of() != run


def test_a_run_that_did_not_fit_goes_on_with_states_in_host_memory(
    nano_responses: Callable[..., str], nano_base: Path
) -> None:
    same = ["profile=paper", f"responses={nano_responses(2)}", f"base_model={nano_base}"]
    fsdp = "verl.actor_rollout_ref.actor.fsdp_config"
    offloaded = [*same, f"{fsdp}.param_offload=true", f"{fsdp}.optimizer_offload=true"]
    assert first_difference(identity(read("train", *same)), identity(read("train", *offloaded))) is None


@pytest.mark.parametrize(
    ("stage", "words", "message"),
    [
        ("train", ["responses=nowhere.jsonl"], "nowhere.jsonl: no responses found"),
        ("train", ["base_model=./nowhere"], "base_model=./nowhere: there is no such folder"),
        ("sft", ["base_model=./nowhere"], "base_model=./nowhere: there is no such folder"),
        ("train", ["base_model=models/nowhere"], "base_model=models/nowhere: there is no such folder"),
        ("train", ["verl.actor_rollout_ref.rollout.name.deep=1"], "rollout.name.deep: verl has no such key"),
        ("sft", ["verl.optim.lrr=1"], "verl.optim.lrr: verl has no such key (did you mean 'verl.optim.lr'?)"),
        ("sft", ["rows=[{k: 4, rows: 3}]"], "3 training rows do not fill one step of verl.data.train_batch_size=16"),
    ],
)
def test_what_is_wrong_is_one_line_of_the_command(
    stage: str,
    words: list[str],
    message: str,
    nano_responses: Callable[..., str],
    tmp_path: Path,
    refusal: Callable[..., str],
) -> None:
    asked = [f"out_dir={tmp_path / 'out'}", f"responses={nano_responses()}", *words]
    assert message in refusal(MAIN[stage], asked, first=False)


PROFILES = sorted(path.stem for path in (CONFIGS / "profile").glob("*.yaml"))


@pytest.mark.parametrize("stage", SETTINGS)
def test_what_the_stage_sets_itself_has_a_place_but_cannot_be_set(stage: str) -> None:
    for key, source in TRAINERS[stage].derived.items():
        config = OmegaConf.from_dotlist([f"{key}=x"])
        assert list(unknown_keys(config, TRAINERS[stage])) == []
        with pytest.raises(InputError, match=rf"^verl\.{key}: the stage sets this key itself, from '{source}'$"):
            check_keys(config, TRAINERS[stage])


@pytest.mark.parametrize("stage", SETTINGS)
def test_the_keys_verl_does_not_list_are_really_not_listed(stage: str) -> None:
    trainer = TRAINERS[stage]
    assert [key for key in trainer.added if OmegaConf.select(schema(trainer), key, default="no") != "no"] == []


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


@pytest.mark.parametrize("stage", SETTINGS)
@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_passes_our_checks_and_verls(profile: str, stage: str) -> None:
    config = load_config(stage, [f"profile={profile}"])
    check_by_verl(stage, config)
    if stage == "train":  # each exports its last checkpoint, and can export its best
        best = read("train", f"profile={profile}", "export=best")
        assert binding_settings(best.config) == {**binding_settings(config), "export": "best"}


def test_each_arm_of_each_experiment_passes_our_checks_and_verls() -> None:
    checked = set()
    for name in load_config("experiments", []).experiments:
        for run in arm_runs(read_experiment(load_config("experiments", [f"experiment={name}", "seeds=[1]"]))):
            for command in run.commands:
                check_by_verl(command.stage, load_config(command.stage, command.words))
            checked.add(f"{name} {run.name}")
    assert {"proof judge-seed1", "ablations best-only-seed1", "ablations sft-ranker-seed1"} <= checked


TABLE_6 = {
    "data.train_batch_size": 32,
    "data.max_prompt_length": 8192,
    "data.max_response_length": 8192,
    "data.shuffle": False,
    "actor_rollout_ref.actor.optim.optimizer": "AdamW",
    "actor_rollout_ref.actor.optim.lr": 1e-6,
    "actor_rollout_ref.actor.optim.lr_warmup_steps": 10,
    "actor_rollout_ref.actor.optim.lr_scheduler_type": "linear",
    "actor_rollout_ref.actor.use_kl_loss": True,
    "actor_rollout_ref.actor.kl_loss_coef": 0.015,
    "actor_rollout_ref.actor.kl_loss_type": "low_var_kl",
    "actor_rollout_ref.actor.ppo_mini_batch_size": 32,
    "actor_rollout_ref.rollout.n": 8,
    "actor_rollout_ref.rollout.temperature": 1.0,
    "algorithm.adv_estimator": "grpo",
    "trainer.n_gpus_per_node": 8,
    "trainer.total_epochs": 1,
}


def test_table_6_stands_in_the_paper_profile() -> None:
    paper = read("train", "profile=paper")
    verl = build(paper.verl, {})
    assert {key: OmegaConf.select(verl, key) for key in TABLE_6} == TABLE_6
    assert paper.stages == [Stage(3, 5500), Stage(4, 5500)] and 11000 // verl.data.train_batch_size == 343
    assert paper.same_questions  # 5,500 of them, as in the paper


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
