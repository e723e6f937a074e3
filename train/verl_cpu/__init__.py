"""A CPU platform for verl 0.9.1, loaded by `VERL_PLATFORM=cpu VERL_USE_EXTERNAL_MODULES=train.verl_cpu`.

It uses verl's extension points: the platform registry, the rollout registries (rollout name `hf_cpu`), and the engine
registry. `actor_rollout_ref.model.external_lib` loads `engine` in every worker. Beyond that, `platform` replaces verl's
functions that create process groups, to use gloo, and `replay` the one that distributes rows.
"""

from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplicaRegistry

from train.verl_cpu import platform  # noqa: F401  (registers the platform)

ROLLOUT = "hf_cpu"


def _load_replica() -> type:
    from train.verl_cpu.rollout import Replica

    return Replica


base._ROLLOUT_REGISTRY[(ROLLOUT, "async")] = "train.verl_cpu.rollout.ServerAdapter"
RolloutReplicaRegistry.register(ROLLOUT, _load_replica)
