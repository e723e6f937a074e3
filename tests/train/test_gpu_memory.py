"""The memory plan: against hand-made sums, what torch allocates, and what is known of real runs."""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from train.gpu_memory import (
    GIB,
    OUTSIDE,
    PHASES,
    Part,
    Setup,
    cache_tokens,
    engine_bytes,
    memory_parts,
    misfit,
    read_setup,
    total,
)
from train.model_shape import Shape, read_shape, shape_of
from train.verl_config import build

TINY = shape_of(
    {"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "vocab_size": 10,
     "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4}, "",
)  # fmt: skip
ACTOR, FSDP = "verl.actor_rollout_ref.actor", "verl.actor_rollout_ref.actor.fsdp_config"
ROLLOUT, MODEL = "verl.actor_rollout_ref.rollout", "verl.actor_rollout_ref.model"
OFFLOAD = [f"{FSDP}.param_offload=true", f"{FSDP}.optimizer_offload=true"]


def setup_of(*words: str, profile: str = "paper") -> Setup:
    return read_setup(build(load_config("train", [f"profile={profile}", *words]).verl, {}))


def qwen(size: str) -> Shape:
    shape, _ = read_shape(f"Qwen2.5-{size}-Instruct")
    assert shape is not None
    return shape


def by_name(parts: list[Part]) -> dict[str, dict[str, float]]:
    return {part.name: {phase: size for phase, size in part.bytes.items() if size} for part in parts}


SMALL = ["verl.data.train_batch_size=2", f"{ROLLOUT}.n=2", "verl.trainer.n_gpus_per_node=2",
         "verl.data.max_prompt_length=30", "verl.data.max_response_length=70",
         f"{ACTOR}.ppo_max_token_len_per_gpu=100"]  # fmt: skip


def test_a_tiny_shape_by_hand() -> None:
    """h=8, i=12, 2 layers, 2 heads of 4 over 1: q 64, k 32, v 32, o 64, MLP 3 x 96, norms 16: 496 a layer.

    With embedding and head of 80 each and the last norm: 2 x 496 + 8 + 160 = 1160 parameters, over 2 GPUs; 100 tokens.
    """
    assert (TINY.layer, TINY.parameters) == (496, 1160)
    parts = by_name(memory_parts(TINY, setup_of(*SMALL), 1000 * GIB))
    assert parts["weights"] == dict.fromkeys(PHASES, 2320)  # 1160 x 4 / 2
    assert parts["gradients"] == {"loss": 2320, "backward": 2320, "optimizer": 2320}
    assert parts["optimizer states"] == {**dict.fromkeys(PHASES, 4640), "optimizer": 6960}
    assert parts["reference model"] == {} and setup_of(*SMALL).reference
    assert not setup_of(*SMALL, f"{ACTOR}.use_kl_loss=false").reference
    # bf16: the head as it comes and in its place beside a layer; three layers
    assert parts["gathered weights"] == {"log-probs": 2 * (160 + 496), "loss": 2 * (160 + 496), "backward": 2 * 3 * 496}
    assert parts["gathered gradients"] == {"loss": 80 * 6, "backward": 496 * 8}
    assert parts["activations kept"] == {"loss": 2 * 8 * 2 * 100, "backward": 2 * 8 * 2 * 100}
    # 10 x 8 + 2 x 4 + 4 x 12 = 136 numbers kept of a token, 3 x 12 more at work
    assert parts["activations at work"] == {"log-probs": 8000, "loss": 8000, "backward": 2 * (136 + 36) * 100}
    assert parts["logits"] == {"log-probs": 2 * 10 * 100, "loss": 2 * 10 * 100}
    assert parts["vLLM weights"] == {"rollout": 2320, "sync": 2320}
    assert parts["weights to vLLM"] == {"sync": 2 * GIB + 4 * 80}
    assert parts["CUDA, NCCL, graphs"] == dict.fromkeys(PHASES, OUTSIDE)


def test_a_tiny_adapter_by_hand() -> None:
    """Rank 2: q 2 x 16, k 2 x 12, v 2 x 12, o 2 x 16, MLP 3 x 2 x 20 in each of 2 layers: 464 trained parameters."""
    parts = by_name(memory_parts(TINY, setup_of(*SMALL, f"{MODEL}.lora_rank=2"), 1000 * GIB))
    assert parts["weights"] == dict.fromkeys(PHASES, (1160 + 464) * 2)
    assert parts["gradients"]["loss"] == 464 * 2 and parts["optimizer states"]["rollout"] == 464 * 4
    assert "gathered gradients" not in parts and parts["weights to vLLM"] == {"sync": 2 * GIB}
    assert parts["activations kept"] == {"loss": 3200, "backward": 3200}


def test_what_is_offloaded_is_on_the_gpu_only_when_it_works() -> None:
    parts = by_name(memory_parts(TINY, setup_of(*SMALL, *OFFLOAD), 1000 * GIB))
    assert set(parts["weights"]) == {"log-probs", "loss", "backward", "optimizer"}
    assert set(parts["optimizer states"]) == {"loss", "backward", "optimizer"}
    adapter = by_name(memory_parts(TINY, setup_of(*SMALL, *OFFLOAD, f"{MODEL}.lora_rank=2"), 1000 * GIB))
    assert set(adapter["weights"]) == {"log-probs", "loss", "backward", "optimizer", "sync"}
    policy = memory_parts(TINY, setup_of(*SMALL, f"{FSDP}.offload_policy=true"), 1000 * GIB)
    assert not {"weights", "gradients", "optimizer states"} & set(by_name(policy))
    awake = by_name(memory_parts(TINY, setup_of(*SMALL, f"{ROLLOUT}.free_cache_engine=false"), 1000 * GIB))
    assert set(awake["vLLM KV cache"]) == set(awake["vLLM weights"]) == set(PHASES)


@pytest.mark.parametrize(
    ("words", "part", "phase", "times"),
    [
        ([f"{ROLLOUT}.temperature=0.7"], "logits", "loss", 3),  # divided into a second tensor, and its gradient
        ([f"{MODEL}.use_fused_kernels=true"], "logits", "loss", 0),
        ([f"{FSDP}.use_torch_compile=false"], "logits", "log-probs", 3),  # the entropy's softmax and product
        ([f"{FSDP}.model_dtype=bf16"], "weights", "rollout", 0.5),
        ([f"{FSDP}.fsdp_size=1"], "weights", "rollout", 2),
        ([f"{MODEL}.enable_gradient_checkpointing=false"], "activations kept", "loss", 136 / 8),
        ([f"{MODEL}.enable_activation_offload=true"], "activations kept", "loss", 0),
        ([f"{FSDP}.reshard_after_forward=false"], "gathered weights", "loss", 1160 / (160 + 496)),
    ],
)
def test_a_setting_changes_its_part(words: list[str], part: str, phase: str, times: float) -> None:
    plain = by_name(memory_parts(TINY, setup_of(*SMALL), 1000 * GIB))[part][phase]
    changed = by_name(memory_parts(TINY, setup_of(*SMALL, *words), 1000 * GIB))[part].get(phase, 0)
    assert changed == pytest.approx(times * plain)


class Live(TorchDispatchMode):
    """Bytes of the tensors alive, and the most there were, of those made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.seen: Any = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {t.untyped_storage() for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage not in self.seen and storage not in given:
                    self.seen.add(storage)
                    self.now += storage.nbytes()
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(storage, self.free, storage.nbytes())
        return out

    def free(self, size: int) -> None:
        self.now -= size


class Flash(torch.autograd.Function):
    """Keeps what flash attention keeps: queries, keys, values, output, and a number in fp32 for each query."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out, log_sum = torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(q, k, v, out, log_sum)
        return out

    @staticmethod
    def backward(ctx: Any, *gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.empty_like(tensor) for tensor in ctx.saved_tensors[:3])


def attend(module: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, **more: Any) -> Any:
    return Flash.apply(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)), None


