"""The process that decodes rollouts on a CPU. It imports no verl, so that it is ready seconds earlier."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rag_zeval.models.decoding import Generated, generate, stop_ids
from train.freed_memory import give_back


class Decoder:
    """A copy of the policy in a process of its own; after each update it is sent the new weights.

    folder: of the policy that training starts from; dtype: a name of torch's, such as "bfloat16"; attention: of
    transformers' implementations.
    """

    def __init__(self, folder: str, dtype: str, attention: str) -> None:
        load = AutoModelForCausalLM.from_pretrained
        self.model = load(folder, dtype=getattr(torch, dtype), attn_implementation=attention).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        self.eos = stop_ids(self.model, tokenizer)
        self.pad = self.eos[0] if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def ready(self) -> bool:
        """Answers when the policy is loaded."""
        return True

    def decode(
        self,
        prompts: Sequence[Sequence[int]],
        limits: Sequence[int],
        sampling: Mapping[str, Any],
        seeds: Sequence[int],
    ) -> Generated:
        """The token ids of each request, and their log-probabilities. sampling: temperature, top_p and top_k."""
        decoded = generate(self.model, prompts, limits, **sampling, seeds=seeds, eos=self.eos, pad=self.pad)
        give_back()  # the trainer of this rank is next
        return decoded

    def load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Take over all parameters, in own precision. Raises RuntimeError if a name is missing or unknown."""
        own = self.model.state_dict()
        tied = {"lm_head.weight"} if self.model.config.tie_word_embeddings else set()
        unknown, missing = weights.keys() - own.keys(), own.keys() - weights.keys() - tied
        if unknown or missing:
            raise RuntimeError(f"weights do not fit: unknown {sorted(unknown)[:4]}, missing {sorted(missing)[:4]}")
        for name, value in weights.items():
            own[name].copy_(value)
