"""Batched decoding with transformers, with several tokens a pass and a seed for every row.

It is speculative decoding (Leviathan et al., 2023) with drafts that are looked up (`drafting`). One pass over a draft
says which token belongs at each of its positions. The draft is kept up to the first token that differs. Every row
chooses its tokens with its own uniform random numbers, one for each new token. So the result is exactly that of
decoding token by token. Finished rows leave the batch.

Import this module only where torch is needed anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from rag_zeval.errors import InputError
from rag_zeval.models.drafting import Drafts
from rag_zeval.models.grammars import Grammar

Generated = list[tuple[list[int], list[float]]]

GROUPED = "grouped_sdpa"  # the name of this attention in transformers
CHUNK = 16  # most tokens of a row in one pass
LOGITS = 2**25  # most logits in one pass: the larger the vocabulary, the shorter the chunks
CHOSEN = 2**21  # most logits that tokens are chosen from at once: as many as a CPU's caches hold
BLOCK = 256  # tokens of a block in `_inverse_cdf`
PREFILL = 2048  # most prompt tokens in one pass (but at least one prompt): more would only take memory


class GrowingLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer in a buffer with spare room. DynamicLayer copies them all at every token."""

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
    """Return an empty cache of GrowingLayers for any decoder-only model with full attention."""
    return Cache(layer_class_to_replicate=GrowingLayer)


