"""Context-aware decoding (Shi et al., 2023), greedy, for several alphas at once.

    y_t = argmax[(1 + a) * logits(q, c, y<t) - a * logits(q, y<t)]

or the same formula with probabilities instead of logits, as the RAG-Zeval paper prints it (Eq. 3).

a = 0 is plain decoding with the passage c, a = -1 plain decoding without it, and a < -1 avoids what the passage says.
The arithmetic is that of transformers' `generate(guidance_scale=1 + a, negative_prompt_ids=...)`. But here each prompt
is read once for all alphas, and the prefix that all prompts of a batch share is read once for all prompts. The alphas
of a question are branches of ONE key-value row. A mask shows each branch only the prompt and its own tokens. Both
streams are cast to float32 before mixing, because mixing in bfloat16 changes some argmaxes.

Import this module only where torch is needed anyway.
"""

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import torch
from transformers.cache_utils import DynamicCache

from rag_zeval.errors import InputError
from rag_zeval.models.decoding import grouped_attention, growing_cache

Prompts = Sequence[Sequence[int]]
Mixing = Literal["logits", "probabilities"]


@dataclass(frozen=True)
class Response:
    """The token ids of the answer at one alpha. If it is `finished`, the last one is the stop token."""

    alpha: float
    ids: tuple[int, ...]
    finished: bool


@torch.inference_mode()
def decode(
    model: Any,
    with_passage: Prompts,
    without_passage: Prompts,
    alphas: Sequence[float],
    max_new_tokens: int,
    stops: Collection[int],
    mixing: Mixing = "logits",
) -> list[list[Response]]:
    """Return the answers to a batch of questions, `[question][alpha]`, each of at most `max_new_tokens` tokens.

    with_passage, without_passage: prompt token ids of each question, of any lengths. mixing: whether the logits or the
    probabilities of the two streams are mixed. An answer ends at a stop token. Questions whose answers have all ended
    leave the batch. Raises InputError for a model without full attention in every layer.
    """
    rows = list(range(len(with_passage)))  # the question of each batch row
    tokens: list[list[list[int]]] = [[[] for _ in alphas] for _ in rows]
    live = {(question, branch) for question in rows for branch in range(len(alphas))}  # no stop token so far
    _check_layers(model)
    with grouped_attention(model):
        streams = [
            _Stream(model, prompts, weights, mixing)
            for prompts, weights in (
                (with_passage, [1 + alpha for alpha in alphas]),
                (without_passage, [-alpha for alpha in alphas]),
            )
            if any(weights)
        ]
        for step in range(max_new_tokens):
            chosen = reduce(torch.add, [stream.weighted_logits() for stream in streams]).argmax(-1)
            for question, picks in zip(rows, chosen.tolist(), strict=True):
                for branch, token in enumerate(picks):
                    if (question, branch) in live:
                        tokens[question][branch].append(token)
                        if token in stops:
                            live.discard((question, branch))
            if not live or step == max_new_tokens - 1:
                break
            unfinished = {question for question, _ in live}
            if len(unfinished) <= 0.8 * len(rows):  # dropping rows copies the cache, so several are dropped at once
                places = [at for at, question in enumerate(rows) if question in unfinished]
                rows, kept = [rows[at] for at in places], torch.tensor(places, device=model.device)
                chosen = chosen[kept]
                for stream in streams:
                    stream.keep(kept)
            for stream in streams:
                stream.feed(chosen)
    return [
        [
            Response(alpha, tuple(tokens[question][branch]), (question, branch) not in live)
            for branch, alpha in enumerate(alphas)
        ]
        for question in range(len(with_passage))
    ]


