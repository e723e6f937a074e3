"""A model folder, run in this process with vLLM."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import model_sha256
from rag_zeval.models.batched import BatchedModel
from rag_zeval.models.language_model import Messages, Reply, Request, chat_ids, read_card, too_long

WAVE = 256  # requests handed over at once: the replies of a wave come together, so this bounds what a kill loses


class VLLMBackend(BatchedModel):
    """A causal language model on vLLM's own scheduler. Raises InputError without vLLM or without a model there."""

    at_once = WAVE

    def __init__(self, folder: str, *, gpu_memory_utilization: float = 0.9):
        super().__init__()
        self.name = folder
        self.identity = f"weights {model_sha256(folder)}"
        self.card = read_card(folder)
        try:
            from vllm import LLM
        except ImportError as error:
            raise InputError(f"model 'vllm:{folder}': vLLM is missing: pip install vllm") from error
        self._llm = LLM(model=folder, seed=0, gpu_memory_utilization=gpu_memory_utilization, generation_config="vllm")
        self._tokenizer = self._llm.get_tokenizer()
        self.max_context: int = self._llm.llm_engine.model_config.max_model_len

    def count_tokens(self, messages: Messages) -> int:
        return len(chat_ids(self._tokenizer, messages))

    def replies_to(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        prompts: list[tuple[int, Request, list[int]]] = []
        for index, request in enumerate(requests):
            prompt = chat_ids(self._tokenizer, request.messages)
            if len(prompt) >= self.max_context:  # vLLM would refuse the whole wave
                yield index, too_long(len(prompt), self.max_context)
            else:
                prompts.append((index, request, prompt))
        for start in range(0, len(prompts), WAVE):
            wave = prompts[start : start + WAVE]
            started = time.perf_counter()
            outputs = self._llm.generate(
                [{"prompt_token_ids": prompt} for _, _, prompt in wave],
                [self._params(request, len(prompt)) for _, request, prompt in wave],
                use_tqdm=False,
            )
            seconds = (time.perf_counter() - started) / len(wave)
            for (index, _, prompt), output in zip(wave, outputs, strict=True):
                done = output.outputs[0]
                status = "ok" if done.finish_reason == "stop" else "truncated"
                yield index, Reply(done.text, status, len(prompt), len(done.token_ids), calls=1, seconds=seconds)

    def _params(self, request: Request, prompt_tokens: int) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        schema = request.response_schema
        return SamplingParams(
            temperature=request.sampling.temperature,
            top_p=request.sampling.top_p,
            max_tokens=min(request.sampling.max_tokens, self.max_context - prompt_tokens),
            seed=request.seed,
            structured_outputs=StructuredOutputsParams(json=schema) if schema is not None else None,
        )
