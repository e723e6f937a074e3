"""Adapters of LoRA runs: read them from verl's checkpoints, save them as peft does, merge them into a plain model.

python -m train.export.lora ADAPTER [ADAPTER ...] FOLDER    # a plain model of adapters and the base of the first

Several adapters are those of successive runs. Each run started from the model of the run before, as training does after
a cold start.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_zeval.errors import InputError
from rag_zeval.files import read_json, write_json
from rag_zeval.models.folder import read_card
from rag_zeval.stages.weights import share_weights
from rag_zeval.streams import command_line
from rag_zeval.text import one_line
from train.export.plain_model import complete

if TYPE_CHECKING:
    import torch

META = "lora_train_meta.json"  # verl writes it only into checkpoints of models with an adapter


def has_adapter(checkpoint: Path) -> bool:
    return (checkpoint / META).is_file()


def read_adapter(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Return the whole LoRA matrices of a checkpoint of verl's FSDP2 engine, under peft's names.

    Each rank's file has its slice of every tensor along the first dimension. If ranks hold copies, the slices of the
    first copy come first. Files are loaded with `weights_only=True`, so they cannot run code.
    """
    import torch
    import torch.distributed.tensor  # the type of the slices, which torch.load needs to know

    world = json.loads((checkpoint / "fsdp_config.json").read_text(encoding="utf-8"))["world_size"]
    slices: dict[str, list[Any]] = {}
    for rank in range(world):
        path = checkpoint / f"model_world_size_{world}_rank_{rank}.pt"
        for name, tensor in torch.load(path, map_location="cpu", weights_only=True).items():
            if "lora_" in name:
                slices.setdefault(name.replace(".default.", "."), []).append(tensor)
    return {
        name: torch.cat([piece.to_local() for piece in pieces])[: pieces[0].shape[0]] for name, pieces in slices.items()
    }


def trained_model(checkpoint: Path, base: str) -> Any:
    """Return a peft model: `base` in fp32 with the checkpoint's adapter, rounded to half precision as it is saved.

    verl 0.9.1 itself writes no model that can be loaded. Its hf_model has peft's names on the base (verl's pull request
    4770), and its model_merger does not merge the adapter and writes bf16.

    Raises InputError if there is no base, or if the adapter does not fit it. Tested with checkpoints that verl's FSDP2
    engine wrote on the CPU, with one rank and with two, but not on a GPU.
    """
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict

    meta = json.loads((checkpoint / META).read_text(encoding="utf-8"))
    adapter = read_adapter(checkpoint)
    modules = sorted({name.removeprefix("base_model.model.").rsplit(".lora_", 1)[0] for name in adapter})
    config = LoraConfig(r=meta["r"], lora_alpha=meta["lora_alpha"], target_modules=modules, task_type=meta["task_type"])
    plain = load_model(base)
    try:
        model: Any = get_peft_model(plain, config)
        loaded: Any = set_peft_model_state_dict(model, {name: matrix.half() for name, matrix in adapter.items()})
    except (ValueError, RuntimeError) as error:  # the base has no such modules, or modules of other sizes
        raise InputError(f"{checkpoint}: its adapter does not fit {base}: {str(error).splitlines()[0]}") from error
    if loaded.unexpected_keys:
        raise InputError(f"{checkpoint}: its adapter does not fit {base}: no place for {loaded.unexpected_keys[0]}")
    return model


def save_adapter(model: Any, card: Mapping[str, Any], folder: Path) -> None:
    """Save a peft model's adapter in half precision, and the judge's card."""
    from safetensors.torch import load_file, save_file

    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)  # peft's empty template of a card
    weights = folder / "adapter_model.safetensors"
    save_file({name: matrix.half() for name, matrix in load_file(weights).items()}, weights, {"format": "pt"})
    share_weights(folder)
    write_json(folder / "rag_zeval.json", card)


def merge(
    adapters: Annotated[list[Path], typer.Argument(help="The folders of the adapters.")],
    folder: Annotated[Path, typer.Argument(help="The folder to write the merged model to.")],
) -> None:
    """Write a plain model in fp32: the base that the first adapter names, with all adapters merged in turn.

    Raises InputError if an adapter or the base is missing, or if an adapter does not fit.
    """
    from peft import PeftModel

    for adapter in adapters:
        if not (adapter / "adapter_config.json").is_file():
            raise InputError(f"{adapter}: no adapter here")
    base = str(read_json(adapters[0] / "adapter_config.json").get("base_model_name_or_path"))
    try:
        model = load_model(base)
    except InputError as error:
        raise InputError(f"{adapters[0]}: its base {base} cannot be loaded; `make model` makes it") from error
    for adapter in adapters:
        try:
            model = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
        except Exception as error:  # peft raises several kinds for an adapter of other layers, safetensors its own
            raise InputError(f"{adapter}: cannot be merged into {base}: {one_line(str(error))}") from error
    model.save_pretrained(folder)
    complete(folder, [Path(base)], {**read_card(base), **read_card(adapters[-1])})
    print(folder)


def load_model(base: str) -> Any:
    """Load a causal language model in fp32. Raises InputError if there is none."""
    import torch
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    except (OSError, ValueError) as error:
        raise InputError(f"{base}: no language model can be loaded: {one_line(str(error))}") from error


main = command_line(merge, "train.export.lora", "Merge adapters, in this order, into the base of the first one.")

if __name__ == "__main__":
    sys.exit(main())
