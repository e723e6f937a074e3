"""From verl's checkpoint of a LoRA run to a plain model: the base's weights with the adapter added to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_zeval.errors import InputError

if TYPE_CHECKING:
    import torch

META = "lora_train_meta.json"  # verl writes it into the checkpoint of a model with an adapter, and no other


def has_adapter(checkpoint: Path) -> bool:
    return (checkpoint / META).is_file()


def read_adapter(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The LoRA matrices in a checkpoint of verl's FSDP2 engine, whole, under peft's names.

    Each rank's file has its slice of every tensor along the first dimension. Only tensors are read from them.
    """
    import torch
    import torch.distributed.tensor  # what the slices are; with it torch.load knows them

    world = json.loads((checkpoint / "fsdp_config.json").read_text(encoding="utf-8"))["world_size"]
    slices: dict[str, list[Any]] = {}
    for rank in range(world):
        path = checkpoint / f"model_world_size_{world}_rank_{rank}.pt"
        for name, tensor in torch.load(path, map_location="cpu", weights_only=True).items():
            if "lora_" in name:
                slices.setdefault(name.replace(".default.", "."), []).append(tensor)
    return {name: torch.cat([piece.to_local() for piece in pieces]) for name, pieces in slices.items()}


def merge_adapter(checkpoint: Path, base: str, target: Path) -> None:
    """Write `base` with the checkpoint's adapter merged into it, by peft, in fp32, as a plain model folder.

    verl 0.9.1 cannot: its hf_model has peft's names, which nothing loads (its pull request 4770), and its
    model_merger leaves the adapter beside the base, in bf16. Raises InputError if adapter and base do not belong
    together. Tested on checkpoints that verl's own FSDP2 engine wrote on the CPU, by one rank and by two; not on a GPU.
    """
    import torch
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
    from transformers import AutoModelForCausalLM

    meta = json.loads((checkpoint / META).read_text(encoding="utf-8"))
    adapter = read_adapter(checkpoint)
    modules = sorted({name.removeprefix("base_model.model.").rsplit(".lora_", 1)[0] for name in adapter})
    config = LoraConfig(r=meta["r"], lora_alpha=meta["lora_alpha"], target_modules=modules, task_type=meta["task_type"])
    try:
        model: Any = get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), config)
        loaded: Any = set_peft_model_state_dict(model, adapter)
    except (ValueError, RuntimeError) as error:  # no such modules in the base, or of other sizes
        raise InputError(f"{checkpoint}: its adapter does not fit {base}: {str(error).splitlines()[0]}") from error
    if loaded.unexpected_keys:
        raise InputError(f"{checkpoint}: its adapter does not fit {base}: no place for {loaded.unexpected_keys[0]}")
    model.merge_and_unload().save_pretrained(target)
