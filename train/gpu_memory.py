"""GPU memory of a training step, part by part and phase by phase, from a model's shape and verl's config.

What verl 0.9.1 keeps on a GPU, read in its FSDP2 engine (`workers/engine/fsdp/transformer_impl.py`) and in torch:

- The sharded weights are the only copy: `model_dtype` (fp32) is both what the optimizer changes and what each block is
  gathered from, cast to `param_dtype` (bf16) on the way. Gradients are reduced in fp32 and kept sharded in
  `model_dtype`; AdamW keeps two numbers a parameter, and its foreach step a third for a moment.
- The reference model lies in host memory (forward_only means CPUOffloadPolicy) and only passes through. With LoRA there
  is none: it is the base under the adapter. The adapter is cast to the base's dtype, so an fp32 one needs an fp32 base.
- Gradient checkpointing keeps each layer's input and computes one layer again. The loss works on logits in place, in
  bf16, for all tokens of a micro-batch (flash attention's cross entropy).
- vLLM takes `gpu_memory_utilization` of the whole GPU while it is awake, and gives weights and cache back asleep.

What is known of real runs (tests/train/test_gpu_memory.py holds this module to the first two):

- verl's table of hardware needed (docs/perf/device_tuning.rst) and its examples/tuning: GRPO on 7B takes 2 GPUs of
  80 GB at least, with LoRA 1; on 1.5B without any offload 1. The sums accept all three, and refuse the first on 1 GPU.
- vLLM's logs say what it uses beside weights and cache: 1.42 GiB for Qwen2.5-7B (its issue 13882), 1.26 for Llama-3-8B
  (its pull request 10511), both with 256 sequences. `engine_bytes` says 1.45 and 1.22, but verl's LoRA script for 7B
  leaves less than it says for 512: so nothing is refused for it.
- Asleep, vLLM was seen to hold 0.7 GB a GPU (NeMo-RL, issue 33). OUTSIDE is a guess of that kind.
- No measurement of these profiles on GPUs is known here, and fragmentation is not counted: leave a tenth of the GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag_zeval.errors import InputError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from train.model_shape import Shape

GIB = 2**30
# The moments of a step that can need most: decoding; old and reference log-probabilities; the loss with the head's
# backward pass; the layers' backward pass; the optimizer's step; weights on their way to vLLM.
PHASES = ("rollout", "log-probs", "loss", "backward", "optimizer", "sync")
TRAINING = ("loss", "backward", "optimizer")
OUTSIDE = 2.0 * GIB  # CUDA contexts, NCCL, CUDA graphs of the two processes on a GPU: assumed, not computed
BYTES = {"fp32": 4, "float32": 4, "fp16": 2, "float16": 2, "bf16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Part:
    """One line of the table: bytes on each GPU in the phases that have any, and what they were computed from."""

    name: str
    bytes: Mapping[str, float]
    source: str


@dataclass(frozen=True)
class Setup:
    """What the arithmetic needs of verl's composed config. Sizes are bytes a number, tokens those of one GPU."""

    gpus: int
    shards: int  # GPUs that share one copy of the weights
    rank: int  # of LoRA; 0: all weights are trained
    modules: Any  # that LoRA stands on
    reference: bool  # whether there is a model for the KL term alone
    stored: int
    computed: int
    reduced: int
    update_tokens: int  # of a micro-batch
    score_tokens: int
    update_logits: int  # copies of the logits at once
    score_logits: int
    fsdp: Any
    model: Any
    rollout: Any

    def offloads(self, what: str) -> bool:
        """Whether `param` or `optimizer` leaves the GPU while others work."""
        return bool(self.fsdp[f"{what}_offload"]) and not self.fsdp.offload_policy


