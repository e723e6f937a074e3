"""Write what training changed as a small adapter.

python -m train.export.difference MODEL [MODEL ...] BASE FOLDER [--rank 32]

This is for runs that trained all weights: such a model has hundreds of megabytes, the adapter about twenty.
`train.export.lora` merges it into the base again. With several models, such as seeds, the adapter is that of their mean
(a "model soup", Wortsman et al., 2022).
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_zeval.errors import InputError
from rag_zeval.models.folder import model_config, read_card
from rag_zeval.streams import command_line
from train.export.lora import load_model, save_adapter


def keep_difference(
    models: Annotated[list[Path], typer.Argument(help="The folders of the trained models.")],
    base: Annotated[Path, typer.Argument(help="The folder of the model that its training began with.")],
    folder: Annotated[Path, typer.Argument(help="The folder to write the adapter to.")],
    rank: Annotated[int, typer.Option(min=1, help="Rank of the adapter.")] = 32,
) -> None:
    """Write, in half precision, the LoRA adapter that is nearest to the change of the linear layers in training.

    It keeps the largest `rank` singular values of each layer's mean change. No matrix of this rank is nearer (Eckart
    and Young, 1936). Changes of embeddings and norms are left out. Prints the share of the squared change that is kept.

    Raises InputError if a folder has no model, if a model has other layers than the base, or if nothing changed.
    """
    for place in (*models, base):
        model_config(place)
    import torch
    from peft import LoraConfig, get_peft_model
    from peft.tuners.lora import Linear

    before = load_model(str(base))
    old = {name: weight.detach() for name, weight in before.named_parameters()}
    changes = {name: torch.zeros_like(weight) for name, weight in old.items()}
    for model in models:
        new = {name: weight.detach() for name, weight in load_model(str(model)).named_parameters()}
        if {name: weight.shape for name, weight in new.items()} != {name: weight.shape for name, weight in old.items()}:
            raise InputError(f"{model}: its layers are not those of {base}, so it was not trained from that model")
        for name, weight in new.items():
            changes[name] += (weight - old[name]) / len(models)
    total = sum(float(change.square().sum()) for change in changes.values())
    if total == 0:
        raise InputError(f"{models[0]}: its weights are those of {base}, so there is no difference to keep")
    config = LoraConfig(r=rank, lora_alpha=rank, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(before, config)
    kept = 0.0
    for name, layer in adapted.named_modules():
        if isinstance(layer, Linear):
            change = changes[f"{name.removeprefix('base_model.model.')}.weight"]
            left, sizes, right = torch.linalg.svd(change, full_matrices=False)
            root = sizes[:rank].sqrt()
            _set(layer.lora_A["default"].weight, root[:, None] * right[:rank])
            _set(layer.lora_B["default"].weight, left[:, :rank] * root)
            kept += float(sizes[:rank].square().sum())
    save_adapter(adapted, read_card(models[0]), folder)
    print(f"{folder}: an adapter of rank {rank}, with {kept / total:.3f} of the squared change")


def _set(weight: Any, values: Any) -> None:
    """Set a LoRA matrix to these values. If the layer is smaller than the rank, the rest is zeros."""
    weight.data.zero_()
    weight.data[: values.shape[0], : values.shape[1]] = values


main = command_line(keep_difference, "train.export.difference", "Write what training changed as an adapter.")

if __name__ == "__main__":
    sys.exit(main())
