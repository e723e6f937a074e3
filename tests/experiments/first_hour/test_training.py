"""What the trainings of each lane are, the tiny model, one question to it; slowly, the whole hour and rehearsals."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from experiments.first_hour import tiny_model
from experiments.first_hour.scene import CannotRun, CheckFailed, Scene, read_scene
from experiments.first_hour.training import BASE, TinyTraining, differences, first_steps, kill, pace, plan
from experiments.first_hour.vllm_engine import smoke
from rag_zeval.errors import InputError
from rag_zeval.files import read_json
from rag_zeval.stages.config import load_config
from train.verl_config import build

ROOT = Path(__file__).resolve().parents[3]


def test_a_training_that_ends_before_a_step_fails(tmp_path: Path) -> None:
    words = ("profile=nano", f"responses={tmp_path}/no.jsonl", f"out_dir={tmp_path}/run")
    with pytest.raises(CheckFailed, match=r"^before step 1, the process ended with 2: error: .*no.jsonl.* \(.*log\)$"):
        kill(TinyTraining(words), 1)


def test_the_first_steps_say_how_to_get_what_is_missing(scene_of: Callable[..., Scene]) -> None:
    with pytest.raises(CannotRun, match=r"missing: hf download Qwen/Qwen2.5-7B-Instruct --local-dir models/"):
        first_steps(scene_of("paper", gpus=8))
    scene = scene_of("nano")
    object.__setattr__(scene.settings, "responses", "no/such/responses.jsonl")
    with pytest.raises(CannotRun, match=r"^no/such/responses.jsonl is missing: make synthesize PROFILE=nano$"):
        first_steps(scene)


def test_the_hours_of_a_run_count_a_checkpoint_only_where_one_is_saved() -> None:
    steps = {
        1: {"timing_s/step": 900.0},  # with compilation
        2: {"timing_s/step": 210.0},
        3: {"timing_s/step": 700.0, "timing_s/save_checkpoint": 500.0},
    }
    line = pace(steps, total=343, save_freq=25)
    assert line.startswith("210 s for the slowest step after the first, 500 s for a checkpoint: ")
    assert f"343 steps and 14 checkpoints take {(343 * 210 + 14 * 500) / 3600:.1f} hours" in line


def test_a_plan_that_is_refused_fails_with_its_reason(
    scene_of: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(CheckFailed, match=r"^the dry run ended with 2: error: .*no-such-profile"):
        plan(replace(scene_of(), profile="no-such-profile"))


@pytest.mark.parametrize(
    ("profile", "lane", "exact"),
    [("nano", "cpu", 1), ("paper", "gpu", 0), ("single", "gpu", 0)]
    + [(profile, "rehearsal", exact) for profile in ("paper", "single") for exact in (0, 1)],
)
def test_a_tiny_training_is_its_profiles_but_for_what_is_listed(profile: str, lane: str, exact: int) -> None:
    config = load_config("first_hour", [f"profile={profile}", "lane=rehearsal"])
    if lane == "rehearsal":
        listed = [*config.rehearsal.all, *config.rehearsal[profile], *(config.rehearsal.fp32 if exact else ())]
    else:
        listed = list(config.tiny[lane])
    run = TinyTraining((f"profile={profile}", *listed))
    assert (run.settings.platform, run.exact) == (lane, bool(exact))
    names = {word.partition("=")[0] for word in listed}
    names |= {"verl.actor_rollout_ref.model.path", "verl.reward.custom_reward_function.reward_kwargs.tokenizer"}
    names |= {"verl.actor_rollout_ref.rollout.engine_kwargs.hf_cpu.train_rows"}  # the stage derives these three
    assert not [key for key in differences(run) if not any(key.startswith(n) or n.startswith(key) for n in names)]
    verl = build(run.settings.verl, {})
    if lane == "rehearsal":
        assert verl.actor_rollout_ref.rollout.name == "vllm" and verl.actor_rollout_ref.model.use_remove_padding
        assert verl.data.max_response_length == 8192 and verl.actor_rollout_ref.rollout.n == 8


def test_a_scene_without_a_gpu_is_of_nano(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["profile=paper", f"out_dir={tmp_path}"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    scene = read_scene(load_config("first_hour", words))
    assert (scene.gpus, scene.here.profile, scene.settings.profile) == (0, "nano", "paper")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    scene = read_scene(load_config("first_hour", words))
    assert (scene.gpus, scene.here.profile) == (8, "paper")
    assert scene.tiny[0] == "base_model=checkpoints/nano-base"
    rehearsed = read_scene(load_config("first_hour", [*words, "lane=rehearsal"]))
    assert (rehearsed.gpus, rehearsed.here.profile, rehearsed.tiny[0]) == (0, "paper", "platform=rehearsal")
    with pytest.raises(InputError, match="profile=nano trains on a CPU as it is; what is rehearsed is paper or single"):
        read_scene(load_config("first_hour", ["lane=rehearsal"]))
    for word in ("out_dir=", "lane=x", "only=5", "tiny.cpu=5", "tiny.cpu=[5]", "rehearsal.all=5"):
        with pytest.raises(InputError, match=f"^{word.partition('=')[0].removesuffix('.all')}: "):
            read_scene(load_config("first_hour", [*words, word]))


def test_a_model_must_be_there_and_must_write_the_format(
    scene_of: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    scene = scene_of()
    with pytest.raises(CannotRun, match=r"tiny-train/model is not there: tiny-train makes it$"):
        smoke(scene)
    model = shutil.copytree(ROOT / "checkpoints/nano-judge", scene.folder / "tiny-train" / "model")
    smoke(scene)
    weights = model / "model.safetensors"
    save_file({name: 0 * tensor for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})
    with pytest.raises(CheckFailed, match=r"^rag-zeval smoke ended with 1: "):
        smoke(scene)


def test_it_is_qwen2_with_an_untied_head_and_computes_what_its_base_computes(tmp_path: Path) -> None:
    folder = tiny_model.make(BASE, tmp_path / "model")  # compares the logits itself
    config, weights = read_json(folder / "config.json"), load_file(folder / "model.safetensors")
    assert config["architectures"] == ["Qwen2ForCausalLM"] and config["tie_word_embeddings"] is False
    assert weights["lm_head.weight"].equal(weights["model.embed_tokens.weight"])
    assert "model.layers.0.self_attn.v_proj.bias" in weights and not [n for n in weights if n.endswith("o_proj.bias")]
    assert (folder / "tokenizer.json").read_bytes() == (BASE / "tokenizer.json").read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_hour_at_nano_scale(tmp_path: Path) -> None:
    """Every check that runs on a CPU, for real: a training, its SIGKILL, resuming, export, a question to the model."""
    words = [sys.executable, "-m", "experiments.first_hour", "profile=paper", f"out_dir={tmp_path / 'hour'}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last == "7 of 12 checks passed; 5 could not run here: gpus, kernels, sleep, serve, first-steps"
    assert "killed after step 1" in done.stdout and "resuming after step 1 of 2" in done.stdout
    assert "PASS steps are consecutive" in (tmp_path / "hour" / "report.md").read_text()
    again = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0 and again.stdout.count("PASS in an earlier run") == 7


@pytest.mark.slow
@pytest.mark.vllm
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("profile", ["paper", "single"])
def test_a_profile_is_rehearsed_and_passes(profile: str, tmp_path: Path) -> None:
    """In the environment of `make rehearse`; each takes some ten minutes and both cores."""
    pytest.importorskip("vllm")
    words = [f"profile={profile}", "lane=rehearsal", f"out_dir={tmp_path / profile}"]
    done = subprocess.run([sys.executable, "-m", "experiments.first_hour", *words], cwd=ROOT)
    assert done.returncode == 0
    assert (tmp_path / profile / "report.md").read_text().startswith("# Rehearsal\n\n3 of 3 checks passed.")
