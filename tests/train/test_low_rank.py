"""LoRA layers with the adapter's part added in one product give what peft's own give."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from train.verl_cpu.low_rank import fuse_adapters


@pytest.mark.parametrize("state", ["on", "off", "merged"])
def test_outputs_and_gradients_are_pefts(state: str) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 8}
    base = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=4, initializer_range=0.3))
    lora = LoraConfig(r=4, lora_alpha=12, target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(base, lora)
    ids = torch.randint(8, (2, 5))

    def outputs_and_gradients() -> list[torch.Tensor]:
        model.zero_grad()
        logits = model(ids).logits
        if logits.requires_grad:
            logits.sin().sum().backward()
        return [logits.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    def both_ways() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        plain = outputs_and_gradients()
        fuse_adapters(model)
        return plain, outputs_and_gradients()

    if state == "merged":
        model.merge_adapter()
    if state == "off":
        with model.disable_adapter():
            plain, fused = both_ways()
    else:
        plain, fused = both_ways()
    assert len(plain) == len(fused) and (len(plain) > 1) == (state == "on")
    for one, other in zip(plain, fused, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
