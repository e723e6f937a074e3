"""What a training's log must show; and, slowly, the whole hour at nano scale."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.first_hour.scene import CannotRun, CheckFailed, Scene, read_scene
from experiments.first_hour.training import check_agreement, first_steps, kill_after_a_step, plan
from rag_zeval.stages.config import load_config
from train.settings import TrainSettings, read_settings

ROOT = Path(__file__).resolve().parents[3]


def bf16(mean: float, correlation: float) -> dict[str, float]:
    names = ("training/rollout_probs_diff_mean", "training/rollout_actor_probs_pearson_corr")
    return {**dict(zip(names, (mean, correlation), strict=True)), "timing_s/step": 2.0}


def test_bf16_noise_passes_and_weights_that_are_old_fail() -> None:
    check_agreement({0: {}, 1: bf16(0.0003, 0.9995), 2: bf16(0.0003, 0.9994)}, fp32=False)
    with pytest.raises(CheckFailed, match=r"^step 2: rollout and training differ by 0.0041"):
        check_agreement({1: bf16(0.0003, 0.9995), 2: bf16(0.0041, 0.9504)}, fp32=False)
    with pytest.raises(CheckFailed, match=r"^step 1: rollout and training differ by nan"):
        check_agreement({1: bf16(float("nan"), float("nan"))}, fp32=False)
    with pytest.raises(CheckFailed, match=r"verl logged no training/rollout_probs_diff_mean"):
        check_agreement({1: {"timing_s/step": 2.0}}, fp32=False)


def test_fp32_agrees_to_rounding() -> None:
    name = "actor/rollout_probs_diff_max"
    check_agreement({1: {name: 3e-6}, 2: {name: 1.2e-5}}, fp32=True)
    for data in ({name: 2e-4}, {}):
        with pytest.raises(CheckFailed, match=r"^step 1: actor/rollout_probs_diff_max is"):
            check_agreement({1: data}, fp32=True)
    with pytest.raises(CheckFailed, match=r"no step is logged"):
        check_agreement({0: {}}, fp32=True)


def test_a_training_that_ends_before_a_step_fails(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "raise SystemExit('error: no answers')"]
    with pytest.raises(CheckFailed, match=r"^the training ended with 1 before a step: error: no answers \(.*log\)$"):
        kill_after_a_step(words, tmp_path / "run", tmp_path / "log")


def test_the_first_steps_say_how_to_get_what_is_missing(scene_of: Callable[..., Scene]) -> None:
    with pytest.raises(CannotRun, match=r"missing: hf download Qwen/Qwen2.5-7B-Instruct --local-dir models/"):
        first_steps(scene_of("paper", gpus=8))
    scene = scene_of("nano")
    object.__setattr__(scene.settings, "responses", "no/such/responses.jsonl")
    with pytest.raises(CannotRun, match=r"^no/such/responses.jsonl is missing: make synthesize PROFILE=nano$"):
        first_steps(scene)


def test_a_plan_that_is_refused_fails_with_its_reason(
    scene_of: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(CheckFailed, match=r"^error: .*no-such-profile"):
        plan(replace(scene_of(), profile="no-such-profile"))


@pytest.mark.parametrize(("profile", "lane"), [("nano", "cpu"), ("paper", "gpu"), ("single", "gpu")])
def test_the_tiny_training_is_one_that_the_stage_takes(profile: str, lane: str) -> None:
    tiny = load_config("first_hour", []).tiny[lane]
    settings = read_settings(TrainSettings, load_config("train", [f"profile={profile}", *tiny]))
    assert settings.base_model == "checkpoints/nano-base"
    assert settings.platform == lane


def test_a_scene_without_a_gpu_is_of_nano(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    words = ["profile=paper", f"out_dir={tmp_path}"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    scene = read_scene(load_config("first_hour", words))
    assert (scene.gpus, scene.here.profile, scene.settings.profile) == (0, "nano", "paper")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    scene = read_scene(load_config("first_hour", words))
    assert (scene.gpus, scene.here.profile) == (8, "paper")
    assert scene.tiny[0] == "base_model=checkpoints/nano-base"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_hour_at_nano_scale(tmp_path: Path) -> None:
    """Every check that runs on a CPU, for real: a training, its SIGKILL, resuming, export, a question to the model."""
    words = [sys.executable, "-m", "experiments.first_hour", "profile=paper", f"out_dir={tmp_path / 'hour'}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last == "7 of 12 checks passed; 5 could not run here: gpus, kernels, sleep, serve, first-steps"
    report = (tmp_path / "hour" / "report.md").read_text()
    assert "killed after its first step" in report and "resuming after step 1 of 2" in report
    again = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0 and again.stdout.count("PASS before") == 7