class _Stream:
    """The prompts of one kind (with or without passage), their cache, and the branches whose weight is not 0.

    Cache columns: [left padding, prompt | branch 0, 1, .. of new token 0 | branch 0, 1, .. of new token 1 | ..].
    """

    def __init__(self, model: Any, prompts: Prompts, weights: Sequence[float], mixing: Mixing):
        self.model, self.mixing = model, mixing
        self.n_alphas = len(weights)
        self.branches = torch.tensor([b for b, weight in enumerate(weights) if weight], device=model.device)
        self.weights = torch.tensor([weight for weight in weights if weight], device=model.device)[:, None]
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=model.device)
        width = max(map(len, prompts))
        self.positions = lengths[:, None].expand(-1, len(self.branches))
        columns = torch.arange(width, device=model.device)
        self.blocked = torch.finfo(model.dtype).min
        padding = torch.zeros(len(prompts), width, device=model.device, dtype=model.dtype)
        padding.masked_fill_(columns < width - lengths[:, None], self.blocked)
        self.mask = padding[:, None, None].expand(-1, 1, len(self.branches), -1)
        own = torch.full((len(self.branches), len(self.branches)), self.blocked, device=model.device, dtype=model.dtype)
        self.own = own.fill_diagonal_(0)
        self._read(prompts, width)

    def _read(self, prompts: Prompts, width: int) -> None:
        """Read the prompts into one packed cache: their shared prefix once, then the rest of each, unpadded."""
        caches, last = [], []
        common = DynamicCache(config=self.model.config)
        shared = _shared(prompts)
        if shared:
            self._prefill(prompts[0][:shared], common, 0)
        for prompt in prompts:
            cache: Any = copy(common)
            cache.layers = [copy(layer) for layer in common.layers]  # shallow: an update makes new tensors
            last.append(self._prefill(prompt[shared:], cache, shared))
            caches.append(cache)
        self.logits = torch.cat(last).expand(-1, len(self.branches), -1)
        self.cache = growing_cache()
        for layer in range(len(caches[0].layers)):
            unpacked = caches[0].layers[layer].keys  # [1, heads, prompt tokens, head width]
            keys = unpacked.new_zeros(len(prompts), unpacked.shape[1], width, unpacked.shape[3])
            values = torch.zeros_like(keys)
            for row, cache in enumerate(caches):
                states = cache.layers[layer]
                keys[row, :, width - states.keys.shape[2] :] = states.keys[0]
                values[row, :, width - states.keys.shape[2] :] = states.values[0]
                cache.layers[layer] = None  # so that only one layer's prompts are in memory twice
            self.cache.update(keys, values, layer)

    def _prefill(self, tokens: Sequence[int], cache: Any, before: int) -> Any:
        """Read tokens into a cache that has `before` others, and return the last token's logits in float32."""
        ids = torch.tensor([list(tokens)], device=self.model.device)
        mask = None
        if before:
            seen = torch.arange(before + len(tokens), device=self.model.device)
            mask = torch.zeros(1, 1, len(tokens), len(seen), device=self.model.device, dtype=self.model.dtype)
            mask.masked_fill_(seen > seen[before:, None], self.blocked)
        out = self.model(
            input_ids=ids,
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return out.logits.float()

    def weighted_logits(self) -> Any:
        """Return this stream's weighted logits or probabilities: [rows, alphas, vocabulary], float32."""
        mixed = self.logits if self.mixing == "logits" else self.logits.softmax(-1)
        if len(self.branches) == self.n_alphas:
            return mixed * self.weights
        part = mixed.new_zeros(len(mixed), self.n_alphas, mixed.shape[-1])
        part[:, self.branches] = mixed * self.weights
        return part

    def feed(self, chosen: Any) -> None:
        """Append one token to each branch. chosen: LongTensor [rows, alphas]."""
        own = self.own[None, None].expand(len(chosen), 1, -1, -1)
        self.mask = torch.cat([self.mask, own], -1)
        out = self.model(
            input_ids=chosen[:, self.branches],
            attention_mask=self.mask,
            position_ids=self.positions,
            past_key_values=self.cache,
            use_cache=True,
        )
        self.logits, self.positions = out.logits.float(), self.positions + 1

    def keep(self, rows: Any) -> None:
        """Keep only these batch rows (a LongTensor of indices)."""
        self.mask, self.positions = self.mask[rows], self.positions[rows]
        for layer in self.cache.layers:
            layer.keep(rows)


def _shared(prompts: Prompts) -> int:
    """Return the length of the prefix that all prompts share, in tokens; 0 for a single prompt.

    It leaves out at least the last token of each prompt, because that one must be read for its logits.
    """
    if len(prompts) < 2:
        return 0
    different = (at for at, tokens in enumerate(zip(*prompts, strict=False)) if len(set(tokens)) > 1)
    return min(next(different, len(prompts[0])), *(len(prompt) - 1 for prompt in prompts))


def _check_layers(model: Any) -> None:
    """Raise InputError if a layer of the model has no full attention."""
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        raise InputError(f"context-aware decoding needs full attention in every layer, this model has {sorted(kinds)}")
