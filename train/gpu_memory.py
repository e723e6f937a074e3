"""Estimate the most GPU memory that a step needs, from a model's shape and verl's config: does the run fit?

This is what verl 0.9.1 keeps on a GPU, according to its FSDP2 engine (`workers/engine/fsdp/transformer_impl.py`):

- The sharded weights are the only copy, in `model_dtype` (fp32). Each block is gathered in `param_dtype` (bf16).
- Gradients are as large as the weights. AdamW keeps two numbers per parameter, and its step briefly needs a third.
- The reference model is in host memory. With LoRA the base under the adapter is the reference.
- Gradient checkpointing keeps each layer's input and recomputes one layer at a time.
- vLLM takes `gpu_memory_utilization` of the whole GPU while it is awake. Asleep, it frees weights and cache.

These estimates were not compared with a run on a GPU, and they ignore fragmentation: leave a tenth of the GPU free.
They agree with verl's own hardware table: GRPO on 7B needs 2 GPUs of 80 GB, or 1 with LoRA. On 1.5B it needs 1 without
any offload.
"""

from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig

from rag_zeval.errors import InputError
from train.model_shape import Shape

GIB = 2**30
OUTSIDE = 2.0 * GIB  # assumed for CUDA contexts, NCCL and CUDA graphs of the two processes on a GPU
BYTES = {"fp32": 4, "float32": 4, "fp16": 2, "float16": 2, "bf16": 2, "bfloat16": 2}
Moments = dict[str, dict[str, float]]


def number_bytes(key: str, dtype: str) -> int:
    """Return the bytes of a number of this dtype. Raises InputError, naming verl's key, for an unknown dtype."""
    if dtype not in BYTES:
        raise InputError(f"verl.{key}={dtype}: there is {', '.join(BYTES)}")
    return BYTES[dtype]


@dataclass(frozen=True)
class Setup:
    """The values of verl's composed config that the estimate needs."""

    gpus: int
    shards: int  # GPUs that share one copy of the weights
    rank: int  # LoRA rank; 0: all weights are trained
    reference: bool  # whether there is a separate reference model for the KL term
    stored: int  # bytes per number of the stored weights
    computed: int  # bytes per number in computation
    tokens: int  # of the largest micro-batch on one GPU
    logits: int  # copies of a micro-batch's logits that exist at once
    fsdp: Any
    model: Any
    rollout: Any

    def offloads(self, what: str) -> bool:
        """Whether `param` or `optimizer` is moved off the GPU while it is not needed."""
        return bool(self.fsdp[f"{what}_offload"]) and not self.fsdp.offload_policy

    def adapter(self, shape: Shape) -> int:
        """Return the number of parameters of the LoRA matrices; 0 without LoRA."""
        return shape.adapter(self.rank, self.model.target_modules) if self.rank else 0


