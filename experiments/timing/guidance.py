"""Context-aware decoding by our decoders and by transformers' own guidance, on the same prompts."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

ALPHAS = (0.0, -0.5, -1.0, -1.4)
SMALL = {  # a shape for a CPU
    "vocab_size": 8000,
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 768,
}


class Prompts(NamedTuple):
    """Token ids of the same questions in both streams."""

    with_passage: list[list[int]]
    without_passage: list[list[int]]


def random_qwen2(shape: dict[str, int] = SMALL, device: str = "cpu", dtype: str = "float32") -> Any:
    """A Qwen2 of this shape (keys of its config) with random weights, which never ends a text."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config

    torch.manual_seed(0)
    config = Qwen2Config(**shape, tie_word_embeddings=False, eos_token_id=None)
    with torch.device(device):  # a copy of 7B parameters may not fit beside them
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval().requires_grad_(False)
    for weights in model.parameters():
        if weights.dim() == 2:
            torch.nn.init.normal_(weights, std=0.05)
    return model


def random_prompts(questions: int, passage_tokens: int, vocabulary: int = SMALL["vocab_size"]) -> Prompts:
    rng = random.Random(1)
    without = [[rng.randrange(3, vocabulary) for _ in range(rng.randrange(24, 40))] for _ in range(questions)]
    return Prompts([[rng.randrange(3, vocabulary) for _ in range(passage_tokens)] + one for one in without], without)


def our_answers(decode: Callable[..., Any], prompts: Prompts, new_tokens: int) -> list[list[int]]:
    """Token ids for each question and alpha, by one of our decoders: all in one call."""
    answers = decode(*prompts, ALPHAS, new_tokens, stops=())
    return [list(response.ids) for responses in answers for response in responses]


def guided_answers(model: Any, prompts: Prompts, new_tokens: int) -> list[list[int]]:
    """The same by transformers' guidance: one call for each question and alpha."""
    import torch

    answers = []
    for prompt, negative in zip(*prompts, strict=True):
        ids, negative_ids = (torch.tensor([tokens], device=model.device) for tokens in (prompt, negative))
        settings: dict[str, Any] = {"do_sample": False, "max_new_tokens": new_tokens, "pad_token_id": 0}
        for alpha in ALPHAS:
            guidance = {"guidance_scale": 1 + alpha, "negative_prompt_ids": negative_ids} if alpha else {}
            out = model.generate(ids, attention_mask=torch.ones_like(ids), **settings, **guidance)
            answers.append(out[0, len(prompt) :].tolist())
    return answers
