"""The engine of GPU runs, on a CPU. `actor_rollout_ref.model.external_lib=train.verl_rehearsal.engine` loads it.

Unlike `train.verl_cpu.engine` it does not change verl's forward pass: packed rows, dynamic batches, verl's own
log-probabilities.
"""

from verl.workers.engine import EngineRegistry

from train.verl_cpu.unpinned import UnpinnedEngine


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class RehearsalEngine(UnpinnedEngine):
    """The engine of `train.linear_decay`, registered for the CPU."""
