"""The engines of an update: what rows share is computed once, the rate falls linearly, freed memory is given back."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM
from verl.utils import tensordict_utils as tu
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.utils.padding import response_from_nested

from train import freed_memory
from train.linear_decay import LinearDecayConfig, LinearDecayEngine
from train.verl_cpu.engine import CPUEngine
from train.verl_cpu.shared_prefix import ATTENTION, attend, pack

Rows = list[tuple[list[int], list[int]]]  # (prompt, response), neither empty
tokens = st.lists(st.integers(3, 5), min_size=1, max_size=9)  # so few that rows share what they begin with


@st.composite
def rollouts(draw: st.DrawFn) -> Rows:
    """Prompts, some with several responses, in any order."""
    groups = draw(st.lists(st.tuples(tokens, st.lists(tokens, min_size=1, max_size=4)), min_size=1, max_size=3))
    return draw(st.permutations([(prompt, response) for prompt, responses in groups for response in responses]))


@given(st.lists(tokens, min_size=1, max_size=8))
def test_each_row_finds_its_own_tokens_at_their_positions(rows: list[list[int]]) -> None:
    packed = pack(rows)
    own = torch.split(packed.places, [len(row) for row in rows])
    for row, places in zip(rows, own, strict=True):
        assert packed.input_ids[0, places].tolist() == row
        assert packed.position_ids[0, places].tolist() == list(range(len(row)))
    prefixes = {tuple(row[: n + 1]) for row in rows for n in range(len(row))}
    assert packed.input_ids.shape == packed.position_ids.shape == (1, len(prefixes))  # each computed once
    assert sum(packed.new) == len(prefixes)
    paths, stop = [places.tolist() for places in own], 0
    for new, path in zip(packed.new, packed.paths.split(packed.seen), strict=True):
        stop += new
        assert path.tolist()[-new:] == list(range(stop - new, stop))
        assert any(places[: len(path)] == path.tolist() for places in paths)  # it sees a row from its beginning


def tiny_llama() -> Any:
    """Four heads over two key-value heads, weights large enough for a wrong key to show."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 8}
    config = LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2, initializer_range=0.3)
    return LlamaForCausalLM(config)


def micro_batch(rows: Rows, **more: Any) -> Any:
    def nested(values: list[list[int]]) -> torch.Tensor:
        return torch.nested.as_nested_tensor([torch.tensor(v) for v in values], layout=torch.jagged)

    whole = [prompt + response for prompt, response in rows]
    columns = {
        "input_ids": nested(whole),
        "position_ids": nested([list(range(len(row))) for row in whole]),
        "response_mask": nested([[1] * len(response) for _, response in rows]),
    }
    settings = {"temperature": 0.7, "use_remove_padding": False, "calculate_entropy": True, **more}
    return tu.get_tensordict(columns, non_tensor_dict=settings)


def engine(kind: type, module: Any) -> Any:
    """An engine around a module, without verl's process groups and sharding."""
    made = kind.__new__(kind)
    made.module, made._autocast_dtype, made.pad_to_length = module, torch.float32, False
    made.engine_config = SimpleNamespace(entropy_checkpointing=False)
    made.get_data_parallel_group = lambda: None
    return made


def outputs_and_gradients(
    kind: type, attention: str, module: Any, rows: Rows
) -> tuple[dict[str, list[torch.Tensor]], dict[str, torch.Tensor]]:
    """log_probs and entropy of the responses, and the gradients of a sum in which no two of them weigh the same."""
    module.set_attn_implementation(attention)
    module.zero_grad()
    found: dict[str, list[torch.Tensor]] = {}

    def loss(model_output: dict[str, torch.Tensor], data: Any, dp_group: Any) -> tuple[torch.Tensor, dict[str, float]]:
        total = torch.zeros(())
        for name, values in model_output.items():
            found[name] = list(response_from_nested(values, data["response_mask"]).unbind())
            flat = torch.cat(found[name])
            total = total + (flat * torch.linspace(-1, 2, len(flat))).sum()
        return total, {}

    value, _ = engine(kind, module).forward_step(micro_batch(rows), loss, forward_only=False)
    value.backward()
    return found, {name: p.grad.clone() for name, p in module.named_parameters()}