def allocated(shape: Shape, tokens: int, rank: int, checkpointing: bool) -> tuple[int, int]:
    """Bytes that transformers' layers keep after a forward pass, and need at most in both passes; on meta tensors."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, Qwen2Config
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register("counted", attend)
    config = Qwen2Config(
        hidden_size=shape.hidden, intermediate_size=shape.intermediate, num_hidden_layers=shape.layers, vocab_size=8,
        num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads, attn_implementation="counted",
    )  # fmt: skip
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        ids, positions = torch.zeros(1, tokens, dtype=torch.long), torch.arange(tokens)[None]
    layers = model.model
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if rank:
        model.enable_input_require_grads()
        lora = LoraConfig(task_type="CAUSAL_LM", r=rank, target_modules="all-linear")
        model = get_peft_model(model, lora, low_cpu_mem_usage=True)
    model.train()
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)  # as FSDP gathers them
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    with Live() as live:
        mask = {"full_attention": None}
        hidden = layers(input_ids=ids, position_ids=positions, attention_mask=mask, use_cache=False).last_hidden_state
        kept = live.now
        hidden.backward(torch.zeros_like(hidden))
    return kept, live.peak


@pytest.mark.parametrize("size", ["7B", "1.5B"])
@pytest.mark.parametrize("rank", [0, 32])
@pytest.mark.parametrize("checkpointing", [True, False])
def test_activations_are_a_close_bound_of_what_torch_allocates(size: str, rank: int, checkpointing: bool) -> None:
    shape, tokens = qwen(size), 16384
    words = [f"{MODEL}.lora_rank={rank}", f"{MODEL}.enable_gradient_checkpointing={str(checkpointing).lower()}"]
    parts = by_name(memory_parts(shape, setup_of(*words), 1000 * GIB))
    kept, peak = allocated(shape, tokens, rank, checkpointing)
    for measured, phase in ((kept, "loss"), (peak, "backward")):
        planned = parts["activations kept"][phase] + parts["activations at work"][phase]
        assert 0.97 * measured <= planned <= 1.12 * measured, phase


@pytest.fixture
def one_process() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_fsdp2_keeps_fp32_weights_and_gradients_and_adamw_two_more(one_process: None) -> None:
    """16 bytes a parameter between steps, as verl sets FSDP2 up: fp32 weights, bf16 computing, fp32 reducing."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    module = torch.nn.Linear(6, 5)
    count = sum(p.numel() for p in module.parameters())
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    sharded = fully_shard(module, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(sharded.parameters())
    output = sharded(torch.ones(2, 6))
    assert output.dtype == torch.bfloat16
    output.sum().backward()
    optimizer.step()

    def size(tensors: Any) -> int:
        return sum(tensor.to_local().nbytes for tensor in tensors)

    states = [value for state in optimizer.state.values() for value in state.values() if value.dim()]
    held = (size(sharded.parameters()), size(p.grad for p in sharded.parameters()), size(states))
    assert held == (4 * count, 4 * count, 8 * count)


LENGTHS = ["verl.data.max_prompt_length=512", "verl.data.max_response_length=1024", f"{ROLLOUT}.max_model_len=1536",
           f"{ROLLOUT}.max_num_batched_tokens=1536", f"{ROLLOUT}.max_num_seqs=512"]  # fmt: skip


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
    ("hidden", "intermediate", "vocab", "logged_gib"),
    [(3584, 18944, 152064, 1.42), (4096, 14336, 128256, 1.26)],  # Qwen2.5-7B, Llama-3-8B
)
def test_vllm_at_work_is_about_what_its_logs_say(hidden: int, intermediate: int, vocab: int, logged_gib: float) -> None:
    config = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": hidden,
              "intermediate_size": intermediate, "vocab_size": vocab}  # fmt: skip
    engine = setup_of(f"{ROLLOUT}.max_num_batched_tokens=8192", f"{ROLLOUT}.max_num_seqs=256").rollout
    assert engine_bytes(shape_of(config, ""), engine) / GIB == pytest.approx(logged_gib, rel=0.1)


