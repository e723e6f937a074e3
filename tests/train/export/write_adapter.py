"""Run by torchrun in test_lora: verl's FSDP2 engine on a base with an adapter, one optimizer step, one checkpoint.

`write_adapter.py CHECKPOINT BASE SAVE_LORA_ONLY SHARDED_OVER`; the whole weights after it go to CHECKPOINT/weights.pt.
The saved adapter is then read back into an engine whose own was set to 0, as a resumed run does. What the rollout
server gets goes to CHECKPOINT/merged.pt.
"""

import sys

import torch
import torch.distributed as dist
from verl.trainer.config import CheckpointConfig
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig

from train.verl_cpu.engine import CPUEngine

checkpoint, base, only = sys.argv[1], sys.argv[2], sys.argv[3] == "true"
dist.init_process_group("gloo")
contents = ["model", "optimizer", "extra"]
engine = CPUEngine(
    HFModelConfig(
        path=base,
        lora_rank=8,
        lora_alpha=32,
        lora={"merge": True},
        use_remove_padding=False,
        enable_gradient_checkpointing=False,
        override_config={"attn_implementation": "sdpa"},
    ),
    FSDPEngineConfig(
        strategy="fsdp2",
        fsdp_size=int(sys.argv[4]),
        model_dtype="fp32",
        mixed_precision={"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
        use_torch_compile=False,
    ),
    FSDPOptimizerConfig(lr=0.01, total_training_steps=10),
    CheckpointConfig(save_contents=contents, load_contents=contents, save_lora_only=only),
)
engine.initialize()
torch.manual_seed(1)
for parameter in engine.module.parameters():
    if parameter.requires_grad:
        parameter.grad = torch.zeros_like(parameter)
        parameter.grad.to_local().normal_()
engine.optimizer_step()  # so that B is no longer 0
engine.save_checkpoint(checkpoint, global_step=1)


def whole() -> dict[str, torch.Tensor]:
    return {name: tensor.full_tensor().clone() for name, tensor in engine.module.state_dict().items()}


weights = whole()
with torch.no_grad():
    for name, parameter in engine.module.named_parameters():
        if "lora_" in name:
            parameter.to_local().zero_()
engine.load_checkpoint(checkpoint, del_local_after_load=False)
assert all(torch.equal(tensor, weights[name]) for name, tensor in whole().items())
served, _ = engine.get_per_tensor_param()
merged = {name: tensor.clone() for name, tensor in served}
assert all(torch.equal(tensor, weights[name]) for name, tensor in whole().items())
if dist.get_rank() == 0:
    torch.save(weights, f"{checkpoint}/weights.pt")
    torch.save(merged, f"{checkpoint}/merged.pt")
dist.destroy_process_group()
