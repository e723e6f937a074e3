from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from verl.workers.engine import EngineRegistry

from train.linear_decay import LinearDecayConfig, LinearDecayEngine
from train.verl_cpu.engine import CPUEngine


@pytest.mark.parametrize(("steps", "warmup", "ratio", "ramp"), [(343, 10, 0.0, 10), (20, -1, 0.25, 5), (5, -1, 0.0, 0)])
def test_the_rate_rises_and_falls_in_straight_lines(steps: int, warmup: int, ratio: float, ramp: int) -> None:
    config = LinearDecayConfig(
        lr=1e-3,
        lr_scheduler_type="linear",
        lr_warmup_steps=warmup,
        lr_warmup_steps_ratio=ratio,
        total_training_steps=steps,
    )
    optimizer = torch.optim.AdamW([torch.zeros(1, requires_grad=True)], lr=config.lr)
    engine = SimpleNamespace(optimizer_config=config, rank=0)
    scheduler = LinearDecayEngine._build_lr_scheduler(engine, optimizer)
    for step in range(steps):
        expected = 1e-3 * (step / ramp if step < ramp else (steps - step) / (steps - ramp))
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected, rel=1e-9, abs=1e-15)
        optimizer.step()
        scheduler.step()


def test_verls_own_schedules_still_work_and_unknown_ones_are_refused() -> None:
    assert LinearDecayConfig(lr=1e-3, lr_scheduler_type="cosine").lr_scheduler_type == "cosine"
    with pytest.raises(AssertionError):
        LinearDecayConfig(lr=1e-3, lr_scheduler_type="triangular")


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_verl_chooses_our_engine(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERL_ENGINE_DEVICE", device)
    monkeypatch.setenv("VERL_ENGINE_VENDOR", "nvidia" if device == "cuda" else "cpu")
    expected = {"cuda": LinearDecayEngine, "cpu": CPUEngine}
    assert EngineRegistry.get_engine_cls("language_model", "fsdp2") is expected[device]
