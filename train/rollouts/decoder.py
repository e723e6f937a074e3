"""The process that decodes rollouts on a CPU. It does not import verl, so it is ready seconds earlier."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rag_zeval.models.decoding import Generated, generate, stop_ids
from train.freed_memory import give_back


class Decoder:
    """A copy of the policy in its own process, which gets the new weights after each update.

    folder: of the policy that training starts from. dtype: name of a torch dtype, such as "bfloat16". attention: name
    of an attention implementation of transformers.
    """

    def __init__(self, folder: str, dtype: str, attention: str) -> None:
        load = AutoModelForCausalLM.from_pretrained
        self.model = load(folder, dtype=getattr(torch, dtype), attn_implementation=attention).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        self.eos = stop_ids(self.model, tokenizer)
        self.pad = self.eos[0] if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def ready(self) -> bool:
        """Return True. A ray actor answers only after its start, so the answer means that the policy is loaded."""
        return True

    def decode(
        self,
        prompts: Sequence[Sequence[int]],
        limits: Sequence[int],
        sampling: Mapping[str, Any],
        seeds: Sequence[int],
    ) -> Generated:
        """Return the token ids of each request and their log-probabilities. sampling: temperature, top_p and top_k."""
        decoded = generate(self.model, prompts, limits, **sampling, seeds=seeds, eos=self.eos, pad=self.pad)
        give_back()  # the trainer of this rank needs the memory next
        return decoded

    def load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Copy all parameters, in this model's precision. Raises RuntimeError if a name is missing or unknown."""
        own = self.model.state_dict()
        tied = {"lm_head.weight"} if self.model.config.tie_word_embeddings else set()
        unknown, missing = weights.keys() - own.keys(), own.keys() - weights.keys() - tied
        if unknown or missing:
            raise RuntimeError(f"weights do not fit: unknown {sorted(unknown)[:4]}, missing {sorted(missing)[:4]}")
        for name, value in weights.items():
            own[name].copy_(value)
