"""The plain training step that `step_speed` times ours against: decoding token by token, and verl's own engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

Rollouts = list[tuple[list[int], list[float]]]  # token ids, and their log-probabilities


def generate(
    model: Any,
    prompts: Sequence[list[int]],
    limit: int,
    *,
    temperature: float,
    seeds: Sequence[int],
    eos: Collection[int],
    pad: int,
) -> Rollouts:
    """What `rag_zeval.models.decoding.generate` gives, by one left-padded batch and one token a pass.

    The cache is written in place, and finished rows leave the batch.
    """
    import torch

    from rag_zeval.models.decoding import growing_cache

    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    draws = torch.stack([torch.rand(limit, generator=one, dtype=torch.float64) for one in generators])
    cache = growing_cache()
    rollouts: Rollouts = [([], []) for _ in prompts]
    rows = [*range(len(prompts))]  # the rollout that each row of the batch belongs to
    with torch.inference_mode():
        for step in range(limit):
            positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
            inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
            out = model(**inputs, past_key_values=cache, use_cache=True, logits_to_keep=1)
            logits = out.logits[:, -1].float() / temperature
            cumulative = logits.double().softmax(-1).cumsum(-1)
            ids = torch.searchsorted(cumulative, draws[rows, step, None] * cumulative[:, -1:], right=True)
            ids = ids.clamp(max=logits.shape[-1] - 1)
            log_probs = logits.log_softmax(-1).gather(1, ids)
            for row, token, log_prob in zip(rows, ids[:, 0].tolist(), log_probs[:, 0].tolist(), strict=True):
                tokens, of_tokens = rollouts[row]
                if not tokens or tokens[-1] not in eos:
                    tokens.append(token)
                    of_tokens.append(log_prob)
            unfinished = [place for place, row in enumerate(rows) if rollouts[row][0][-1] not in eos]
            if not unfinished:
                break
            if len(unfinished) <= 0.8 * len(rows):  # dropping rows copies the cache, so not for every single one
                kept = torch.tensor(unfinished)
                rows, ids, mask = [rows[place] for place in unfinished], ids[kept], mask[kept]
                for layer in cache.layers:
                    layer.keep(kept)
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
    return rollouts


def padded_engine() -> type:
    """verl's own engine, with only those parts of ours that let it run on a CPU."""
    from train.linear_decay import LinearDecayEngine
    from train.verl_cpu.engine import CPUEngine

    verls = ("_build_module", "prepare_model_inputs", "prepare_model_outputs", "forward_step")
    return type("PaddedEngine", (CPUEngine,), {name: getattr(LinearDecayEngine, name) for name in verls})
