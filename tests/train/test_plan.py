"""Steps and disk that follow from the configuration alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from train.model_shape import Shape, read_shape
from train.plan import count_steps, describe_steps, plan_disk
from train.settings import Stage
from train.verl_config import build


def verl_of(batch: int = 32, wanted: int | None = None) -> Any:
    trainer = {"total_epochs": 1, "total_training_steps": wanted}
    verl = {"data": {"train_batch_size": batch}, "trainer": trainer, "actor_rollout_ref": {"rollout": {"n": 8}}}
    return OmegaConf.create(verl)


@given(st.integers(1, 40), st.lists(st.integers(1, 200), min_size=1, max_size=3))
def test_a_stage_begins_in_the_step_that_has_its_first_row(batch: int, rows: list[int]) -> None:
    stages = [Stage(at + 2, count) for at, count in enumerate(rows)]
    order = [stage.k for stage in stages for _ in range(stage.rows or 0)]
    steps = [order[at : at + batch] for at in range(0, len(order), batch)]
    if len(order) < batch:
        with pytest.raises(InputError, match=f"{len(order)} training rows do not fill one step"):
            describe_steps(verl_of(batch), stages)
        return
    said = describe_steps(verl_of(batch), stages)
    assert said.startswith(f"{sum(len(step) == batch for step in steps)} steps of {batch} ")
    for stage in stages:
        first = next(at for at, step in enumerate(steps, 1) if stage.k in step)
        assert f"K={stage.k} from step {first}" in said.split(": ")[1].split(", ")


def test_more_steps_than_rows_are_refused() -> None:
    assert count_steps(verl_of(wanted=3), 100) == 3
    with pytest.raises(InputError, match="total_training_steps=4: the rows are enough for 3 steps"):
        count_steps(verl_of(wanted=4), 100)


DTYPE = "verl.actor_rollout_ref.actor.fsdp_config.model_dtype"
SAVED = "verl.actor_rollout_ref.actor.checkpoint.save_contents"


@pytest.mark.parametrize(
    ("words", "contents", "checkpoints", "best"),
    [
        ([], {"model": 4, "optimizer": 8, "hf_model": 4}, 3, 4),
        ([f"{SAVED}=[hf_model]"], {"hf_model": 4}, 3, 4),
        ([f"{DTYPE}=bf16"], {"model": 2, "optimizer": 4, "hf_model": 2}, 3, 2),
        (["verl.trainer.save_freq=200"], {"model": 4, "optimizer": 8, "hf_model": 4}, 2, 4),  # steps 200 and 343
        (["verl.trainer.max_actor_ckpt_to_keep=null"], {"model": 4, "optimizer": 8, "hf_model": 4}, 14, 0),
    ],
)
def test_disk_of_a_7b_by_bytes_a_parameter(
    words: list[str], contents: dict[str, int], checkpoints: int, best: int
) -> None:
    """The model is as large as a checkpoint's weights; those of the best step stand beside, if not all are kept."""
    shape, verl = planned("7B", "profile=paper", *words)
    last, kept = (plan_disk(shape, verl, 343, export) for export in ("last", "best"))
    assert last.contents == {name: float(size * 7_615_616_512) for name, size in contents.items()}
    assert (last.checkpoints, last.export) == (checkpoints, float(contents["hf_model"] * 7_615_616_512))
    assert last.checkpoint == sum(contents.values()) * 7_615_616_512 and last.best == 0
    assert kept.best == best * 7_615_616_512 and last.total is not None and kept.total == last.total + kept.best


def test_without_a_number_of_steps_the_checkpoints_kept_are_known_all_the_same() -> None:
    shape, verl = planned("1.5B", "profile=single")
    disk = plan_disk(shape, verl, None, "best")
    adapter = {"model": 36_929_536 * 4, "optimizer": 36_929_536 * 8}
    assert (disk.checkpoints, disk.contents, disk.best) == (3, adapter, adapter["model"])
    assert disk.export == 1_543_714_304 * 4
    verl.trainer.max_actor_ckpt_to_keep = None
    assert plan_disk(shape, verl, None).checkpoints is None


def planned(size: str, *words: str) -> tuple[Shape, Any]:
    shape, _ = read_shape(f"Qwen2.5-{size}-Instruct")
    assert shape is not None
    return shape, build(load_config("train", words).verl, {})