@given(st.floats(0.1, 0.95), st.sampled_from([24, 48, 80]), st.sampled_from([1, 2, 4, 8]))
@settings(max_examples=20)
def test_vllm_gets_its_share_and_the_cache_the_rest(share: float, gpu_gib: int, shards: int) -> None:
    setup = setup_with(verl_of_paper(), gpus=8, shards=shards, utilization=share)
    shape = qwen("1.5B")
    parts = memory_parts(shape, setup, gpu_gib * GIB)
    sizes = by_name(parts)
    awake = sum(sizes[name].get("rollout", 0) for name in ("vLLM weights", "vLLM at work", "vLLM KV cache"))
    assert awake == pytest.approx(max(share * gpu_gib * GIB, sizes["vLLM weights"]["rollout"]))
    assert cache_tokens(shape, setup, 10 * GIB) == 10 * GIB // (28 * 2 * 2 * 128 * 2)  # layers, k and v, heads, bf16


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from(["7B", "1.5B"]), st.integers(0, 64), st.booleans())
@settings(max_examples=40)
def test_more_gpus_shorter_rows_and_offloading_never_need_more(gpus: int, size: str, rank: int, policy: bool) -> None:
    verl, shape = verl_of_paper(), qwen(size)

    def needs(gpus: int, tokens: int, offload: bool) -> list[float]:
        setup = setup_with(verl, gpus, gpus, 0.6, tokens, rank, offload, policy)
        parts = memory_parts(shape, setup, 80 * GIB)
        return [total(parts, phase) for phase in PHASES]

    plain = needs(gpus, 16384, False)
    for other in (needs(2 * gpus, 16384, False), needs(gpus, 8192, False), needs(gpus, 16384, True)):
        assert all(less <= more for less, more in zip(other, plain, strict=True))