@settings(max_examples=25)
@given(rollouts())
def test_outputs_and_gradients_are_those_of_verls_padded_rows(rows: Rows) -> None:
    """`test_step_speed` holds the same of the shipped base."""
    module, tolerance = tiny_llama(), 1e-4
    expected, slopes = outputs_and_gradients(FSDPEngineWithLMHead, "sdpa", module, rows)
    found, own_slopes = outputs_and_gradients(CPUEngine, ATTENTION, module, rows)
    assert found.keys() == expected.keys() == {"log_probs", "entropy"}
    for name in expected:
        for ours, padded, (_, response) in zip(found[name], expected[name], rows, strict=True):
            assert len(ours) == len(response)
            torch.testing.assert_close(ours, padded, atol=tolerance, rtol=tolerance)
    for name, slope in slopes.items():
        scale = float(slope.abs().max())
        torch.testing.assert_close(own_slopes[name], slope, atol=tolerance * (1 + scale), rtol=0)


def test_only_what_a_loss_looks_at_is_computed() -> None:
    rows: Rows = [([3, 4, 6], [5, 3]), ([3, 4], [5, 4, 4])]
    module = tiny_llama()
    of_rollouts, _ = outputs_and_gradients(CPUEngine, ATTENTION, module, rows)
    taught = micro_batch(rows)
    del taught["response_mask"]
    mask = [torch.tensor([0] * len(prompt) + [1] * len(response)) for prompt, response in rows]
    taught["loss_mask"] = torch.nested.as_nested_tensor(mask, layout=torch.jagged)
    found: dict[str, Any] = {}

    def loss(model_output: dict[str, torch.Tensor], data: Any, dp_group: Any) -> tuple[torch.Tensor, dict[str, float]]:
        found.update(model_output)
        return torch.zeros(()), {}

    engine(CPUEngine, module).forward_step(taught, loss, forward_only=True)
    for name, values in of_rollouts.items():
        for (prompt, response), row, expected in zip(rows, found[name].unbind(), values, strict=True):
            looked_at = slice(len(prompt) - 1, len(prompt) + len(response) - 1)
            torch.testing.assert_close(row[looked_at], expected)
            assert not row[: looked_at.start].any() and not row[-1]


@settings(max_examples=20, deadline=None)
@given(rows=st.lists(tokens, min_size=1, max_size=4), seed=st.integers(0, 99))
def test_attention_in_bfloat16_is_that_in_float32(rows: list[list[int]], seed: int) -> None:
    packed, draw = pack(rows), torch.Generator().manual_seed(seed)
    shapes = [(1, heads, packed.input_ids.shape[1], 8) for heads in (4, 2, 2)]
    rounded = [torch.randn(shape, generator=draw).bfloat16() for shape in shapes]

    def attended(dtype: torch.dtype) -> list[torch.Tensor]:
        states = [one.to(dtype).requires_grad_() for one in rounded]
        out, _ = attend(torch.nn.Identity(), *states, None, 8**-0.5, packed_rows=packed)
        return [out, *torch.autograd.grad(out.square().sum(), states)]

    for ours, exact in zip(attended(torch.bfloat16), attended(torch.float32), strict=True):
        torch.testing.assert_close(ours.float(), exact, atol=0.1, rtol=0.05)


def test_denormal_numbers_count_as_zero_only_while_the_engine_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    def denormal(*args: Any) -> float:
        return (torch.full((64,), 1e-39) * 0.5).max().item()

    monkeypatch.setattr(FSDPEngineWithLMHead, "forward_backward_batch", denormal)
    assert engine(CPUEngine, tiny_llama()).forward_backward_batch() == 0 < denormal()


def test_a_sliding_window_is_refused() -> None:
    states = torch.zeros(1, 1, 1, 2)
    with pytest.raises(NotImplementedError, match="sliding window"):
        attend(torch.nn.Identity(), states, states, states, None, 1.0, packed_rows=None, sliding_window=8)  # type: ignore[arg-type]


