"""The timing of a step at toy size: both sides do the same, and what is compared can differ."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from experiments.timing import pairs
from experiments.timing import step_speed as speed
from train.linear_decay import LinearDecayEngine
from train.verl_cpu.engine import CPUEngine

PARTS = ["rollouts", "old log-probabilities", "reference log-probabilities", "update"]


def test_both_sides_of_the_real_thing_agree_and_the_table_shows_every_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pairs, "SUMMARY", tmp_path / "summary.json")
    assert speed.main("--prompts 2 --rollouts 2 --new-tokens 96 --pairs 1".split()) == 0
    assert not torch.distributed.is_initialized()  # nothing is left for other tests
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*PARTS, "step", "plain", "ours", "ratio", "after sharing"))
    assert "NO, within" not in shown
    [step] = json.loads((tmp_path / "summary.json").read_text())
    assert step["equal"] and [part["name"] for part in step["parts"]] == PARTS
    for part in step["parts"]:
        assert part["equal"] and part["difference"] <= 1e-4, part
        assert part["theirs_s"] > 0
        assert part["ratio"] is None if part["name"] == PARTS[1] else part["ratio"] > 0
    for side in ("ours_s", "theirs_s"):
        assert step[side] == pytest.approx(sum(part[side] for part in step["parts"]))
    assert step["ratio"] == pytest.approx(step["theirs_s"] / step["ours_s"])
    monkeypatch.setattr(speed, "measure_step", lambda **sizes: {**step, "equal": False})
    assert speed.main([]) == 1 and "NO, within" in capsys.readouterr().out
    last = json.loads((tmp_path / "summary.json").read_text())[-1]
    assert last == {**step, "equal": False}


def test_the_plain_engine_is_verls_but_for_what_a_cpu_needs() -> None:
    padded, left = speed.padded_engine(), set()
    for name in vars(CPUEngine).keys() - {"__module__", "__doc__"}:
        if getattr(padded, name) is not getattr(LinearDecayEngine, name, None):
            left.add(name)
    assert left == {
        "served",
        "get_per_tensor_param",
        "_merged_lora_per_tensor_param",
        "optimizer_step",
    }


prompts = st.lists(st.lists(st.integers(2, 7), min_size=1, max_size=6), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 8}
    return LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=4, initializer_range=0.3)).eval()


@settings(max_examples=25)
@given(prompts=prompts, limit=st.integers(6, 12), seed=st.integers(0, 2**40))
def test_plain_decoding_gives_what_ours_gives(model: Any, prompts: list[list[int]], limit: int, seed: int) -> None:
    seeds = [seed + at for at in range(len(prompts))]
    task = speed.Task(model, prompts, seeds, [], limit, eos=[1], pad=0)
    plain, ours = task.decode_token_by_token(), task.decode_with_drafts()
    assert [ids for ids, _ in plain] == [ids for ids, _ in ours]
    for (_, mine), (_, others) in zip(plain, ours, strict=True):
        assert mine == pytest.approx(others, abs=1e-4)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 4), st.integers(0, 2**40))
def test_a_draw_is_as_far_from_a_token_as_from_its_share(first: int, second: int, at: int, seed: int) -> None:
    model = lambda ids: SimpleNamespace(logits=torch.zeros(*ids.shape, 10))  # noqa: E731 (ten tokens, all alike)
    task = speed.Task(model, [[3], [4]], [seed, 0], [1.0, 1.0], new_tokens=5, eos=[], pad=0)
    rollouts = [[([5] * at + [token] + [6] * (4 - at), []), ([7], [])] for token in (first, second)]
    draw = float(torch.rand(5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)[at])
    outside = [max(token / 10 - draw, draw - (token + 1) / 10, 0) for token in (first, second)]
    expected = 0 if first == second else max(outside)
    assert task.farthest_draw(*rollouts) == pytest.approx(expected, abs=1e-6)
    cut_off = [(ids[:-1], logprobs) for ids, logprobs in rollouts[0]]
    assert task.farthest_draw(rollouts[0], cut_off) == 1
