from __future__ import annotations

from math import nan

import pytest
from omegaconf import OmegaConf

from rag_zeval.stages.config import load_config
from train.rollouts.agreement import CORRELATION, LIMITS, MEAN, Agreement, precision
from train.settings import TrainSettings, read_settings
from train.verl_config import build

EXACT = [
    "verl.actor_rollout_ref.rollout.dtype=float32",
    "verl.actor_rollout_ref.actor.fsdp_config.mixed_precision={param_dtype: fp32}",
    "verl.actor_rollout_ref.ref.fsdp_config.mixed_precision={param_dtype: fp32}",
]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["profile=paper"], "bf16"),
        (["profile=single"], "bf16"),
        (["profile=nano"], "fp32"),
        (["profile=paper", *EXACT], "fp32"),
        (["profile=paper", EXACT[0]], "bf16"),
    ],
)
def test_precision_is_the_coarser_of_rollout_and_training(words: list[str], expected: str) -> None:
    settings = read_settings(TrainSettings, load_config("train", words))
    assert precision(build(settings.verl, {})) == expected


@pytest.mark.parametrize("dtypes", LIMITS)
def test_a_run_is_warned_about_once(dtypes: str) -> None:
    half = {"rollout": {"dtype": "bfloat16" if dtypes == "bf16" else "float32"}}
    exact = {"actor": {"fsdp_config": {"mixed_precision": {"param_dtype": "fp32"}}}}
    watched, limits = Agreement(OmegaConf.create({"actor_rollout_ref": half | exact})), LIMITS[dtypes]
    for healthy in ({}, {"train/loss": 9.0}, {MEAN: limits.mean, CORRELATION: limits.correlation}):
        assert watched.step(1, healthy) is None
    warning = watched.step(7, {MEAN: 2 * limits.mean, CORRELATION: 1.0})
    assert warning and "step 7" in warning and dtypes in warning and "\n" not in warning
    assert watched.step(8, {MEAN: nan, CORRELATION: nan}) is None


@pytest.mark.parametrize("data", [{MEAN: 0.0, CORRELATION: 0.5}, {MEAN: nan, CORRELATION: 1.0}])
def test_either_measure_is_enough(data: dict[str, float]) -> None:
    assert Agreement(OmegaConf.create({})).step(1, data)
