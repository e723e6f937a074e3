"""Converts the included nano base to Qwen2's architecture with an untied head, as Qwen2.5-7B has it."""

import shutil
from pathlib import Path
from typing import Any

import torch

WINDOW = 32_768  # tokens, as Qwen2.5: the profile's own lengths must fit
TOLERANCE = 1e-3  # largest difference of logits, which are at most about 20
NOT_COPIED = ("config.json", "model.safetensors", "README.md", "training.json")


def make(base: Path, folder: Path) -> Path:
    """Write the model into `folder` and return the folder.

    Raises RuntimeError if the model's logits differ from those of the base.
    """
    from transformers import AutoModelForCausalLM, Qwen2ForCausalLM

    llama = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = Qwen2ForCausalLM(_qwen2_config(llama.config))
    model.load_state_dict(_qwen2_weights(llama))
    ids = torch.arange(3, llama.config.vocab_size // 2).unsqueeze(0)
    with torch.no_grad():
        difference = float((llama(ids).logits - model(ids).logits).abs().max())
    if difference > TOLERANCE:
        raise RuntimeError(f"the tiny model is not its base: logits differ by {difference:.2g}")
    model.save_pretrained(folder)
    for path in base.iterdir():
        if path.is_file() and path.name not in NOT_COPIED:
            shutil.copyfile(path, folder / path.name)
    return folder


def _qwen2_config(config: Any) -> Any:
    from transformers import Qwen2Config

    same = (
        "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
        "rms_norm_eps eos_token_id pad_token_id bos_token_id attention_dropout"
    ).split()
    return Qwen2Config(
        **{name: getattr(config, name) for name in same},
        rope_parameters=dict(config.rope_parameters),
        max_position_embeddings=WINDOW,
        tie_word_embeddings=False,
    )


def _qwen2_weights(llama: Any) -> dict[str, Any]:
    """Return the base's weights under Qwen2's names.

    Qwen2 has no bias on the attention's output. A bias on the values has the same effect, because the attention weights
    of a token sum to 1.
    """
    weights = dict(llama.state_dict())
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    for layer in range(llama.config.num_hidden_layers):
        attention = f"model.layers.{layer}.self_attn"
        output, bias = (weights.pop(f"{attention}.o_proj.{name}").double() for name in ("weight", "bias"))
        weights[f"{attention}.o_proj.weight"] = output.float()
        values = weights[f"{attention}.v_proj.bias"].double()
        weights[f"{attention}.v_proj.bias"] = (values + torch.linalg.solve(output, bias)).float()
    return weights
