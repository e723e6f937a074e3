"""What verl loads first, in each of its processes."""

from train.verl_rehearsal import distribution, tiny_tokenizer

distribution.rename()
tiny_tokenizer.leave_to_the_folder()

from verl.workers.rollout.replica import RolloutReplicaRegistry  # noqa: E402 (asks which vLLM is installed)


def _load_replica() -> type:
    from train.verl_rehearsal.server import Replica

    return Replica


RolloutReplicaRegistry.register("vllm", _load_replica)
