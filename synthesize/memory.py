"""How many cached tokens a batch may have, from the memory that is free once the model is loaded.

Imported only where torch is already needed.
"""

from __future__ import annotations

from typing import Any

import psutil
import torch

from rag_zeval.models.decoding import GrowingLayer

SHARE = 0.8  # of the free memory; the rest is left to fragments, the system, and what is not counted here
LOGITS = 6  # float32 copies of a step's logits at most: both streams', weighted and not, their sum, the next ones


def free_bytes(device: Any) -> int:
    """Bytes free on a torch device; on the CPU, those that the system can give without swapping."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    return int(psutil.virtual_memory().available)


def cached_token_bytes(model: Any) -> int:
    """Keys and values of one token in all layers."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.num_hidden_layers * heads * width * 2 * model.dtype.itemsize


def needed_bytes(model: Any, tokens: int, rows: int, branches: int, longest: int) -> int:
    """What decoding a batch takes at most, the model's weights aside.

    tokens: cached tokens of the batch, as `jobs.batches` counts them; rows: its questions; branches: alphas; longest:
    tokens of the longest prompt. A layer's keys and values are copied when prompts are packed, and each row of both
    streams has spare columns; the longest prompt is read alone.
    """
    config = model.config.get_text_config()
    layers = config.num_hidden_layers
    cached = (tokens + 2 * rows * GrowingLayer.ROOM) * cached_token_bytes(model) * (layers + 2) // layers
    logits = LOGITS * 4 * rows * branches * config.vocab_size
    pass_tokens = max(longest, rows * branches)
    states = pass_tokens * (3 * config.intermediate_size + 6 * config.hidden_size) * model.dtype.itemsize
    return cached + logits + states


def fitting_tokens(model: Any, free: int, rows: int, branches: int, longest: int) -> int:
    """The most cached tokens for which `needed_bytes` stays within SHARE of `free` bytes; at least 1."""
    spare = int(SHARE * free) - needed_bytes(model, 0, rows, branches, longest)
    layers = model.config.get_text_config().num_hidden_layers
    return max(1, spare * layers // (cached_token_bytes(model) * (layers + 2)))