class RowCache(Cache):  # type: ignore[misc]
    """Keys and values of a batch of rows. Column t holds a row's token t, so a token that replaces it overwrites it."""

    def __init__(self, rows: int, room: int):
        super().__init__(layers=[])
        self.size, self.width = (rows, room), 0
        self.states: dict[int, tuple[Any, Any]] = {}  # by layer: keys and values [rows, heads, room, head width]

    def aim(self, rows: slice, positions: Any) -> None:
        """Set where the next pass writes. positions: LongTensor [rows, tokens] of columns."""
        self.rows, self.positions = rows, positions
        self.row_numbers = torch.arange(self.size[0], device=positions.device)[rows, None]
        self.unused = slice(self.width, int(positions.max()) + 1)
        self.width = max(self.width, self.unused.stop)

    def update(self, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        if layer_idx not in self.states:
            self.states[layer_idx] = self._room(key_states), self._room(value_states)
        keys, values = self.states[layer_idx]
        for kept, new in ((keys, key_states), (values, value_states)):
            kept[:, :, self.unused] = 0  # shorter rows do not see all of these columns, but none may hold NaN
            kept[self.row_numbers, :, self.positions] = new.transpose(1, 2)
        return keys[self.rows, :, : self.width], values[self.rows, :, : self.width]

    def _room(self, states: Any) -> Any:
        return states.new_empty(self.size[0], states.shape[1], self.size[1], states.shape[3])

    def spread(self, rows: Sequence[int], room: int) -> RowCache:
        """Return a cache whose rows are copies of these rows, with room for `room` tokens each."""
        other = RowCache(len(rows), room)
        other.width = min(self.width, room)
        for layer, pair in self.states.items():
            other.states[layer] = other._room(pair[0]), other._room(pair[1])
            for kept, new in zip(pair, other.states[layer], strict=True):
                new[:, :, : other.width] = kept[rows, :, : other.width]
        return other

    def close_gaps(self, live: Sequence[bool]) -> list[int]:
        """Move the last live rows into the gaps of finished rows. Return each live row's old place, in new order."""
        count = sum(live)
        gaps = [at for at in range(count) if not live[at]]
        movers = [at for at in range(count, len(live)) if live[at]]
        for pair in self.states.values() if gaps else ():
            for kept in pair:
                kept[gaps, :, : self.width] = kept[movers, :, : self.width]
        moved = dict(zip(gaps, movers, strict=True))
        return [moved.get(at, at) for at in range(count)]


def grouped_sdpa(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **kwargs: Any) -> Any:
    """Attend under a 4-D mask without repeating the keys for grouped queries (for transformers' AttentionInterface).

    If there is a mask, transformers copies the whole cache once for each query head of a group. Here the heads of a
    group become further query rows of the one key head that they share.
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
    """Make the model attend with `grouped_sdpa` within this context, on a GPU without cuDNN.

    cuDNN makes a new plan for every width, and the cache is wider at every step. On an H100, a step of context-aware
    decoding at 7B took 322 ms with cuDNN and 70 ms without (16 questions, passages of 500 tokens).
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
    """Return the token ids that end a reply: those of the generation config and of the tokenizer."""
    eos = getattr(model.generation_config, "eos_token_id", None)
    listed = eos if isinstance(eos, list) else [eos]
    return sorted({int(token) for token in [*listed, tokenizer.eos_token_id] if token is not None})


@dataclass
class _Row:
    """One prompt and its reply so far. number: its place in the call. limit: the most new tokens."""

    number: int
    prompt: tuple[int, ...]
    limit: int
    grammar: Grammar | None = None
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def extend(self, tokens: list[int], logprobs: list[float], stops: Collection[int]) -> list[int]:
        """Append new tokens, up to the limit or the first stop token. Return those that were appended."""
        new = tokens[: self.limit - len(self.tokens)]
        new = new[: next((at for at, token in enumerate(new, 1) if token in stops), None)]
        self.tokens += new
        self.logprobs += logprobs[: len(new)]
        if self.grammar is not None:
            self.grammar.extend(new)
        return new

    def is_finished(self, stops: Collection[int]) -> bool:
        return len(self.tokens) == self.limit or self.tokens[-1] in stops


@dataclass(frozen=True)
class _Sampling:
    """How tokens are chosen. uniform: float64 [rows, new tokens], one number in [0, 1) for each; None means greedy."""

    temperature: float
    top_p: float
    top_k: int
    uniform: Any

    def choose(self, logits: Any, allowed: Any | None, guesses: Any, row_numbers: Any, steps: Any) -> tuple[Any, Any]:
        """Choose tokens from logits [rows, positions, vocabulary]; return them and their log-probabilities.

        Both are [rows, positions]. allowed: which tokens may be chosen, bool of the shape of the logits; None means
        all. guesses [rows, positions - 1]: the draft that was fed in. After the first wrong guess of a row, the results
        mean nothing. row_numbers [rows, 1] and steps [rows, positions] say which new token of which row each position
        gives.
        """
        rows, positions, vocabulary = logits.shape
        chosen, logprobs = torch.zeros_like(steps), torch.zeros(rows, positions, device=logits.device)
        fed = torch.nn.functional.pad(guesses, (0, 1), value=-1)
        live = torch.arange(rows, device=logits.device)
        at_once = max(1, CHOSEN // (rows * vocabulary))
        for start in range(0, positions, at_once):
            part = slice(start, start + at_once)
            some = logits[:, part] if len(live) == rows else logits[live, part]
            if allowed is not None:
                some = some.masked_fill(~allowed[live, part], -torch.inf)
            tokens, values = self._choose(some.float(), row_numbers[live], steps[live, part])
            chosen[live, part], logprobs[live, part] = tokens, values
            live = live[(tokens == fed[live, part]).all(1)]
            if not len(live):
                break
        return chosen, logprobs

    def _choose(self, logits: Any, row_numbers: Any, steps: Any) -> tuple[Any, Any]:
        if self.uniform is None:
            chosen = logits.argmax(-1)
            return chosen, _at(logits, chosen) - logits.logsumexp(-1)
        logits = logits / self.temperature
        highest = logits.amax(-1, keepdim=True)
        weights = (logits - highest).exp_()  # the log-probabilities need their sum too, as in logsumexp
        log_sums = weights.sum(-1).log_().add_(highest[:, :, 0])
        if self.top_p < 1 or self.top_k > 0:
            truncated = _truncated(logits.flatten(0, 1), self.top_p, self.top_k)
            weights = (truncated - truncated.amax(-1, keepdim=True)).exp_()
        numbers = self.uniform[row_numbers, steps.clamp(max=self.uniform.shape[1] - 1)]
        chosen = _inverse_cdf(weights.view(-1, logits.shape[-1]), numbers.flatten()).view_as(steps)
        return chosen, _at(logits, chosen) - log_sums


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
    grammars: Sequence[Grammar | None] | None = None,
    eos: Collection[int],
    pad: int = 0,
) -> Generated:
    """Decode all prompts as one batch.

    prompts: token ids, of any lengths. limits: most new tokens, as one number or one per row. temperature: 0 is greedy.
    grammars: of each row, if it must follow one. eos: the tokens that end a row.
    Returns `(token ids, log-probabilities)` for each row. Its stop token is included, if there is one. The
    log-probabilities are those after the temperature but before top-k and top-p, as verl expects of a rollout.
    Row i draws all its uniform numbers from `seeds[i]` and picks tokens by inverse CDF. So its sample depends on its
    seed alone, not on the other rows. Raises ValueError for sampling without seeds, and InputError if a layer's
    attention is neither full nor sliding-window.

        [(ids, logprobs)] = generate(model, [chat_ids(tokenizer, messages)], 512, eos=stop_ids(model, tokenizer))
    """
    if temperature > 0 and seeds is None:
        raise ValueError("sampling needs one seed per row")
    row_limits = [limits] * len(prompts) if isinstance(limits, int) else list(limits)
    each = zip(prompts, row_limits, grammars or [None] * len(prompts), strict=True)
    rows = [_Row(at, tuple(prompt), limit, grammar) for at, (prompt, limit, grammar) in enumerate(each)]
    uniform = None
    if temperature > 0 and seeds is not None:
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        numbers = [torch.rand(max(row_limits), generator=each, dtype=torch.float64) for each in generators]
        uniform = torch.stack(numbers).to(model.device)
    sampling, stops = _Sampling(temperature, top_p, top_k, uniform), set(eos)
    drafts = Drafts(prompts, model.device.type)
    first_rows = {row.prompt: row for row in reversed(rows)}  # the first row of each prompt
    other_rows = [row for row in rows if first_rows[row.prompt] is not row]
    with grouped_attention(model):
        by_length = sorted(first_rows, key=len)  # so that prompts read together need little padding
        prefilled = _prefill(model, by_length, pad)
        places = {prompt: at for at, prompt in enumerate(by_length)}
        # the other rows of a prompt take drafts from its first row, so they wait until that one has ended
        for wave in filter(None, (list(first_rows.values()), other_rows)):
            room = max(len(row.prompt) + row.limit for row in wave)
            cache = prefilled.spread([places[row.prompt] for row in wave], room)
            _decode(model, cache, wave, drafts, sampling, stops, pad)
    return [(row.tokens, row.logprobs) for row in rows]


def _decode(
    model: Any, cache: RowCache, rows: list[_Row], drafts: Drafts, sampling: _Sampling, stops: set[int], pad: int
) -> None:
    """Decode rows to their ends. `cache` holds each row's prompt, except its last token."""
    vocabulary = model.config.get_text_config().vocab_size
    while rows:
        longest_rest = max(row.limit - len(row.tokens) for row in rows)
        chunk = min(CHUNK, LOGITS // (len(rows) * vocabulary), longest_rest)
        guesses = [
            guess if row.grammar is None else guess[: row.grammar.fitting(guess)]
            for row, guess in zip(rows, drafts.propose([row.number for row in rows], max(0, chunk - 1)), strict=True)
        ]
        width = max(map(len, guesses))
        inputs = [
            [(row.tokens or row.prompt)[-1], *guess, *[pad] * (width - len(guess))]
            for row, guess in zip(rows, guesses, strict=True)
        ]
        ids = torch.tensor(inputs, device=model.device)
        sizes = [(row.number, len(row.prompt), len(row.tokens), row.limit) for row in rows]
        row_numbers, prompt_lengths, done, limits = torch.tensor(sizes, device=model.device)[:, :, None].unbind(1)
        steps = done + torch.arange(width + 1, device=model.device)  # number of the new token that a position gives
        # all tokens beyond a row's limit are written to one column, which no token within the limit sees
        positions = prompt_lengths - 1 + steps.minimum(limits)
        logits = _forward(model, cache, slice(len(rows)), ids, positions)
        chosen, logprobs = sampling.choose(logits, _allowed(rows, guesses, logits), ids[:, 1:], row_numbers, steps)
        # guesses count up to the first that differs from the chosen token, and the token chosen there counts as well
        right_guesses = (chosen[:, :-1] == ids[:, 1:]).cumprod(1).sum(1)
        for row, guess, tokens, values, right in zip(
            rows, guesses, chosen.tolist(), logprobs.tolist(), right_guesses.tolist(), strict=True
        ):
            count = min(right, len(guess)) + 1  # what follows is padding
            drafts.accept(row.number, row.extend(tokens[:count], values, stops))
        rows = [rows[at] for at in cache.close_gaps([not row.is_finished(stops) for row in rows])]


def _allowed(rows: Sequence[_Row], guesses: Sequence[Sequence[int]], logits: Any) -> Any | None:
    """Return which tokens the rows' grammars allow, bool of the shape of the logits. None if no row has a grammar.

    After a row's guesses all are allowed, because nothing is read there.
    """
    if all(row.grammar is None for row in rows):
        return None
    allowed = np.ones(logits.shape, dtype=bool)
    for at, (row, guess) in enumerate(zip(rows, guesses, strict=True)):
        for position, mask in enumerate(row.grammar.masks(guess) if row.grammar else ()):
            bits = np.unpackbits(np.frombuffer(mask, dtype=np.uint8), count=logits.shape[-1], bitorder="little")
            allowed[at, position] = bits
    return torch.from_numpy(allowed).to(logits.device)


def _prefill(model: Any, prompts: Sequence[tuple[int, ...]], pad: int) -> RowCache:
    """Return a cache with a row for each prompt: keys and values of all its tokens but the last.

    A beginning that prompts share is computed once. It holds the reference if parts of an answer are judged one by one.
    """
    own = _beginnings(prompts)
    beginnings = {beginning: at for at, beginning in enumerate(dict.fromkeys(own))}
    room = max(map(len, prompts))
    cache = RowCache(len(beginnings), room)
    _fill(model, cache, list(beginnings), [0] * len(beginnings), pad)
    if len(beginnings) < len(prompts):
        cache = cache.spread([beginnings[beginning] for beginning in own], room)
        starts = list(map(len, own))
        rests = [prompt[start:-1] for prompt, start in zip(prompts, starts, strict=True)]
        _fill(model, cache, rests, starts, pad)
    return cache


def _beginnings(prompts: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return for each prompt the beginning to compute first. It never includes the last token.

    Prompts share a beginning if it is at least half of each of them. A prompt that shares none gets all of its tokens
    but the last.
    """
    own = [prompt[:-1] for prompt in prompts]
    family: list[int] = []  # places of prompts that share a beginning
    for place in sorted(range(len(prompts)), key=prompts.__getitem__):
        common = own[place][: common_prefix(own[family[0]], own[place])] if family else ()
        longest = max(len(prompts[at]) for at in (*family, place))
        if 2 * len(common) < longest:
            family, common = [], own[place]
        family.append(place)
        for at in family:
            own[at] = common
    return own


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the number of tokens that both texts begin with."""
    for at, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return at
    return min(len(first), len(second))


def _fill(model: Any, cache: RowCache, texts: Sequence[Sequence[int]], starts: Sequence[int], pad: int) -> None:
    """Compute the keys and values of one text per cache row, after those of the row's first `starts` tokens."""
    at_once = max(1, PREFILL // max(1, *map(len, texts)))
    for first in range(0, len(texts), at_once):
        some = slice(first, first + at_once)
        width = max(map(len, texts[some]))
        if not width:
            continue
        ids = torch.tensor([[*text, *[pad] * (width - len(text))] for text in texts[some]], device=model.device)
        ends = torch.tensor([len(text) for text in texts[some]], device=model.device)[:, None]
        # padding is written to the column after the text, which the next token overwrites
        steps = torch.arange(width, device=model.device).minimum(ends)
        positions = torch.tensor(starts[some], device=model.device)[:, None] + steps
        _forward(model, cache, some, ids, positions, logits_to_keep=1)


def _forward(model: Any, cache: RowCache, rows: slice, ids: Any, positions: Any, logits_to_keep: int = 0) -> Any:
    """Run the model. Return the logits [rows, tokens, vocabulary] of the last `logits_to_keep` tokens (0: of all).

    ids, positions: LongTensor [rows, tokens].
    """
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
    """Return additive masks [rows, 1, tokens, width] that hide later tokens; by kind of layer if there are several.

    Raises InputError for a kind of layer that is neither full nor sliding-window attention.
    """
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


def _at(logits: Any, tokens: Any) -> Any:
    """Return the logit of each token. logits [rows, positions, vocabulary], tokens [rows, positions]."""
    return logits.gather(2, tokens[:, :, None])[:, :, 0]


def _truncated(logits: Any, top_p: float, top_k: int) -> Any:
    if top_k > 0:
        floor = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
        logits = logits.masked_fill(logits < floor, -torch.inf)
    if top_p < 1:
        kept, best = torch.full_like(logits, -torch.inf), logits.argmax(-1, keepdim=True)
        kept.scatter_(-1, best, logits.gather(-1, best))
        # most draws are nearly certain: only if the best token alone does not exceed top_p are all tokens sorted
        several = (logits.softmax(-1).amax(-1) <= top_p).nonzero()[:, 0]
        ordered, order = logits[several].sort(descending=True)
        probs = ordered.softmax(-1)
        outside = probs.cumsum(-1) - probs > top_p  # the token that crosses top_p stays in
        kept[several] = kept[several].scatter(-1, order, ordered.masked_fill(outside, -torch.inf))
        logits = kept
    return logits


def _inverse_cdf(weights: Any, uniform: Any) -> Any:
    """Return the token at which the cumulated probabilities exceed a number in [0, 1), never one of probability 0.

    weights [draws, vocabulary]: the probabilities times any factor. uniform: float64 [draws]. First the sums of blocks
    of tokens are cumulated, in float64, and then only the tokens of the block that holds the number. Cumulating a whole
    large vocabulary would take longer than the model.
    """
    if spare := -weights.shape[-1] % BLOCK:
        weights = torch.nn.functional.pad(weights, (0, spare))
    blocks = weights.view(len(weights), -1, BLOCK)
    ends = blocks.sum(-1).double().cumsum(-1)
    target = uniform * ends[:, -1]
    block = _first_beyond(ends, target)
    here = torch.arange(len(block), device=block.device)
    starts = torch.nn.functional.pad(ends, (1, 0))[here, block]
    return block * BLOCK + _first_beyond(blocks[here, block].double().cumsum(-1), target - starts)


def _first_beyond(ends: Any, target: Any) -> Any:
    """Return where non-decreasing numbers [draws, numbers] first exceed a target [draws], else first reach the last."""
    beyond = torch.searchsorted(ends, target[:, None], right=True)
    return torch.minimum(beyond, torch.searchsorted(ends, ends[:, -1:].contiguous()))[:, 0]
