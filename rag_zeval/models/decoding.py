"""Batched decoding with transformers: several tokens a pass, finished rows leave, every row has its own seed.

Speculative decoding (Leviathan et al., 2023) with drafts that are looked up (`drafting`): one pass over a draft says
which token belongs at each of its positions, and the draft holds as far as it agrees. As every row chooses by its own
uniform numbers, one for each new token, the result is what decoding token by token gives.

Imported only where torch is already needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from rag_zeval.errors import InputError
from rag_zeval.models.drafting import Drafts

Generated = list[tuple[list[int], list[float]]]

GROUPED = "grouped_sdpa"  # its name in transformers
CHUNK = 16  # most tokens of a row in one pass
LOGITS = 2**25  # most logits in one pass: the larger the vocabulary, the shorter the chunks
BLOCK = 256  # tokens whose probabilities are added up before they are cumulated
PREFILL = 2048  # tokens of prompts in one pass, at least a prompt: more would only take memory


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


class RowCache(Cache):  # type: ignore[misc]
    """Keys and values of a batch of rows, a row's token t in column t: what comes instead of a token overwrites it."""

    def __init__(self, rows: int, room: int):
        super().__init__(layers=[])
        self.size, self.width = (rows, room), 0
        self.states: dict[int, tuple[Any, Any]] = {}  # by layer: keys and values [rows, heads, room, head width]

    def aim(self, rows: slice, positions: Any) -> None:
        """Say where the next pass writes: LongTensor [rows, tokens] of columns."""
        self.rows, self.positions = rows, positions
        self.row_numbers = torch.arange(self.size[0], device=positions.device)[rows, None]
        self.unused = slice(self.width, int(positions.max()) + 1)
        self.width = max(self.width, self.unused.stop)

    def update(self, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        if layer_idx not in self.states:
            self.states[layer_idx] = self._room(key_states), self._room(value_states)
        keys, values = self.states[layer_idx]
        for kept, new in ((keys, key_states), (values, value_states)):
            kept[:, :, self.unused] = 0  # columns that a shorter row does not see, but that must not hold NaN
            kept[self.row_numbers, :, self.positions] = new.transpose(1, 2)
        return keys[self.rows, :, : self.width], values[self.rows, :, : self.width]

    def _room(self, states: Any) -> Any:
        return states.new_empty(self.size[0], states.shape[1], self.size[1], states.shape[3])

    def spread(self, rows: Sequence[int], room: int) -> RowCache:
        """A cache whose rows are copies of these ones, with room for `room` tokens each."""
        other = RowCache(len(rows), room)
        other.width = min(self.width, room)
        for layer, pair in self.states.items():
            other.states[layer] = other._room(pair[0]), other._room(pair[1])
            for kept, new in zip(pair, other.states[layer], strict=True):
                new[:, :, : other.width] = kept[rows, :, : other.width]
        return other

    def close_gaps(self, live: Sequence[bool]) -> list[int]:
        """Move the last live rows to the places of rows not live; returns where each row, from the first, was."""
        count = sum(live)
        gaps = [at for at in range(count) if not live[at]]
        movers = [at for at in range(count, len(live)) if live[at]]
        for pair in self.states.values() if gaps else ():
            for kept in pair:
                kept[gaps, :, : self.width] = kept[movers, :, : self.width]
        moved = dict(zip(gaps, movers, strict=True))
        return [moved.get(at, at) for at in range(count)]


def grouped_sdpa(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **kwargs: Any) -> Any:
    """Attention under a 4-D mask without repeating keys for grouped queries, in transformers' attention interface.

    transformers copies the whole cache once per query head of a group when there is a mask; here the heads of a group
    stand as further query rows of the one key head they share.
    """
    rows, heads, length, width = query.shape
    groups = key.shape[1]
    if attention_mask is None or groups == heads:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    folded = query.reshape(rows, groups, heads // groups * length, width)
    mask, scale = attention_mask.repeat(1, 1, heads // groups, 1), kwargs.get("scaling")
    out = torch.nn.functional.scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scale)
    return out.reshape(rows, heads, length, width).transpose(1, 2).contiguous(), None


AttentionInterface.register(GROUPED, grouped_sdpa)


@contextmanager
def grouped_attention(model: Any) -> Iterator[None]:
    """The model attends by `grouped_sdpa` inside, on a GPU without cuDNN.

    cuDNN plans anew for every width, and a cache is wider at every step: on an H100 a step of context-aware decoding
    at 7B took 322 ms with it and 70 ms without (16 questions, passages of 500 tokens).
    """
    before, cudnn = model.config._attn_implementation, torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    model.set_attn_implementation(GROUPED)
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(cudnn)
        model.set_attn_implementation(before)


def stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """Token ids that end a reply: the generation config's and the tokenizer's."""
    eos = getattr(model.generation_config, "eos_token_id", None)
    listed = eos if isinstance(eos, list) else [eos]
    return sorted({int(token) for token in [*listed, tokenizer.eos_token_id] if token is not None})


@dataclass
class _Row:
    number: int
    prompt: tuple[int, ...]
    limit: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


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
    its seed alone, not on its neighbours. Raises ValueError if sampling is asked for without seeds, InputError for a
    model with layers of another kind than full or sliding-window attention.
    """
    if temperature > 0 and seeds is None:
        raise ValueError("sampling needs one seed per row")
    room = [limits] * len(prompts) if isinstance(limits, int) else list(limits)
    rows = [_Row(at, tuple(prompt), limit) for at, (prompt, limit) in enumerate(zip(prompts, room, strict=True))]
    uniform = None
    if temperature > 0 and seeds is not None:
        draws = [torch.rand(max(room), generator=torch.Generator().manual_seed(s), dtype=torch.float64) for s in seeds]
        uniform = torch.stack(draws).to(model.device)
    stops, drafts, vocabulary = set(eos), Drafts(prompts), model.config.get_text_config().vocab_size
    first = {row.prompt: row for row in reversed(rows)}
    with grouped_attention(model):
        read, which = _read(model, list(first), pad), {prompt: at for at, prompt in enumerate(first)}
        # one row of each prompt goes first: the others draft from what it wrote
        for wave in (list(first.values()), [row for row in rows if first[row.prompt] is not row]):
            live, width = wave, max((len(row.prompt) + row.limit for row in wave), default=0)
            if live:
                cache = read.spread([which[row.prompt] for row in live], width)
            while live:
                most = min(CHUNK, LOGITS // (len(live) * vocabulary), max(row.limit - len(row.tokens) for row in live))
                guesses = drafts.propose([row.number for row in live], max(0, most - 1))
                longest = max(map(len, guesses))
                last = [(row.tokens or row.prompt)[-1] for row in live]
                padded = [[*guess, *[pad] * (longest - len(guess))] for guess in guesses]
                ids = torch.tensor([[t, *more] for t, more in zip(last, padded, strict=True)], device=model.device)
                sizes = [(row.number, len(row.prompt), len(row.tokens), row.limit) for row in live]
                number, prompt, done, limit = torch.tensor(sizes, device=model.device)[:, :, None].unbind(1)
                steps = done + torch.arange(longest + 1, device=model.device)  # the new token that each position gives
                # what lies beyond a row's limit goes to one column that no token within the limit sees
                logits = _forward(model, cache, slice(len(live)), ids, prompt - 1 + steps.minimum(limit)).float()
                if uniform is None:
                    chosen = logits.argmax(-1)
                else:
                    logits = logits / temperature
                    numbers = uniform[number, steps.clamp(max=uniform.shape[1] - 1)]
                    flat = _truncated(logits.flatten(0, 1), top_p, top_k)
                    chosen = _inverse_cdf(flat, numbers.flatten()).view_as(ids)
                logprobs = logits.gather(2, chosen[:, :, None])[:, :, 0] - logits.logsumexp(-1)
                right = (chosen[:, :-1] == ids[:, 1:]).cumprod(1).sum(1)
                for row, *result in zip(live, chosen.tolist(), logprobs.tolist(), right.tolist(), strict=True):
                    drafts.accept(row.number, _take(row, stops, *result))
                going = [len(row.tokens) < row.limit and row.tokens[-1] not in stops for row in live]
                live = [live[at] for at in cache.close_gaps(going)]
    return [(row.tokens, row.logprobs) for row in rows]


def _take(row: _Row, stops: set[int], chosen: list[int], logprobs: list[float], right: int) -> list[int]:
    """Add the tokens chosen after a right draft, and the one after that, to the row; returns them."""
    new = chosen[: min(right + 1, row.limit - len(row.tokens))]
    new = new[: next((at for at, token in enumerate(new, 1) if token in stops), None)]
    row.tokens += new
    row.logprobs += logprobs[: len(new)]
    return new


def _read(model: Any, prompts: Sequence[Sequence[int]], pad: int) -> RowCache:
    """The keys and values of every prompt but its last token."""
    width = max(map(len, prompts)) - 1
    cache = RowCache(len(prompts), width)
    at_once = max(1, PREFILL // max(1, width))
    for start in range(0, len(prompts) if width else 0, at_once):
        some = prompts[start : start + at_once]
        ids = torch.tensor([[*p[:-1], *[pad] * (width + 1 - len(p))] for p in some], device=model.device)
        positions = torch.arange(width, device=model.device).expand(len(some), -1)
        _forward(model, cache, slice(start, start + len(some)), ids, positions, logits_to_keep=1)
    return cache


def _forward(model: Any, cache: RowCache, rows: slice, ids: Any, positions: Any, logits_to_keep: int = 0) -> Any:
    """Logits [rows, tokens, vocabulary] (0 keeps all tokens'); ids, positions: LongTensor [rows, tokens]."""
    cache.aim(rows, positions)
    out = model(
        input_ids=ids,
        attention_mask=_masks(model, positions, cache.width),
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=logits_to_keep,
    )
    return out.logits


def _masks(model: Any, positions: Any, width: int) -> Any:
    """Additive masks [rows, 1, tokens, width], by kind of layer if there are several: a token sees none after it."""
    config, columns = model.config.get_text_config(), torch.arange(width, device=model.device)
    kinds, window = set(getattr(config, "layer_types", None) or ()), getattr(config, "sliding_window", None)
    if not kinds <= {"full_attention", "sliding_attention"}:
        raise InputError(f"decoding needs full or sliding attention in every layer, this model has {sorted(kinds)}")
    blank = torch.zeros(len(positions), 1, positions.shape[1], width, device=model.device, dtype=model.dtype)
    here, hidden = positions[:, None, :, None], torch.finfo(model.dtype).min
    full = blank.masked_fill(columns > here, hidden)
    if window is None or kinds == {"full_attention"}:
        return full
    sliding = full.masked_fill(columns <= here - window, hidden)
    return {"full_attention": full, "sliding_attention": sliding} if kinds else sliding


def _truncated(logits: Any, top_p: float, top_k: int) -> Any:
    if top_k > 0:
        floor = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
        logits = logits.masked_fill(logits < floor, -torch.inf)
    if top_p < 1:
        kept, best = torch.full_like(logits, -torch.inf), logits.argmax(-1, keepdim=True)
        kept.scatter_(-1, best, logits.gather(-1, best))
        # most draws are as good as certain: only where one token is not enough are all of them sorted
        several = (logits.softmax(-1).amax(-1) <= top_p).nonzero()[:, 0]
        ordered, order = logits[several].sort(descending=True)
        probs = ordered.softmax(-1)
        outside = probs.cumsum(-1) - probs > top_p  # the token that crosses top_p stays in
        kept[several] = kept[several].scatter(-1, order, ordered.masked_fill(outside, -torch.inf))
        logits = kept
    return logits


def _inverse_cdf(logits: Any, uniform: Any) -> Any:
    """The token at which the cumulated probabilities pass a number in [0, 1), never one of probability 0.

    logits [draws, vocabulary], uniform float64 [draws]. Cumulated are first blocks of tokens, in float64, and then only
    the tokens of the block that holds the number: of a large vocabulary all would take longer than the model.
    """
    weights = (logits - logits.amax(-1, keepdim=True)).exp_()
    padded = torch.nn.functional.pad(weights, (0, -weights.shape[-1] % BLOCK))
    blocks = padded.view(len(padded), -1, BLOCK)
    ends = blocks.sum(-1).double().cumsum(-1)
    target = uniform * ends[:, -1]
    block = _first_beyond(ends, target)
    here = torch.arange(len(block), device=block.device)
    starts = torch.nn.functional.pad(ends, (1, 0))[here, block]
    return block * BLOCK + _first_beyond(blocks[here, block].double().cumsum(-1), target - starts)


def _first_beyond(ends: Any, target: Any) -> Any:
    """Where non-decreasing numbers [draws, numbers] first exceed a target [draws], or else first reach their last."""
    beyond = torch.searchsorted(ends, target[:, None], right=True)
    return torch.minimum(beyond, torch.searchsorted(ends, ends[:, -1:].contiguous()))[:, 0]
