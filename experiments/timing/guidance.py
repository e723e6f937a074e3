"""Context-aware decoding on random weights: by our decoders, and by transformers' own guidance, their peer."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

ALPHAS = (0.0, -0.5, -1.0, -1.4)
SMALL = {  # for a CPU
    "vocab_size": 8000,
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 768,
}

Tokens = list[list[int]]


def random_qwen2(shape: dict[str, int], device: str = "cpu", dtype: str = "float32") -> Any:
    """A Qwen2 of this shape (keys of its config) with random weights, which never ends a text."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config

    torch.manual_seed(0)
    config = Qwen2Config(**shape, tie_word_embeddings=False, eos_token_id=None)
    with torch.device(device):  # made where and as it is used: 7B parameters, once
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval().requires_grad_(False)
    for weights in model.parameters():
        if weights.dim() == 2:
            torch.nn.init.normal_(weights, std=0.05)
    return model


def random_prompts(vocabulary: int, questions: int, passage_tokens: int) -> tuple[Tokens, Tokens]:
    """Token ids of questions behind passages of this length, and of the questions alone."""
    rng = random.Random(1)
    without = [[rng.randrange(3, vocabulary) for _ in range(rng.randrange(24, 40))] for _ in range(questions)]
    return [[rng.randrange(3, vocabulary) for _ in range(passage_tokens)] + question for question in without], without


def packed_answers(decode: Callable[..., Any], prompts: Tokens, without: Tokens, new_tokens: int) -> Tokens:
    """Token ids of an answer for each prompt and alpha, by one of our decoders: all of them in one call."""
    answers = decode(prompts, without, ALPHAS, new_tokens, stops=())
    return [list(response.ids) for responses in answers for response in responses]


def guided_answers(model: Any, prompts: Tokens, without: Tokens, new_tokens: int) -> Tokens:
    """Token ids of an answer for each prompt and alpha, greedy, one of them a call."""
    return [
        _guided(model, prompt, negative, alpha, new_tokens)
        for prompt, negative in zip(prompts, without, strict=True)
        for alpha in ALPHAS
    ]


def _guided(model: Any, prompt: list[int], negative: list[int], alpha: float, new_tokens: int) -> list[int]:
    import torch

    ids, negative_ids = (torch.tensor([tokens], device=model.device) for tokens in (prompt, negative))
    guidance = {"guidance_scale": 1 + alpha, "negative_prompt_ids": negative_ids} if alpha else {}
    mask = torch.ones_like(ids)
    settings: dict[str, Any] = {"do_sample": False, "max_new_tokens": new_tokens, "pad_token_id": 0}
    out = model.generate(ids, attention_mask=mask, **settings, **guidance)
    return out[0, len(prompt) :].tolist()


def widest_tie(model: Any, prompts: Tokens, without: Tokens, first: Tokens, second: Tokens) -> float:
    """How far apart the two best mixed logits lie, at most, where answers for the same prompts and alphas part."""
    import torch

    asked = [(p, n, alpha) for p, n in zip(prompts, without, strict=True) for alpha in ALPHAS]
    widest = 0.0
    for (prompt, negative, alpha), own, other in zip(asked, first, second, strict=True):
        if own != other:
            shared = next(at for at, pair in enumerate(zip(own, other, strict=True)) if pair[0] != pair[1])
            texts: Sequence[list[int]] = (prompt + own[:shared], negative + own[:shared])
            logits, unguided = (model(torch.tensor([ids])).logits[0, -1] for ids in texts)
            best: Any = ((1 + alpha) * logits - alpha * unguided).topk(2).values
            widest = max(widest, float(best[0] - best[1]))
    return widest