@functools.cache
def composed() -> DictConfig:
    return build(load_config("train", ["profile=paper"]).verl, {})


def verl_of_paper() -> DictConfig:
    return composed().copy()


def setup_with(
    verl: DictConfig, gpus: int, shards: int, utilization: float, tokens: int = 16384, rank: int = 0,
    offload: bool = False, policy: bool = False,
) -> Setup:  # fmt: skip
    worker = verl.actor_rollout_ref
    verl.trainer.n_gpus_per_node, worker.actor.fsdp_config.fsdp_size = gpus, shards
    worker.rollout.gpu_memory_utilization, worker.model.lora_rank = utilization, rank
    worker.actor.ppo_max_token_len_per_gpu = worker.rollout.log_prob_max_token_len_per_gpu = tokens
    worker.actor.fsdp_config.param_offload = worker.actor.fsdp_config.optimizer_offload = offload
    worker.actor.fsdp_config.offload_policy = policy
    return read_setup(verl)


@pytest.mark.parametrize(
    ("profile", "size", "gpu_gib", "message"),
    [
        ("paper", "7B", 80, None),
        ("single", "1.5B", 24, None),
        ("paper", "7B", 24, "gpu_memory_gib=24: the phase 'sync' needs 30.9 GiB on each GPU .vLLM weights 14.2"),
        ("single", "1.5B", 12, "gpu_memory_gib=12: the phase 'loss' needs 15.0 GiB on each GPU .weights 5.9"),
        ("single", "7B", 24, "gpu_memory_gib=24: the phase 'sync' needs 47.6 GiB on each GPU .weights 28.7"),
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
