"""Steps and disk that follow from the configuration alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from train.curriculum import Stage, read_stages
from train.model_shape import read_shape
from train.plan import count_steps, describe_steps, plan_disk
from train.verl_config import build


def config_of(batch: int = 32, rollouts: int = 8, wanted: int | None = None) -> Any:
    trainer = {"total_epochs": 1, "total_training_steps": wanted}
    verl = {"data": {"train_batch_size": batch}, "trainer": trainer, "actor_rollout_ref": {"rollout": {"n": rollouts}}}
    return OmegaConf.create({"verl": verl})


@pytest.mark.parametrize("profile", ["paper", "single"])
def test_the_papers_steps_and_switch(profile: str) -> None:
    config = load_config("train", [f"profile={profile}"])
    described = describe_steps(config, read_stages(config.stages, "stages"))
    assert described == "343 steps of 32 prompts x 8 rollouts: K=3 from step 1, K=4 from step 172"


@given(st.integers(1, 40), st.lists(st.integers(1, 200), min_size=1, max_size=3))
def test_a_stage_begins_in_the_step_that_has_its_first_row(batch: int, rows: list[int]) -> None:
    stages = [Stage(at + 2, count) for at, count in enumerate(rows)]
    order = [stage.k for stage in stages for _ in range(stage.rows or 0)]
    steps = [order[at : at + batch] for at in range(0, len(order), batch)]
    if len(order) < batch:
        with pytest.raises(InputError, match=f"{len(order)} training rows do not fill one step"):
            describe_steps(config_of(batch), stages)
        return
    said = describe_steps(config_of(batch), stages)
    assert said.startswith(f"{sum(len(step) == batch for step in steps)} steps of {batch} ")
    for stage in stages:
        first = next(at for at, step in enumerate(steps, 1) if stage.k in step)
        assert f"K={stage.k} from step {first}" in said.split(": ")[1].split(", ")


def test_more_steps_than_rows_are_refused() -> None:
    assert count_steps(config_of(wanted=3), 100) == 3
    with pytest.raises(InputError, match="total_training_steps=4: the rows are enough for 3 steps"):
        count_steps(config_of(wanted=4), 100)


DTYPE = "verl.actor_rollout_ref.actor.fsdp_config.model_dtype"
SAVED = "verl.actor_rollout_ref.actor.checkpoint.save_contents"


@pytest.mark.parametrize(
    ("words", "contents", "checkpoints", "export"),
    [
        ([], {"model": 4, "optimizer": 8, "hf_model": 4}, 3, 4),
        ([f"{SAVED}=[hf_model]"], {"hf_model": 4}, 3, 4),
        ([f"{DTYPE}=bf16"], {"model": 2, "optimizer": 4, "hf_model": 2}, 3, 2),
        (["verl.trainer.save_freq=200"], {"model": 4, "optimizer": 8, "hf_model": 4}, 2, 4),  # steps 200 and 343
        (["verl.trainer.max_actor_ckpt_to_keep=null"], {"model": 4, "optimizer": 8, "hf_model": 4}, 14, 4),
    ],
)
def test_disk_of_a_7b_by_bytes_a_parameter(
    words: list[str], contents: dict[str, int], checkpoints: int, export: int
) -> None:
    shape, _ = read_shape("Qwen2.5-7B-Instruct")
    assert shape is not None
    disk = plan_disk(shape, build(load_config("train", ["profile=paper", *words]).verl, {}), 343)
    assert disk.contents == {name: float(size * 7_615_616_512) for name, size in contents.items()}
    assert (disk.checkpoints, disk.export) == (checkpoints, float(export * 7_615_616_512))
    assert disk.checkpoint == sum(contents.values()) * 7_615_616_512


def test_without_a_number_of_steps_the_checkpoints_kept_are_known_all_the_same() -> None:
    shape, _ = read_shape("Qwen2.5-1.5B-Instruct")
    assert shape is not None
    verl = build(load_config("train", ["profile=single"]).verl, {})
    disk = plan_disk(shape, verl, None)
    assert disk.checkpoints == 3 and disk.contents == {"model": 36_929_536 * 4, "optimizer": 36_929_536 * 8}
    assert disk.export == 1_543_714_304 * 4
    verl.trainer.max_actor_ckpt_to_keep = None
    assert plan_disk(shape, verl, None).checkpoints is None
