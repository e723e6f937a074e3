"""Sample from a small Llama with CUDA graphs: replaying a graph writes one token of every row.

When transformers decodes a model of a hundred million weights on a GPU, it spends the time on launching kernels and not
on computing. A graph launches all kernels of a token at once. Rows that have ended leave the batch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from rag_zeval.errors import InputError
from rag_zeval.models.decoding import Generated

BLOCK = 64  # a graph attends to a multiple of so many columns
CHECK = 16  # tokens between two checks for rows that have ended
SMALLEST = 8  # rows in the smallest graph
PREFILL = 64  # prompts in one pass


def check_kind(config: Any) -> None:
    """Raise InputError if the Sampler cannot decode a model with this config of transformers."""
    if config.model_type != "llama" or config.rope_parameters["rope_type"] != "default":
        raise InputError(f"train.one_gpu decodes plain Llamas only; this model's type is '{config.model_type}'")


class Sampler:
    """Samples up to `rows` replies of a Llama at once, in bfloat16 on a GPU. On a CPU: in float32, without graphs.

    prompt_room, reply_room: most tokens of a prompt and of a reply. Call `load` with the weights before `sample`. All
    prompts end in the same column, so all rows write to the same column. config: one that `check_kind` accepts.

        sampler = Sampler(model.config, 64, 300, 500, eos=[2], device=model.device)
        sampler.load(model.state_dict())
        [(ids, log_probs), *others] = sampler.sample([prompt_ids], 8, 500, temperature=0.9)
    """

    def __init__(
        self, config: Any, rows: int, prompt_room: int, reply_room: int, eos: Collection[int], device: torch.device
    ):
        self.config, self.device = config, device
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.heads, self.groups, self.width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.prompt_room, self.reply_room = prompt_room, reply_room
        columns = -(-(prompt_room + reply_room) // BLOCK) * BLOCK
        room = (rows, self.groups, columns, self.width)
        empty: dict[str, Any] = {"dtype": self.dtype, "device": device}
        layers = range(config.num_hidden_layers)
        self.keys, self.values = ([torch.zeros(room, **empty) for _ in layers] for _ in range(2))
        frequencies = config.rope_parameters["rope_theta"] ** (
            -torch.arange(0, self.width, 2, device=device).float() / self.width
        )
        angles = torch.outer(torch.arange(columns, device=device).float(), frequencies).repeat(1, 2)
        self.cosines, self.sines = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        number: dict[str, Any] = {"dtype": torch.long, "device": device}
        self.columns, self.column = torch.arange(columns, device=device), torch.zeros(1, **number)
        # For each row: the next token to feed, the column of its prompt's first token, its index in the call.
        self.tokens, self.starts, self.places = (torch.zeros(rows, **number) for _ in range(3))
        self.live = torch.zeros(rows, dtype=torch.bool, device=device)
        # By index in the call. Unused rows of the batch write to the last one.
        self.replies = torch.zeros(rows + 1, reply_room, **number)
        self.log_probs = torch.zeros(rows + 1, reply_room, device=device)
        self.lengths = torch.zeros(rows + 1, **number)
        self.ends = torch.tensor(sorted(eos), device=device)
        self.graphs: dict[tuple[Any, ...], Any] = {}
        self.weights: dict[str, torch.Tensor] = {}

    @torch.no_grad()
    def load(self, weights: dict[str, torch.Tensor]) -> None:
        """Copy the weights of a transformers Llama, given as its state_dict."""
        for name, weight in weights.items():
            if name not in self.weights:
                self.weights[name] = torch.empty_like(weight, dtype=self.dtype, device=self.device)
            self.weights[name].copy_(weight)  # in place, because the graphs refer to these tensors

    @torch.no_grad()
    def sample(self, prompts: Sequence[Sequence[int]], n: int, limit: int, temperature: float) -> Generated:
        """Sample `n` replies to each prompt, of at most `limit` tokens. Temperature 0 is greedy.

        Returns (token ids, log-probabilities at this temperature) of each reply, prompt by prompt. Both include the
        stop token. Random numbers come from the device's default generator.
        """
        rows = len(prompts) * n
        self.places[:rows], self.places[rows:] = torch.arange(rows, device=self.device), len(self.tokens)
        self.live[:rows], self.live[rows:] = True, False
        self.lengths.zero_()
        for first in range(0, len(prompts), PREFILL):
            self._prefill(prompts[first : first + PREFILL], n, first * n)
        self.column.fill_(self.prompt_room - 1)
        for step in range(limit):
            if step % CHECK == 0:
                rows = self._close_gaps(rows)
                if not rows:
                    break
            self._run(self._size(rows), self.prompt_room + step, temperature)
        replies, log_probs, lengths = self.replies.tolist(), self.log_probs.tolist(), self.lengths.tolist()
        return [(replies[at][: lengths[at]], log_probs[at][: lengths[at]]) for at in range(len(prompts) * n)]

    def _size(self, rows: int) -> int:
        """Return the smallest batch size with a graph that has room for so many rows."""
        size = len(self.tokens)
        while size // 2 >= max(rows, SMALLEST):
            size //= 2
        return size

    def _close_gaps(self, rows: int) -> int:
        """Drop ended rows if the rest fits into a smaller graph. Returns how many to decode, 0 if all ended."""
        live = self.live[:rows].tolist()
        count = sum(live)
        if self._size(count) == self._size(rows):
            return rows if count else 0
        gaps = torch.tensor([at for at in range(count) if not live[at]], device=self.device, dtype=torch.long)
        movers = torch.tensor([at for at in range(count, rows) if live[at]], device=self.device, dtype=torch.long)
        for kept in (*self.keys, *self.values, self.tokens, self.starts, self.places, self.live):
            kept[gaps] = kept[movers]
        self.live[count:], self.places[count:] = False, len(self.tokens)
        return count

    def _prefill(self, prompts: Sequence[Sequence[int]], n: int, first: int) -> None:
        """Compute the keys and values of the prompts' tokens, except the last token of each, which is fed later."""
        room = self.prompt_room
        ids = torch.tensor([[0] * (room - len(prompt)) + list(prompt) for prompt in prompts], device=self.device)
        starts = torch.tensor([room - len(prompt) for prompt in prompts], device=self.device)
        columns = self.columns[: room - 1]
        seen = (columns[None, :] <= columns[:, None]) & (columns >= starts[:, None, None])
        mask = (seen | torch.eye(room - 1, dtype=torch.bool, device=self.device))[:, None]  # padding sees itself
        positions = (columns - starts[:, None]).clamp(min=0)
        rows = slice(first, first + len(prompts) * n)

        def attend(layer: int, query: Any, key: Any, value: Any) -> Any:
            query, key, value = (each.transpose(1, 2) for each in (query, key, value))
            self.keys[layer][rows, :, : room - 1] = key.repeat_interleave(n, 0)
            self.values[layer][rows, :, : room - 1] = value.repeat_interleave(n, 0)
            share = self.heads // self.groups
            key, value = key.repeat_interleave(share, 1), value.repeat_interleave(share, 1)
            return scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2)

        self._states(ids[:, :-1], positions, attend)
        self.tokens[rows] = ids[:, -1].repeat_interleave(n)
        self.starts[rows] = starts.repeat_interleave(n)

    def _run(self, rows: int, width: int, temperature: float) -> None:
        width = -(-width // BLOCK) * BLOCK
        if self.device.type != "cuda":
            return self._step(rows, width, temperature)
        key = (rows, width, temperature)
        if key not in self.graphs:
            self.graphs[key] = self._recorded(*key)
        self.graphs[key].replay()
        return None

    def _recorded(self, rows: int, width: int, temperature: float) -> Any:
        """Record the graph of a step. The step runs once before, so that its kernels are loaded."""
        changed = (self.tokens, self.live, self.lengths, self.column)
        before = [each.clone() for each in changed]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        # Without the fork, a resumed run, which records its graphs again, would draw other random numbers.
        with torch.random.fork_rng([self.device]), torch.cuda.stream(stream):
            self._step(rows, width, temperature)
        torch.cuda.current_stream().wait_stream(stream)
        for each, was in zip(changed, before, strict=True):
            each.copy_(was)
        graph = torch.cuda.CUDAGraph()
        pool = next(iter(self.graphs.values())).pool() if self.graphs else None  # all graphs share one memory pool
        with torch.cuda.graph(graph, pool=pool):
            self._step(rows, width, temperature)
        return graph

    def _step(self, rows: int, width: int, temperature: float) -> None:
        """Write one token of each of the first `rows` rows. They attend to the first `width` columns."""
        starts, columns = self.starts[:rows, None], self.columns[:width]
        mask = ((columns <= self.column) & (columns >= starts))[:, None, None]
        mask = mask.expand(rows, 1, self.heads // self.groups, width)

        def attend(layer: int, query: Any, key: Any, value: Any) -> Any:
            # The heads of a group are treated as several queries of the key head that they share.
            for kept, new in ((self.keys[layer], key), (self.values[layer], value)):
                kept[:rows].index_copy_(2, self.column, new.transpose(1, 2))
            folded = query.view(rows, self.groups, self.heads // self.groups, self.width)
            keys, values = (kept[layer][:rows, :, :width] for kept in (self.keys, self.values))
            return scaled_dot_product_attention(folded, keys, values, attn_mask=mask)

        states = self._states(self.tokens[:rows, None], self.column - starts, attend)[:, 0]
        logits = linear(states, self._output()).float()
        if temperature:
            logits = logits / temperature
            noise = torch.empty_like(logits).exponential_()
            chosen = (logits - noise.log_()).argmax(-1)  # Gumbel-max sampling
        else:
            chosen = logits.argmax(-1)
        values = logits.gather(1, chosen[:, None])[:, 0] - logits.logsumexp(-1)
        live, places = self.live[:rows], self.places[:rows]
        step = self.column - (self.prompt_room - 1)
        # A row that has ended writes after its reply, where nothing is read.
        self.replies.index_put_((places, step.expand(rows)), chosen)
        self.log_probs.index_put_((places, step.expand(rows)), values)
        self.lengths.index_add_(0, places, live.long())
        self.live[:rows] = live & ~torch.isin(chosen, self.ends)
        self.tokens[:rows] = chosen
        self.column.add_(1)

    def _states(self, ids: Any, positions: Any, attend: Any) -> Any:
        """Return the hidden states [rows, tokens, size] before the output layer."""
        cosines, sines = self.cosines[positions][:, :, None], self.sines[positions][:, :, None]
        weights, norm = self.weights, self.config.rms_norm_eps
        states = weights["model.embed_tokens.weight"][ids]
        size = states.shape[-1]

        def applied(layer: str, inputs: Any) -> Any:
            return linear(inputs, weights[f"{layer}.weight"], weights.get(f"{layer}.bias"))

        def turned(heads: Any) -> Any:
            half = self.width // 2
            return heads * cosines + torch.cat((-heads[..., half:], heads[..., :half]), -1) * sines

        for layer in range(self.config.num_hidden_layers):
            name = f"model.layers.{layer}."
            inner = rms_norm(states, (size,), weights[name + "input_layernorm.weight"], norm)
            query, key, value = (
                applied(f"{name}self_attn.{part}_proj", inner).unflatten(-1, (-1, self.width)) for part in "qkv"
            )
            out = attend(layer, turned(query), turned(key), value)
            out = out.reshape(*ids.shape, self.heads * self.width)
            states = states + applied(name + "self_attn.o_proj", out)
            inner = rms_norm(states, (size,), weights[name + "post_attention_layernorm.weight"], norm)
            gate, up = (applied(f"{name}mlp.{part}_proj", inner) for part in ("gate", "up"))
            states = states + applied(name + "mlp.down_proj", silu(gate) * up)
        return rms_norm(states, (size,), weights["model.norm.weight"], norm)

    def _output(self) -> Any:
        return self.weights.get("lm_head.weight", self.weights["model.embed_tokens.weight"])