def test_the_update_says_how_far_the_rollouts_are_from_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FSDPEngineWithLMHead, "get_per_tensor_param", lambda self, **kwargs: ((), None))
    monkeypatch.setattr(FSDPEngineWithLMHead, "optimizer_step", lambda self: 1.0)
    rows = [([3, 4], [5, 3]), ([3, 4], [5, 4, 4])]
    module = tiny_llama()
    own, _ = outputs_and_gradients(CPUEngine, ATTENTION, module, rows)
    updating = engine(CPUEngine, module)

    def metrics(rollout_log_probs: list[torch.Tensor] | None) -> dict[str, float]:
        batch = micro_batch(rows)
        if rollout_log_probs is not None:
            batch["rollout_log_probs"] = torch.nested.as_nested_tensor(rollout_log_probs, layout=torch.jagged)
        batch["response_mask"].values()[-1] = 0
        _, output = updating.forward_step(batch, lambda **given: (torch.zeros(()), {}), forward_only=False)
        return dict(output["metrics"])

    name = "rollout_probs_diff_max"
    same = [values.detach() for values in own["log_probs"]]
    apart = [same[0], torch.log(same[1].exp() + torch.tensor([0.0, 0.125, 0.25]))]  # the last one is masked
    assert name not in metrics(same)  # not known whose rollouts these are
    updating.get_per_tensor_param()
    assert metrics(same)[name] < 1e-6 and metrics(apart)[name] == pytest.approx(0.125, abs=1e-6)
    assert name not in metrics(None)  # verl's rollout.calculate_log_probs is off
    updating.optimizer_step()
    assert name not in metrics(apart)


def test_a_micro_batch_that_teaches_nothing_is_computed_only_if_it_is_the_last_one() -> None:
    rows = [([3, 4], [5, 3]), ([3, 4], [5, 4, 4])]
    module = tiny_llama()
    module.set_attn_implementation(ATTENTION)
    computed: list[bool] = []
    module.register_forward_pre_hook(lambda *_: computed.append(True))
    updating = engine(CPUEngine, module)

    def forward(advantage: float, last: bool, **columns: torch.Tensor) -> list[torch.Tensor]:
        """Runs one whose last rollout has this advantage; the log-probabilities that the loss is given."""
        before = [torch.tensor([-0.5, -1.0]), torch.tensor([-2.0, -0.25, -3.0])]
        advantages = [torch.zeros(2), torch.tensor([0.0, 0.0, advantage])]
        batch = micro_batch(rows, calculate_entropy=False)
        for name, values in {"old_log_probs": before, "advantages": advantages}.items():
            batch[name] = torch.nested.as_nested_tensor(values, layout=torch.jagged)
        batch.update(columns)
        seen: list[torch.Tensor] = []

        def loss(model_output: Any, data: Any, dp_group: Any) -> tuple[torch.Tensor, dict[str, float]]:
            seen.extend(response_from_nested(model_output["log_probs"], data["response_mask"]).unbind())
            return (torch.cat(seen) * data["advantages"].values()).sum(), {"seen": 1.0}

        updating.last = last
        value, output = updating.forward_step(batch, loss, forward_only=False)
        value.backward()
        assert output["metrics"] == {"seen": 1.0}
        if not computed:
            torch.testing.assert_close(seen, before)
            assert value == 0 and all(p.grad is None for p in module.parameters())
        return seen

    forward(0.0, last=False)
    assert not computed
    for advantage, last, columns in ((0.0, True, {}), (1.0, False, {}), (0.0, False, {"ref_log_prob": torch.zeros(2)})):
        computed.clear()
        forward(advantage, last, **columns)
        assert computed == [True]


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


# small blocks in between keep the heap from shrinking at its end
PROGRAM = """
import psutil, sys, torch
from train.freed_memory import give_back_if_short
from verl.utils.device import get_torch_device
blocks = [torch.ones(size) for _ in range(200) for size in (262_144, 16)]
kept = blocks[1::2]
del blocks
process = psutil.Process()
freed = process.memory_info().rss
room = sys.argv[1]
get_torch_device().empty_cache() if room == "always" else give_back_if_short(int(room))  # as verl calls the first
print((freed - process.memory_info().rss) >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
@pytest.mark.parametrize("room, given_back", [("always", True), (f"{2**62}", True), ("0", False)])
def test_freed_memory_goes_back_to_the_system(repository: Path, room: str, given_back: bool) -> None:
    platform = {"VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": "train.verl_cpu"}
    env = {**os.environ, **platform, "GLIBC_TUNABLES": freed_memory.KEEP, "OMP_NUM_THREADS": "1"}
    program = [sys.executable, "-c", PROGRAM, room]
    done = subprocess.run(program, cwd=repository, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (int(done.stdout.split()[-1]) > 150) == given_back  # MiB, of 200
