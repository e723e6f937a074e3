"""What a run will do, from its settings alone: steps and disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omegaconf import DictConfig

from rag_zeval.errors import InputError
from train.gpu_memory import BYTES
from train.model_shape import Shape
from train.settings import Stage


def count_steps(verl: DictConfig, rows: int) -> int:
    """Optimizer steps of the whole run. Raises InputError if there are too few rows for one, or for those wanted."""
    batch, trainer = verl.data.train_batch_size, verl.trainer
    steps = rows // batch * trainer.total_epochs
    wanted = trainer.get("total_training_steps")
    if steps == 0:
        raise InputError(f"{rows} training rows do not fill one step of verl.data.train_batch_size={batch}")
    if wanted and wanted > steps:
        raise InputError(f"verl.trainer.total_training_steps={wanted}: the rows are enough for {steps} steps")
    return wanted or steps


def describe_steps(verl: DictConfig, stages: Sequence[Stage]) -> str:
    """`343 steps of 32 prompts x 8 rollouts: K=3 from step 1, K=4 from step 172`; stages have numbers of rows."""
    batch, rollouts, seen, switches = verl.data.train_batch_size, verl.actor_rollout_ref.rollout.n, 0, []
    for stage in stages:
        switches.append(f"K={stage.k} from step {seen // batch + 1}")
        seen += stage.rows or 0
    return f"{count_steps(verl, seen)} steps of {batch} prompts x {rollouts} rollouts: {', '.join(switches)}"


@dataclass(frozen=True)
class Disk:
    """Bytes on disk: what one checkpoint holds, how many stand at once, the model, what is kept of the best step."""

    contents: dict[str, float]
    checkpoints: int | None  # None: every one is kept, and how many there will be is not known
    export: float
    best: float = 0.0

    @property
    def checkpoint(self) -> float:
        return sum(self.contents.values())

    @property
    def total(self) -> float | None:
        """All that stands at once at most; None if that is not known."""
        return None if self.checkpoints is None else self.checkpoint * self.checkpoints + self.best + self.export


def plan_disk(shape: Shape, verl: DictConfig, steps: int | None, export: str = "last") -> Disk:
    """What verl's FSDP checkpoints take.

    model and hf_model are the weights in the engine's dtype (with `save_lora_only` the adapter alone), optimizer two
    numbers of it a trained parameter. verl removes an old checkpoint before it writes the next, but does not know of
    the one that an interrupted run went on from: so `max_actor_ckpt_to_keep`, and one more. With `export` "best" the
    weights of the best step outlive its checkpoint.
    """
    worker = verl.actor_rollout_ref
    saved, rank = worker.actor.checkpoint, worker.model.lora_rank
    stored = BYTES[worker.actor.fsdp_config.model_dtype or "fp32"]
    adapter = shape.adapter(rank, worker.model.target_modules) if rank else 0
    numbers = {
        "model": adapter if rank and saved.get("save_lora_only") else shape.parameters + adapter,
        "optimizer": 2 * (adapter or shape.parameters),
        "hf_model": shape.parameters + adapter,
    }
    keep, every = verl.trainer.max_actor_ckpt_to_keep, verl.trainer.save_freq
    ever = -(-steps // every) if steps else None  # the last step is always saved
    contents = {name: float(stored * count) for name, count in numbers.items() if name in saved.save_contents}
    return Disk(
        contents,
        min(keep + 1, ever or keep + 1) if keep else ever,
        float((4 if rank else stored) * shape.parameters),  # a merged adapter is exported in fp32
        contents["model" if rank else "hf_model"] if export == "best" and keep else 0.0,
    )
