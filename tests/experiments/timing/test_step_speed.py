"""The timing of a step at toy size: both sides do the same."""

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from experiments.timing import step_sides
from experiments.timing import step_speed as speed
from rag_zeval.models.decoding import generate
from train.linear_decay import LinearDecayEngine
from train.verl_cpu.engine import CPUEngine

PARTS = ["rollouts", "old log-probabilities", "reference log-probabilities", "update", "step"]


def test_both_sides_of_the_real_thing_agree_and_exit_1_says_if_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = step_sides.measure_step(prompts=2, rollouts=2, new_tokens=96, pairs=1)
    assert not torch.distributed.is_initialized()  # nothing is left for other tests
    assert [part.name for part in step] == PARTS and all(part.equal for part in step)
    assert sum(part.pairs[0][0] for part in step[:-1]) == pytest.approx(step[-1].pairs[0][0])
    monkeypatch.setattr(step_sides, "measure_step", lambda **sizes: step)
    assert speed.main([]) == 0
    assert re.findall(r"^\| ([\w -]+) \|.*\| yes,", capsys.readouterr().out, re.M) == PARTS
    monkeypatch.setattr(step_sides, "measure_step", lambda **sizes: [replace(step[0], difference=0.5)])
    assert speed.main([]) == 1 and "NO, within 5e-01" in capsys.readouterr().out


def test_the_plain_engine_is_verls_but_for_what_a_cpu_needs() -> None:
    names = vars(CPUEngine).keys() - {"__module__", "__doc__"}
    ours = {
        name for name in names if getattr(step_sides.PaddedEngine, name) is not getattr(LinearDecayEngine, name, None)
    }
    kept = {"served", "get_per_tensor_param", "_merged_lora_per_tensor_param", "optimizer_step"}
    assert ours == kept | {"last", "_gradient_sync_context", "_skipped"}  # which only our `forward_step` looks at


prompts = st.lists(st.lists(st.integers(2, 7), min_size=1, max_size=6), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 8}
    return LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=4, initializer_range=0.3)).eval()


@settings(max_examples=25)
@given(prompts=prompts, limit=st.integers(6, 12), seed=st.integers(0, 2**40))
def test_plain_decoding_gives_what_ours_gives(model: Any, prompts: list[list[int]], limit: int, seed: int) -> None:
    sampling: Any = {"temperature": 1.0, "seeds": [seed + at for at in range(len(prompts))], "eos": [1], "pad": 0}
    plain, ours = (generator(model, prompts, limit, **sampling) for generator in (step_sides.decode_plainly, generate))
    assert [ids for ids, _ in plain] == [ids for ids, _ in ours]
    for (_, mine), (_, others) in zip(plain, ours, strict=True):
        assert mine == pytest.approx(others, abs=1e-4)
