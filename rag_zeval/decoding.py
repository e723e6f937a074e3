"""Batched decoding with transformers: the KV cache grows in place, finished rows leave, every row has its own seed.

Imported only where torch is already needed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

Generated = list[tuple[list[int], list[float]]]


class GrowingLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer in a buffer with spare room: DynamicLayer copies all of it at every token."""

    ROOM = 256

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.used, self.key_room, self.value_room = 0, key_states[:, :, :0], value_states[:, :, :0]
        start, end = self.used, self.used + key_states.shape[-2]
        if end > self.key_room.shape[-2]:
            self.key_room = self._grown(self.key_room, key_states, end)
            self.value_room = self._grown(self.value_room, value_states, end)
        self.key_room[:, :, start:end], self.value_room[:, :, start:end] = key_states, value_states
        self.used = end
        return self._show()

    def _grown(self, room: Any, like: Any, end: int) -> Any:
        grown = like.new_empty((*like.shape[:2], end + self.ROOM, like.shape[-1]))
        grown[:, :, : self.used] = room[:, :, : self.used]
        return grown

    def _show(self) -> tuple[Any, Any]:
        self.keys, self.values = self.key_room[:, :, : self.used], self.value_room[:, :, : self.used]
        return self.keys, self.values

    def keep(self, rows: Any) -> None:
        """Keep only these batch rows (a LongTensor of indices)."""
        self.key_room, self.value_room = self.key_room[rows], self.value_room[rows]
        self._show()


def growing_cache() -> Any:
    """An empty cache of GrowingLayers for any decoder-only model with full attention."""
    return Cache(layer_class_to_replicate=GrowingLayer)


def left_pad(prompts: Sequence[Sequence[int]], pad: int, device: Any = None) -> tuple[Any, Any, Any]:
    """`(ids, mask, positions)`, each LongTensor [rows, longest prompt], padding on the left."""
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(p)) + list(p) for p in prompts], device=device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)
    return ids, mask, (mask.cumsum(-1) - 1).clamp(min=0)


def stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """Token ids that end a reply: the generation config's and the tokenizer's."""
    eos = getattr(model.generation_config, "eos_token_id", None)
    listed = eos if isinstance(eos, list) else [eos]
    return sorted({int(token) for token in [*listed, tokenizer.eos_token_id] if token is not None})


@torch.inference_mode()
def generate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    limits: int | Sequence[int],
    *,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int = -1,
    seeds: Sequence[int] | None = None,
    eos: Collection[int],
    pad: int = 0,
) -> Generated:
    """Decode all prompts as one batch.

    prompts: token ids, any lengths; limits: new tokens allowed (one number, or one per row); temperature 0 is greedy.
    Returns per row `(token ids, log-probabilities)`: at most `limit` tokens, the stop token included when it came.
    Log-probabilities are those of the tempered distribution before top-k and top-p, as verl expects of a rollout.
    Row i draws all its uniform numbers from `seeds[i]` and picks tokens by inverse CDF, so its sample depends on
    its seed alone, not on its neighbours. Raises ValueError if sampling is asked for without seeds.
    """
    if temperature > 0 and seeds is None:
        raise ValueError("sampling needs one seed per row")
    device = model.device
    room = [limits] * len(prompts) if isinstance(limits, int) else list(limits)
    step_ids, mask, positions = left_pad(prompts, pad, device)
    uniform = None
    if temperature > 0 and seeds is not None:
        draws = [torch.rand(max(room), generator=torch.Generator().manual_seed(s), dtype=torch.float64) for s in seeds]
        uniform = torch.stack(draws).to(device)
    tokens: list[list[int]] = [[] for _ in prompts]
    logprobs: list[list[float]] = [[] for _ in prompts]
    rows = list(range(len(prompts)))  # which prompt each batch row belongs to
    live = set(rows)
    cache, stops = growing_cache(), set(eos)
    for step in range(max(room)):
        out = model(
            input_ids=step_ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits = out.logits[:, -1].float()
        if uniform is None:
            chosen, all_logprobs = logits.argmax(-1), logits.log_softmax(-1)
        else:
            logits = logits / temperature
            all_logprobs = logits.log_softmax(-1)
            chosen = _inverse_cdf(_truncated(logits, top_p, top_k), uniform[rows, step])
        chosen_logprobs = all_logprobs.gather(1, chosen[:, None])[:, 0].tolist()
        for row, token, logprob in zip(rows, chosen.tolist(), chosen_logprobs, strict=True):
            if row in live:
                tokens[row].append(token)
                logprobs[row].append(logprob)
                if token in stops or len(tokens[row]) >= room[row]:
                    live.discard(row)
        if not live:
            break
        if len(live) <= 0.8 * len(rows):  # dropping rows copies the cache, so not for every single one
            kept = torch.tensor([at for at, row in enumerate(rows) if row in live], device=device)
            rows = [row for row in rows if row in live]
            chosen, mask, positions = chosen[kept], mask[kept], positions[kept]
            for layer in cache.layers:
                layer.keep(kept)
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
        step_ids, positions = chosen[:, None], positions[:, -1:] + 1
    return list(zip(tokens, logprobs, strict=True))


def _truncated(logits: Any, top_p: float, top_k: int) -> Any:
    if top_k > 0:
        floor = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
        logits = logits.masked_fill(logits < floor, -torch.inf)
    if top_p < 1:
        ordered, order = logits.sort(descending=True)
        probs = ordered.softmax(-1)
        outside = probs.cumsum(-1) - probs > top_p  # the token that crosses top_p stays in
        logits = logits.scatter(-1, order, ordered.masked_fill(outside, -torch.inf))
    return logits


def _inverse_cdf(logits: Any, uniform: Any) -> Any:
    cdf = logits.double().softmax(-1).cumsum(-1)
    picked = torch.searchsorted(cdf, (uniform * cdf[:, -1])[:, None], right=True)[:, 0]
    return picked.clamp(max=logits.size(-1) - 1)