def read_setup(verl: DictConfig) -> Setup:
    """Read the setup from verl's whole config (`verl_config.build`). Raises InputError for an unknown dtype."""
    worker = verl.actor_rollout_ref
    actor, rollout, model, fsdp = worker.actor, worker.rollout, worker.model, worker.actor.fsdp_config
    gpus = verl.trainer.n_gpus_per_node * verl.trainer.nnodes
    longest = verl.data.max_prompt_length + verl.data.max_response_length
    share = verl.data.train_batch_size * rollout.n * longest // gpus  # most tokens of a step on one GPU

    def tokens(dynamic: bool, budget: int, rows: int | None) -> int:
        return min(share, budget if dynamic else (rows or 1) * longest // actor.ulysses_sequence_parallel_size)

    number_bytes("actor_rollout_ref.rollout.dtype", rollout.dtype)
    update = tokens(actor.use_dynamic_bsz, actor.ppo_max_token_len_per_gpu, actor.ppo_micro_batch_size_per_gpu)
    score = tokens(
        rollout.log_prob_use_dynamic_bsz,
        rollout.log_prob_max_token_len_per_gpu,
        rollout.log_prob_micro_batch_size_per_gpu,
    )
    scaled = 1 if rollout.temperature == 1 else 2  # other temperatures need a second tensor for the divided logits
    bypassed = (verl.algorithm.get("rollout_correction") or {}).get("bypass_mode")
    lean = bypassed or fsdp.use_torch_compile or fsdp.entropy_from_logits_with_chunking
    entropy = 0 if lean else 2  # the softmax, and its product with the logits
    return Setup(
        gpus=gpus,
        shards=gpus if fsdp.fsdp_size < 0 else min(gpus, fsdp.fsdp_size),
        rank=model.lora_rank,
        reference=not model.lora_rank and bool(actor.use_kl_loss or verl.algorithm.use_kl_in_reward),
        stored=number_bytes("actor_rollout_ref.actor.fsdp_config.model_dtype", fsdp.model_dtype or "fp32"),
        computed=number_bytes(
            "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype",
            (fsdp.get("mixed_precision") or {}).get("param_dtype", "bf16"),
        ),
        tokens=max(update, score),
        logits=0 if model.use_fused_kernels else max(2 * scaled - 1, scaled + entropy),
        fsdp=fsdp,
        model=model,
        rollout=rollout,
    )


def memory_needs(shape: Shape, setup: Setup, gpu_gib: float) -> Moments:
    """Return the most bytes on each GPU, by part, in the four moments of a step. A moment needs the sum of its parts.

    - rollout: vLLM decodes.
    - update: log-probabilities, loss and backward pass.
    - optimizer: the optimizer step.
    - sync: vLLM gets the new weights.
    """
    engine, adapter = setup.rollout, setup.adapter(shape)
    weights, trained = (
        0.0 if setup.fsdp.offload_policy else setup.stored * count / setup.shards
        for count in (shape.parameters + adapter, adapter or shape.parameters)
    )
    idle_weights = 0.0 if setup.offloads("param") else weights
    idle_states = 0.0 if setup.offloads("optimizer") else 2 * trained
    vllm = {"vLLM weights": vllm_weight_bytes(shape, setup), "KV cache": cache_bytes(shape, setup, gpu_gib)}
    always = {"CUDA": OUTSIDE} if engine.free_cache_engine else {**vllm, "CUDA": OUTSIDE}
    states = {"weights": weights, "gradients": trained}
    bucket = engine.checkpoint_engine.update_weights_bucket_megabytes * 2**20
    largest = 0 if setup.rank else setup.stored * shape.embedding  # adapters are sent through host memory
    return {
        "rollout": {"weights": idle_weights, "states": idle_states, **vllm, **always},
        "update": {
            **states,
            "states": 2 * trained,
            "gathered": gathered_bytes(shape, setup),
            **activation_bytes(shape, setup),
            **always,
        },
        "optimizer": {**states, "states": 3 * trained, **always},
        "sync": {
            "weights": weights if setup.rank else idle_weights,  # to read an adapter, all weights are on the GPU
            "states": idle_states,
            "vLLM weights": vllm["vLLM weights"],
            "on their way": float(bucket + largest),
            **always,
        },
    }


def gathered_bytes(shape: Shape, setup: Setup) -> float:
    """Return the bytes of what FSDP2 gathers at once: weights of embedding, head and three layers, and gradients.

    Without `reshard_after_forward` these are all weights. Gradients are in fp32: those of the embedding and one layer,
    and with `use_no_sync_for_gradient_accumulation` those of the whole model. With LoRA they are not counted.
    """
    weights = 2 * shape.embedding + 3 * shape.layer if setup.fsdp.reshard_after_forward else shape.parameters
    gradients = 0 if setup.rank else shape.embedding + shape.layer
    if setup.fsdp.use_no_sync_for_gradient_accumulation and not setup.rank:
        gradients += shape.parameters
    return float(setup.computed * weights + 4 * gradients)


def activation_bytes(shape: Shape, setup: Setup) -> dict[str, float]:
    """Return the bytes of a full micro-batch: activations kept of each layer, one layer in its backward pass, logits.

    A decoder layer keeps 10h + 2k + 4i numbers per token for its backward pass, and that pass needs 3i more. h is the
    hidden size, k the size of all key-value heads, i the intermediate size. The two norms are in fp32; attention is
    flash attention.
    """
    numbers = setup.computed * setup.tokens
    layer = 10 * shape.hidden + 2 * shape.kv_heads * shape.head_dim + 4 * shape.intermediate
    checkpointing = setup.model.enable_gradient_checkpointing
    kept = 0 if setup.model.enable_activation_offload else shape.layers * (shape.hidden if checkpointing else layer)
    work = (layer if checkpointing else 0) + 3 * shape.intermediate
    return {"activations": float((kept + work) * numbers), "logits": float(setup.logits * shape.vocab * numbers)}


def vllm_weight_bytes(shape: Shape, setup: Setup) -> float:
    """Return the bytes of vLLM's own copy of the weights on a GPU."""
    engine = setup.rollout
    return float(BYTES[engine.dtype] * (shape.parameters + setup.adapter(shape)) / engine.tensor_model_parallel_size)


def cache_bytes(shape: Shape, setup: Setup, gpu_gib: float) -> float:
    """Return the most bytes that vLLM has for keys and values on a GPU: its share of the GPU without its weights.

    Its working memory is not subtracted.
    """
    return max(0.0, float(setup.rollout.gpu_memory_utilization * gpu_gib * GIB) - vllm_weight_bytes(shape, setup))


def cache_tokens(shape: Shape, setup: Setup, gpu_gib: float) -> int:
    """Return the most tokens that fit into a vLLM replica's cache, on all of its GPUs together."""
    engine = setup.rollout
    room = cache_bytes(shape, setup, gpu_gib) * engine.tensor_model_parallel_size
    return int(room // shape.kv_bytes(BYTES[engine.dtype]))


# Keys below verl.actor_rollout_ref that reduce the memory of each moment.
_OFFLOAD = "actor.fsdp_config.param_offload with optimizer_offload"
REMEDIES = {
    "rollout": f"{_OFFLOAD}, a lower rollout.gpu_memory_utilization",
    "update": "shorter rows with a smaller actor.ppo_max_token_len_per_gpu, actor.fsdp_config.offload_policy",
    "optimizer": "actor.fsdp_config.offload_policy",
    "sync": _OFFLOAD,
}


def misfit(shape: Shape, setup: Setup, gpu_gib: float) -> str | None:
    """Return one line saying why a step does not fit into GPUs of this size in GiB, and what helps; None if it fits."""
    needs = memory_needs(shape, setup, gpu_gib)
    worst = max(needs, key=lambda moment: sum(needs[moment].values()))
    needed = sum(needs[worst].values()) / GIB
    if needed > gpu_gib:
        largest = sorted(needs[worst].items(), key=lambda part: -part[1])[:3]
        most = ", ".join(f"{name} {size / GIB:.1f}" for name, size in largest)
        return (
            f"gpu_memory_gib={gpu_gib:g}: '{worst}' needs {needed:.1f} GiB on each GPU ({most}); what helps: "
            f"more GPUs, {'' if setup.rank else 'model.lora_rank, '}{REMEDIES[worst]} (below verl.actor_rollout_ref)"
        )
    room, longest = cache_tokens(shape, setup, gpu_gib), setup.rollout.max_model_len
    if longest and room < longest:
        return (
            f"gpu_memory_gib={gpu_gib:g}: beside its weights vLLM has room for {room} tokens, less than one row of "
            f"verl.actor_rollout_ref.rollout.max_model_len={longest}; raise rollout.gpu_memory_utilization"
        )
    return None
