"""The FSDP2 engine on CPUs, with gloo. `actor_rollout_ref.model.external_lib=train.verl_cpu.engine` loads it."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from verl.utils import tensordict_utils as tu
from verl.utils.fsdp_utils import merged_lora_context, normalize_peft_param_name
from verl.workers.engine import EngineRegistry
from verl.workers.utils.padding import response_from_nested

from train.chosen_tokens import Chosen, Values, log_probs_and_entropy
from train.freed_memory import give_back_if_short
from train.verl_cpu.low_rank import fuse_adapters
from train.verl_cpu.shared_prefix import ATTENTION, pack
from train.verl_cpu.unpinned import UnpinnedEngine


@EngineRegistry.register(model_type="language_model", backend=["fsdp2"], device="cpu")
class CPUEngine(UnpinnedEngine):
    """Computes prefixes shared by rows of a micro-batch once, and measures whether rollouts agree with the weights."""

    served = False  # whether the rollout server has the current weights
    last = True  # whether the current micro-batch is the last one of an update

    def _build_module(self) -> Any:
        module = super()._build_module()
        module.set_attn_implementation(ATTENTION)
        return module

    def _build_lora_module(self, module: Any) -> Any:
        module = super()._build_lora_module(module)
        fuse_adapters(module)
        return module

    def forward_backward_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Do what verl does, but FSDP casts and copies the weights once for all micro-batches, not twice for each.

        Numbers below 1e-38 count as 0. A sharp attention has many of them, and the CPU is far slower with them.
        """
        parts = [part for part in self.module.modules() if isinstance(part, FSDPModule)]
        for part in parts:
            part.set_reshard_after_forward(False, recurse=False)
            part.set_reshard_after_backward(False, recurse=False)
        torch.set_flush_denormal(True)  # of this thread, in which the backward pass runs too
        try:
            return super().forward_backward_batch(*args, **kwargs)
        finally:
            torch.set_flush_denormal(False)
            for part in parts:
                part.reshard()  # the optimizer changes the sharded originals

    def prepare_model_inputs(self, micro_batch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the packed token ids, and which tokens need probabilities: all logits would cost too much."""
        tokens = micro_batch["input_ids"]
        packed = pack([row.tolist() for row in tokens.unbind()])
        looked_at = _looked_at(micro_batch)
        kept, of_kept = torch.unique(packed.places[looked_at], return_inverse=True)
        head = self.module.get_output_embeddings()
        head.forward = partial(  # until the outputs of this pass are prepared
            _log_probs_of_head,
            head,
            Chosen(of_kept, torch.roll(tokens.values(), -1)[looked_at]),
            float(micro_batch["temperature"]),
            tu.get_non_tensor_data(micro_batch, "calculate_entropy", default=False),
        )
        inputs = {"input_ids": packed.input_ids, "position_ids": packed.position_ids, "packed_rows": packed}
        return {**inputs, "logits_to_keep": kept}, {"looked_at": looked_at, "of_kept": of_kept}

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: Any, logits_processor_func: Any
    ) -> dict[str, torch.Tensor]:
        """Return nested log_probs (and entropy, if requested) as verl does: at each token the value of the next token.

        Values that no loss uses are 0. verl has meaningless numbers there.
        """
        del self.module.get_output_embeddings().forward
        looked_at, of_kept = output_args["looked_at"], output_args["of_kept"]
        log_probs, entropy = output.logits
        values = {"log_probs": log_probs}
        if entropy is not None:
            values["entropy"] = entropy.index_select(0, of_kept)
        places = looked_at.nonzero().squeeze(1)
        everywhere = {
            name: value.new_zeros(len(looked_at)).index_copy(0, places, value) for name, value in values.items()
        }
        offsets = micro_batch["input_ids"].offsets()
        return {name: torch.nested.nested_tensor_from_jagged(value, offsets) for name, value in everywhere.items()}

    def forward_step(
        self, micro_batch: Any, loss_function: Any, forward_only: bool
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Do what verl does, and add the metric `rollout_probs_diff_max` while the weights are those of the rollouts.

        The metric is the largest |p in training - p in the rollout| of a response token. It is near 0 as long as
        rollout and training agree. A micro-batch that teaches nothing is skipped. The last one is never skipped,
        because the ranks exchange gradients in it.
        """
        if not forward_only and not self.last and _teaches_nothing(micro_batch):
            return self._skipped(micro_batch, loss_function)
        give_back_if_short()
        loss, output = super().forward_step(micro_batch, loss_function, forward_only)
        if not forward_only and self.served and "rollout_log_probs" in micro_batch:
            trained = response_from_nested(output["model_output"]["log_probs"], micro_batch["response_mask"]).values()
            rolled_out, mask = (micro_batch[name].values() for name in ("rollout_log_probs", "response_mask"))
            difference = (trained.exp() - rolled_out.exp()).abs() * mask
            output["metrics"]["rollout_probs_diff_max"] = difference.max().item()
        return loss, output

    def _skipped(self, micro_batch: Any, loss_function: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the loss (0) and verl's metrics of a skipped micro-batch, with the old log-probabilities."""
        looked_at = _looked_at(micro_batch)
        values = torch.zeros(len(looked_at)).masked_scatter(looked_at, micro_batch["old_log_probs"].values().float())
        offsets = micro_batch["input_ids"].offsets()
        log_probs = torch.nested.nested_tensor_from_jagged(values.requires_grad_(), offsets)
        group = self.get_data_parallel_group()
        loss, metrics = loss_function(model_output={"log_probs": log_probs}, data=micro_batch, dp_group=group)
        return loss, {"model_output": {"log_probs": log_probs.detach()}, "loss": loss.item(), "metrics": metrics}

    def _gradient_sync_context(self, *, is_last_micro_batch: bool) -> Any:
        self.last = is_last_micro_batch
        return super()._gradient_sync_context(is_last_micro_batch=is_last_micro_batch)

    def get_per_tensor_param(self, *args: Any, **kwargs: Any) -> Any:
        self.served = True  # verl calls this only to send the weights to the server
        return super().get_per_tensor_param(*args, **kwargs)

    def _merged_lora_per_tensor_param(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the weights of base and adapter merged, in the training's precision. verl rounds them to bfloat16."""
        with merged_lora_context(self.module, backup_adapters=True):
            for name, weight in normalize_peft_param_name(self.module.state_dict()).items():
                yield name, (weight.full_tensor() if isinstance(weight, DTensor) else weight).clone()

    def optimizer_step(self) -> Any:
        self.served = False
        return super().optimizer_step()


def _log_probs_of_head(
    head: torch.nn.Linear, chosen: Chosen, temperature: float, with_entropy: bool, hidden: torch.Tensor
) -> Values:
    """Return log-probabilities and entropy from the output layer, instead of logits. hidden: [1, places, size]."""
    return log_probs_and_entropy(hidden[0], head.weight, head.bias, chosen, temperature, with_entropy)


def _teaches_nothing(micro_batch: Any) -> bool:
    """Whether all advantages of a micro-batch are 0, and neither KL nor entropy changes the policy."""
    if "advantages" not in micro_batch or "ref_log_prob" in micro_batch:
        return False
    has_entropy = tu.get_non_tensor_data(micro_batch, "calculate_entropy", default=False)
    return not has_entropy and not micro_batch["advantages"].values().any()


def _looked_at(micro_batch: Any) -> torch.Tensor:
    """Return for each token, row after row, whether a loss uses the probability of the next token.

    SFT rows have a `loss_mask` over all tokens. Rollouts have a `response_mask` over the response, which is the end of
    the row.
    """
    tokens = micro_batch["input_ids"]
    if "response_mask" not in micro_batch:
        return torch.roll(micro_batch["loss_mask"].values(), -1) != 0
    looked_at = torch.zeros(len(tokens.values()), dtype=torch.bool)
    lengths = micro_batch["response_mask"].offsets().diff()
    for end, length in zip(tokens.offsets()[1:].tolist(), lengths.tolist(), strict=True):
        looked_at[end - length - 1 : end - 1] = True
    return looked_at