def read_setup(verl: DictConfig) -> Setup:
    """From verl's whole config (`verl_config.build`). Raises InputError for a dtype of unknown size."""
    worker = verl.actor_rollout_ref
    actor, rollout, model, fsdp = worker.actor, worker.rollout, worker.model, worker.actor.fsdp_config
    gpus = verl.trainer.n_gpus_per_node * verl.trainer.nnodes
    mixed = fsdp.get("mixed_precision") or {}
    longest = verl.data.max_prompt_length + verl.data.max_response_length
    share = verl.data.train_batch_size * rollout.n * longest // gpus  # of a step on one GPU

    def size(key: str, dtype: str) -> int:
        if dtype not in BYTES:
            raise InputError(f"verl.actor_rollout_ref.{key}={dtype}: there is {', '.join(BYTES)}")
        return BYTES[dtype]

    def tokens(dynamic: bool, budget: int, rows: int | None) -> int:
        return min(share, budget if dynamic else (rows or 1) * longest // actor.ulysses_sequence_parallel_size)

    size("rollout.dtype", rollout.dtype)
    scaled = 1 if rollout.temperature == 1 else 2  # any other temperature divides the logits into a second tensor
    bypassed = (verl.algorithm.get("rollout_correction") or {}).get("bypass_mode")
    lean = bypassed or fsdp.use_torch_compile or fsdp.entropy_from_logits_with_chunking
    return Setup(
        gpus=gpus,
        shards=gpus if fsdp.fsdp_size < 0 else min(gpus, fsdp.fsdp_size),
        rank=model.lora_rank,
        modules=model.target_modules,
        reference=not model.lora_rank and bool(actor.use_kl_loss or verl.algorithm.use_kl_in_reward),
        stored=size("actor.fsdp_config.model_dtype", fsdp.model_dtype or "fp32"),
        computed=size("actor.fsdp_config.mixed_precision.param_dtype", mixed.get("param_dtype", "bf16")),
        reduced=size("actor.fsdp_config.mixed_precision.reduce_dtype", mixed.get("reduce_dtype", "fp32")),
        update_tokens=tokens(
            actor.use_dynamic_bsz, actor.ppo_max_token_len_per_gpu, actor.ppo_micro_batch_size_per_gpu
        ),
        score_tokens=tokens(
            rollout.log_prob_use_dynamic_bsz,
            rollout.log_prob_max_token_len_per_gpu,
            rollout.log_prob_micro_batch_size_per_gpu,
        ),
        update_logits=0 if model.use_fused_kernels else 2 * scaled - 1,  # scaled: and their gradient
        score_logits=0 if model.use_fused_kernels else scaled + (0 if lean else 2),  # of the entropy: softmax, product
        fsdp=fsdp,
        model=model,
        rollout=rollout,
    )


def memory_parts(shape: Shape, setup: Setup, gpu_bytes: float) -> list[Part]:
    """Bytes on each GPU by part; a phase needs the sum of its column (`total`)."""
    return [
        *state_parts(shape, setup),
        *gathered_parts(shape, setup),
        *activation_parts(shape, setup),
        *vllm_parts(shape, setup, gpu_bytes),
        Part("CUDA, NCCL, graphs", dict.fromkeys(PHASES, OUTSIDE), "assumed"),
    ]


def total(parts: list[Part], phase: str) -> float:
    return sum(part.bytes.get(phase, 0.0) for part in parts)


def state_parts(shape: Shape, setup: Setup) -> list[Part]:
    """Weights, gradients and optimizer states, sharded; none with offload_policy, which keeps them in host memory."""
    adapter = shape.adapter(setup.rank, setup.modules) if setup.rank else 0
    everything, trained = shape.parameters + adapter, adapter or shape.parameters
    weights, one = (setup.stored * count / setup.shards for count in (everything, trained))
    none = "none: the base without its adapter" if setup.rank else "none: no KL term"
    reference = Part("reference model", {}, "in host memory" if setup.reference else none)
    if setup.fsdp.offload_policy:
        return [Part("weights and states", {}, "offload_policy: in host memory"), reference]
    idle = 0.0 if setup.offloads("param") else weights
    states = 0.0 if setup.offloads("optimizer") else 2 * one
    return [
        Part(
            "weights",
            # an adapter is read with all the rest on the GPU
            {
                "rollout": idle,
                "sync": weights if setup.rank else idle,
                **dict.fromkeys(("log-probs", *TRAINING), weights),
            },
            f"{everything:,} x {setup.stored} bytes / {setup.shards}",
        ),
        Part("gradients", dict.fromkeys(TRAINING, one), f"{trained:,} trained x {setup.stored} / {setup.shards}"),
        Part(
            "optimizer states",
            {**dict.fromkeys(PHASES, states), "loss": 2 * one, "backward": 2 * one, "optimizer": 3 * one},
            "2 x the trained; 3 x in the step",
        ),
        reference,
    ]


def gathered_parts(shape: Shape, setup: Setup) -> list[Part]:
    """Unsharded weights and gradients. verl shards each layer by itself, and embedding and head if not tied."""
    computed, reduced, layer, head = setup.computed, setup.reduced, shape.layer, shape.embedding
    if setup.fsdp.reshard_after_forward:
        kept = head if shape.tied else 0  # tied, it belongs to the root: gathered for as long as a pass runs
        first = kept or 2 * head  # as it comes, and in its place
        weights = {"log-probs": first + layer, "loss": first + layer, "backward": kept + 3 * layer}
    else:
        weights = dict.fromkeys(("log-probs", "loss", "backward"), shape.parameters)
    parts = [
        Part("gathered weights", {phase: float(computed * n) for phase, n in weights.items()}, f"x {computed} bytes")
    ]
    if setup.rank:
        return parts
    held = reduced * shape.parameters if setup.fsdp.use_no_sync_for_gradient_accumulation else 0
    loss = held + head * (computed if shape.tied else computed + reduced)
    backward = held + layer * (2 * computed + reduced) + (computed * head if shape.tied else 0)
    source = f"x {computed} bytes, x {reduced} to be reduced"
    return [*parts, Part("gathered gradients", {"loss": float(loss), "backward": float(backward)}, source)]


def activation_parts(shape: Shape, setup: Setup) -> list[Part]:
    """What the tokens of a micro-batch need, as upper bounds.

    One decoder layer keeps 10h + 2k + 4i numbers of a token for its backward pass (h hidden, k all key-value heads,
    i intermediate; two norms in fp32; flash attention), and that pass needs 3i more. Counted by hand, and held
    against what torch allocates, for both Qwen shapes. Without gradients a layer needs less than its logits.
    """
    size, h, i = setup.computed, shape.hidden, shape.intermediate
    saved = 10 * h + 2 * shape.kv_heads * shape.head_dim + 4 * i
    checkpointing = setup.model.enable_gradient_checkpointing
    kept = shape.layers * (h if checkpointing else saved) * (0 if setup.model.enable_activation_offload else 1)
    update, score = size * setup.update_tokens, size * setup.score_tokens
    backward = (saved if checkpointing else 0) + 3 * i
    return [
        Part(
            "activations kept",
            dict.fromkeys(("loss", "backward"), float(kept * update)),
            f"{setup.update_tokens:,} tokens: "
            + (f"inputs of {shape.layers} layers" if checkpointing else "all layers"),
        ),
        Part(
            "activations at work",
            {"log-probs": 5.0 * h * score, "loss": 5.0 * h * update, "backward": float(backward * update)},
            "last norm; one layer" + (" computed again" if checkpointing else ""),
        ),
        Part(
            "logits",
            {
                "log-probs": float(setup.score_logits * shape.vocab * score),
                "loss": float(setup.update_logits * shape.vocab * update),
            },
            f"{shape.vocab:,} x {size} bytes a token",
        ),
    ]


def vllm_parts(shape: Shape, setup: Setup, gpu_bytes: float) -> list[Part]:
    """vLLM's weights, working space and cache: together `gpu_memory_utilization` of the GPU."""
    engine = setup.rollout
    adapter = shape.adapter(setup.rank, setup.modules) if setup.rank else 0
    weights = BYTES[engine.dtype] * (shape.parameters + adapter) / engine.tensor_model_parallel_size
    left = max(0.0, engine.gpu_memory_utilization * gpu_bytes - weights)
    work = min(left, engine_bytes(shape, engine))
    sleeps = engine.free_cache_engine
    bucket = engine.checkpoint_engine.update_weights_bucket_megabytes * 2**20
    largest = 0 if setup.rank else setup.stored * shape.embedding  # adapters go by the host
    return [
        Part(
            "vLLM weights",
            dict.fromkeys(("rollout", "sync") if sleeps else PHASES, weights),
            f"{engine.dtype} / {engine.tensor_model_parallel_size}",
        ),
        Part("vLLM at work", dict.fromkeys(("rollout",) if sleeps else PHASES, work), "estimated"),
        Part(
            "vLLM KV cache",
            dict.fromkeys(("rollout",) if sleeps else PHASES, left - work),
            f"rest of gpu_memory_utilization={engine.gpu_memory_utilization:g}",
        ),
        Part("weights to vLLM", {"sync": float(bucket + largest)}, "a bucket and the largest tensor"),
    ]


def engine_bytes(shape: Shape, engine: Any) -> float:
    """What vLLM needs beside weights and cache, roughly: one layer's MLP on its largest batch, or its sampler."""
    layer = 3 * shape.intermediate / engine.tensor_model_parallel_size + 4 * shape.hidden
    return max(BYTES[engine.dtype] * engine.max_num_batched_tokens * layer, 40.0 * engine.max_num_seqs * shape.vocab)


def cache_tokens(shape: Shape, setup: Setup, size: float) -> int:
    """Tokens that a vLLM replica has room for in a cache of `size` bytes on each of its GPUs."""
    engine = setup.rollout
    return int(size * engine.tensor_model_parallel_size // shape.kv_bytes(BYTES[engine.dtype]))


# What makes each phase smaller, below verl.actor_rollout_ref.
_TOKENS = "shorter rows with a smaller actor.ppo_max_token_len_per_gpu"
_OFFLOAD = "actor.fsdp_config.param_offload with optimizer_offload"
REMEDIES = {
    "rollout": f"{_OFFLOAD}, a lower rollout.gpu_memory_utilization",
    "log-probs": _TOKENS,
    "loss": f"{_TOKENS}, actor.fsdp_config.offload_policy",
    "backward": f"{_TOKENS}, actor.fsdp_config.offload_policy",
    "optimizer": "actor.fsdp_config.offload_policy",
    "sync": _OFFLOAD,
}


def misfit(shape: Shape, setup: Setup, gpu_gib: float) -> str | None:
    """One line saying why a step cannot run on GPUs of this size; None if it can."""
    parts = memory_parts(shape, setup, gpu_gib * GIB)
    worst = max(PHASES, key=lambda phase: total(parts, phase))
    needed = total(parts, worst) / GIB
    if needed > gpu_gib:
        largest = sorted(parts, key=lambda part: -part.bytes.get(worst, 0.0))[:3]
        most = ", ".join(f"{part.name} {part.bytes[worst] / GIB:.1f}" for part in largest)
        return (
            f"gpu_memory_gib={gpu_gib:g}: the phase '{worst}' needs {needed:.1f} GiB on each GPU ({most}); what helps: "
            f"more GPUs, {'' if setup.rank else 'model.lora_rank, '}{REMEDIES[worst]} (below verl.actor_rollout_ref)"
        )
    engine, sizes = setup.rollout, {part.name: part.bytes.get("rollout", 0.0) for part in parts}
    room = cache_tokens(shape, setup, sizes["vLLM at work"] + sizes["vLLM KV cache"])  # the first is a guess
    if engine.max_model_len and room < engine.max_model_len:
        return (
            f"gpu_memory_gib={gpu_gib:g}: beside its weights vLLM has room for {room} tokens, less than one row of "
            f"verl.actor_rollout_ref.rollout.max_model_len={engine.max_model_len}; raise rollout.gpu_memory_utilization"
        )
    return None
