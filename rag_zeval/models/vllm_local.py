"""A model folder, run in this process with vLLM."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from rag_zeval.errors import InputError, needed
from rag_zeval.models.batched import FolderModel, Job
from rag_zeval.models.language_model import Reply

WAVE = 256  # requests passed to vLLM at once; all replies of a wave arrive together, so a kill loses at most these


class VLLMBackend(FolderModel):
    """A causal language model with vLLM's scheduler, spread over `gpus` GPUs.

    Raises InputError without vLLM, if the folder has no model, and if vLLM refuses its settings: fewer GPUs on this
    machine, or a number that does not divide the model's attention heads.
    """

    at_once = WAVE

    def __init__(self, folder: str, gpus: int = 1):
        super().__init__(folder)
        with needed("vllm", f"model 'vllm:{folder}'"):
            from vllm import LLM
        settings = {"seed": 0, "gpu_memory_utilization": 0.9, "generation_config": "vllm"}
        try:
            self._llm = LLM(model=folder, tensor_parallel_size=gpus, **settings)
        except ValueError as error:  # includes pydantic's errors
            raise InputError(f"model 'vllm:{folder}': vLLM refuses it: {error}") from error
        self.tokenizer = self._llm.get_tokenizer()
        self.max_context = self._llm.llm_engine.model_config.max_model_len

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Reply]]:
        for start in range(0, len(jobs), WAVE):
            wave = jobs[start : start + WAVE]
            started = time.perf_counter()
            outputs = self._llm.generate(
                [{"prompt_token_ids": job.prompt} for job in wave],
                [_params(job) for job in wave],
                use_tqdm=False,
            )
            seconds = (time.perf_counter() - started) / len(wave)
            for job, output in zip(wave, outputs, strict=True):
                done = output.outputs[0]
                status = "ok" if done.finish_reason == "stop" else "truncated"
                tokens = len(job.prompt), len(done.token_ids)
                yield job.index, Reply(done.text, status, *tokens, calls=1, seconds=seconds)


def _params(job: Job) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    schema = job.request.response_schema
    return SamplingParams(
        temperature=job.request.sampling.temperature,
        top_p=job.request.sampling.top_p,
        max_tokens=job.limit,
        seed=job.request.seed,
        structured_outputs=StructuredOutputsParams(json=schema) if schema is not None else None,
    )
