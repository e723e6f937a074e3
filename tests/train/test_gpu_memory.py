"""The memory estimate: against hand-made sums, the hardware that verl says is needed, and what cannot fit."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from train.gpu_memory import GIB, OUTSIDE, Moments, Setup, memory_needs, misfit, read_setup
from train.model_shape import Shape, read_shape, shape_of
from train.verl_config import build

TINY = shape_of(
    {"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "vocab_size": 10,
     "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4}, "",
)  # fmt: skip
ACTOR, FSDP = "verl.actor_rollout_ref.actor", "verl.actor_rollout_ref.actor.fsdp_config"
ROLLOUT, MODEL = "verl.actor_rollout_ref.rollout", "verl.actor_rollout_ref.model"
OFFLOAD = [f"{FSDP}.param_offload=true", f"{FSDP}.optimizer_offload=true"]
SMALL = ["verl.data.train_batch_size=2", f"{ROLLOUT}.n=2", "verl.trainer.n_gpus_per_node=2",
         "verl.data.max_prompt_length=30", "verl.data.max_response_length=70",
         f"{ACTOR}.ppo_max_token_len_per_gpu=100"]  # fmt: skip
COMPOSED = build(load_config("train", ["profile=paper"]).verl, {})  # the property below alone sets its keys
LENGTHS = ["verl.data.max_prompt_length=512", "verl.data.max_response_length=1024", f"{ROLLOUT}.max_model_len=1536"]


def setup_of(*words: str, profile: str = "paper") -> Setup:
    return read_setup(build(load_config("train", [f"profile={profile}", *words]).verl, {}))


def qwen(size: str) -> Shape:
    shape, _ = read_shape(f"Qwen2.5-{size}-Instruct")
    assert shape is not None
    return shape


def tiny_needs(*words: str) -> Moments:
    """Without the parts that are 0."""
    needs = memory_needs(TINY, setup_of(*SMALL, *words), 1000)
    return {moment: {name: size for name, size in parts.items() if size} for moment, parts in needs.items()}


def test_a_tiny_shape_by_hand() -> None:
    """h=8, i=12, 2 layers, 2 heads of 4 over 1: q 64, k 32, v 32, o 64, MLP 3 x 96, norms 16: 496 a layer.

    With embedding and head of 80 each and the last norm: 2 x 496 + 8 + 160 = 1160 parameters, over 2 GPUs; 100 tokens.
    """
    assert (TINY.layer, TINY.parameters) == (496, 1160)
    needs = tiny_needs()
    states = {"weights": 2320, "gradients": 2320, "states": 4640}  # 1160 x 4 / 2
    vllm = {"vLLM weights": 2320, "KV cache": 600 * GIB - 2320}
    assert needs["rollout"] == {"weights": 2320, "states": 4640, **vllm, "CUDA": OUTSIDE}
    assert needs["optimizer"] == {**states, "states": 6960, "CUDA": OUTSIDE}
    assert needs["update"] == {
        **states,
        "gathered": 2 * (160 + 3 * 496) + 4 * (80 + 496),
        # inputs of 2 layers, one computed again (10 x 8 + 2 x 4 + 4 x 12 = 136 numbers a token), 3 x 12 more at work
        "activations": 2 * (2 * 8 + 136 + 36) * 100,
        "logits": 2 * 10 * 100,
        "CUDA": OUTSIDE,
    }
    way = 2 * GIB + 4 * 80
    assert needs["sync"] == {
        "weights": 2320, "states": 4640, "vLLM weights": 2320, "on their way": way, "CUDA": OUTSIDE
    }  # fmt: skip


def test_a_tiny_adapter_by_hand() -> None:
    """Rank 2: q 2 x 16, k 2 x 12, v 2 x 12, o 2 x 16, MLP 3 x 2 x 20 in each of 2 layers: 464 trained parameters."""
    needs = tiny_needs(f"{MODEL}.lora_rank=2")
    assert needs["rollout"]["weights"] == (1160 + 464) * 2 and needs["rollout"]["states"] == 464 * 4
    assert needs["update"]["gradients"] == 464 * 2 and needs["sync"]["on their way"] == 2 * GIB
    assert not setup_of(f"{MODEL}.lora_rank=2").reference and setup_of().reference


def test_what_is_offloaded_is_on_the_gpu_only_when_it_works() -> None:
    needs = tiny_needs(*OFFLOAD)
    for moment, there in (("rollout", False), ("update", True), ("optimizer", True), ("sync", False)):
        assert ({"weights", "states"} <= needs[moment].keys()) == there
    assert "weights" in tiny_needs(*OFFLOAD, f"{MODEL}.lora_rank=2")["sync"]
    policy = tiny_needs(f"{FSDP}.offload_policy=true")
    assert not any({"weights", "gradients", "states"} & parts.keys() for parts in policy.values())
    awake = tiny_needs(f"{ROLLOUT}.free_cache_engine=false")
    assert all({"vLLM weights", "KV cache"} <= parts.keys() for parts in awake.values())


@pytest.mark.parametrize(
    ("words", "moment", "part", "times"),
    [
        ([f"{ROLLOUT}.temperature=0.7"], "update", "logits", 3),  # divided into a second tensor, and its gradient
        ([f"{MODEL}.use_fused_kernels=true"], "update", "logits", 0),
        ([f"{FSDP}.use_torch_compile=false"], "update", "logits", 3),  # the entropy's softmax and product
        ([f"{FSDP}.model_dtype=bf16"], "rollout", "weights", 0.5),
        ([f"{FSDP}.fsdp_size=1"], "rollout", "weights", 2),
        ([f"{MODEL}.enable_gradient_checkpointing=false"], "update", "activations", (2 * 136 + 36) / (16 + 136 + 36)),
        ([f"{MODEL}.enable_activation_offload=true"], "update", "activations", (136 + 36) / (16 + 136 + 36)),
    ],
)
def test_a_setting_changes_its_part(words: list[str], moment: str, part: str, times: float) -> None:
    assert tiny_needs(*words)[moment].get(part, 0) == pytest.approx(times * tiny_needs()[moment][part])


@pytest.mark.parametrize(
    ("size", "gpus", "words", "fits"),
    [  # verl's examples/tuning, on GPUs of 80 GB
        ("7B", 2, [*OFFLOAD, *LENGTHS, f"{ROLLOUT}.gpu_memory_utilization=0.5"], True),
        ("7B", 1, [*OFFLOAD, *LENGTHS, f"{ROLLOUT}.gpu_memory_utilization=0.5"], False),
        ("7B", 1, [*OFFLOAD, *LENGTHS, f"{ROLLOUT}.gpu_memory_utilization=0.2", f"{MODEL}.lora_rank=32"], True),
        ("1.5B", 1, [f"{ROLLOUT}.gpu_memory_utilization=0.4", "verl.data.max_prompt_length=1024"], True),
    ],
)
def test_it_agrees_with_the_hardware_that_verl_says_is_needed(
    size: str, gpus: int, words: list[str], fits: bool
) -> None:
    assert (misfit(qwen(size), setup_of(*words, f"verl.trainer.n_gpus_per_node={gpus}"), 80) is None) == fits


@pytest.mark.parametrize(
    ("profile", "size", "gpu_gib", "message"),
    [
        ("paper", "7B", 80, None),
        ("single", "1.5B", 24, None),
        ("paper", "7B", 24, "gpu_memory_gib=24: 'update' needs 35.3 GiB on each GPU .activations 8.2"),
        ("single", "7B", 24, "gpu_memory_gib=24: 'update' needs 4[78].. GiB on each GPU .weights 28.7"),
    ],
)
def test_what_cannot_fit_is_one_line(profile: str, size: str, gpu_gib: float, message: str | None) -> None:
    said = misfit(qwen(size), setup_of(profile=profile), gpu_gib)
    assert said is None if message is None else said is not None and re.match(message, said) and "\n" not in said


def test_a_cache_without_room_for_one_row_is_said() -> None:
    said = misfit(qwen("1.5B"), setup_of(f"{ROLLOUT}.gpu_memory_utilization=0.13", profile="single"), 24)
    assert said is not None and "room for 6584 tokens, less than one row of " in said and "max_model_len=16384" in said


def test_a_dtype_of_unknown_size_is_refused() -> None:
    with pytest.raises(InputError, match=r"rollout\.dtype=auto: there is fp32"):
        setup_of(f"{ROLLOUT}.dtype=auto")


@given(st.integers(1, 16), st.integers(100, 20_000), st.sampled_from([0, 8]), st.integers(1, 64), st.booleans())
def test_more_gpus_shorter_rows_and_offload_never_need_more(
    gpus: int, longest: int, rank: int, batch: int, offload: bool
) -> None:
    def needs(gpus: int, longest: int, offload: bool) -> dict[str, float]:
        verl, actor = COMPOSED, COMPOSED.actor_rollout_ref.actor
        verl.trainer.n_gpus_per_node, verl.data.train_batch_size = gpus, batch
        verl.data.max_prompt_length = actor.ppo_max_token_len_per_gpu = longest
        verl.actor_rollout_ref.model.lora_rank = rank
        actor.fsdp_config.param_offload = actor.fsdp_config.optimizer_offload = offload
        return {moment: sum(parts.values()) for moment, parts in memory_needs(TINY, read_setup(verl), 80).items()}

    before = needs(gpus, longest, offload)
    for after in (needs(gpus + 1, longest, offload), needs(gpus, longest // 2, offload), needs(gpus, longest, True)):
        assert all(after[moment] <= before[moment] for moment in before)
