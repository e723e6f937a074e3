"""A model folder, run in this process with transformers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import model_sha256
from rag_zeval.models.batched import BatchedModel
from rag_zeval.models.language_model import Messages, Reply, Request, chat_ids, one_line, read_card, too_long

BATCH_TOKENS = 65_536  # prompt and reply tokens of a batch, padding included: bounds the KV cache
BATCH_ROWS = 64


@dataclass(frozen=True)
class _Job:
    index: int
    request: Request
    prompt: list[int]
    limit: int  # new tokens

    @property
    def size(self) -> int:
        return len(self.prompt) + self.limit


class TransformersBackend(BatchedModel):
    """A causal language model with a chat template, on the GPU if there is one, else the CPU (fp32).

    Requests are batched by length; each has its own seed, so its sample does not depend on its batch.
    A batch that does not fit into memory is run one by one; what does not fit alone fails alone.
    Raises InputError when the folder holds no model, or one that wants code of its own or has no chat template.
    """

    def __init__(self, folder: str, *, batch_tokens: int = BATCH_TOKENS):
        super().__init__()
        self.name = folder
        self.identity = f"weights {model_sha256(folder)}"
        self.card = read_card(folder)
        self.batch_tokens = batch_tokens
        self._tokenizer, self._model = _load(folder)
        self.max_context: int | None = getattr(self._model.config, "max_position_embeddings", None)

    def count_tokens(self, messages: Messages) -> int:
        return len(chat_ids(self._tokenizer, messages))

    def replies_to(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        jobs: list[_Job] = []
        for index, request in enumerate(requests):
            prompt, limit = chat_ids(self._tokenizer, request.messages), request.sampling.max_tokens
            if self.max_context is not None:
                if len(prompt) >= self.max_context:
                    yield index, too_long(len(prompt), self.max_context)
                    continue
                limit = min(limit, self.max_context - len(prompt))
            jobs.append(_Job(index, request, prompt, limit))
        for batch in _batches(jobs, self.batch_tokens):
            yield from self._run(batch)

    def _run(self, batch: list[_Job]) -> Iterator[tuple[int, Reply]]:
        failure = None
        try:
            yield from self._generate(batch)
        except RuntimeError as error:  # out of memory; retried below, where the error no longer holds the tensors
            failure = str(error) or type(error).__name__
        if failure is not None and len(batch) > 1:
            for job in batch:
                yield from self._run([job])
        elif failure is not None:
            yield batch[0].index, Reply(None, f"failed: {one_line(failure.splitlines()[0])}", calls=1)

    def _generate(self, batch: list[_Job]) -> list[tuple[int, Reply]]:
        from rag_zeval.models.decoding import generate, stop_ids

        started = time.perf_counter()
        sampling, eos = batch[0].request.sampling, stop_ids(self._model, self._tokenizer)
        generated = generate(
            self._model,
            [job.prompt for job in batch],
            [job.limit for job in batch],
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seeds=[job.request.seed for job in batch],
            eos=eos,
            pad=eos[0] if eos else 0,
        )
        seconds = (time.perf_counter() - started) / len(batch)
        replies = []
        for job, (ids, _) in zip(batch, generated, strict=True):
            finished = bool(ids) and ids[-1] in eos
            text = self._tokenizer.decode(
                ids[:-1] if finished else ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            status = "ok" if finished else "truncated"
            reply = Reply(text, status, len(job.prompt), len(ids), calls=1, seconds=seconds)
            replies.append((job.index, reply))
        return replies


def _batches(jobs: list[_Job], batch_tokens: int) -> Iterator[list[_Job]]:
    """Jobs of like sampling and length together, within the token bound (one job alone may exceed it)."""
    batch: list[_Job] = []
    for job in sorted(jobs, key=lambda job: (job.request.sampling.temperature, job.request.sampling.top_p, job.size)):
        same = batch and (
            (job.request.sampling.temperature, job.request.sampling.top_p)
            == (batch[0].request.sampling.temperature, batch[0].request.sampling.top_p)
        )
        # sorted by size, so the newest job is the longest row of the batch
        if batch and not (same and len(batch) < BATCH_ROWS and (len(batch) + 1) * job.size <= batch_tokens):
            yield batch
            batch = []
        batch.append(job)
    if batch:
        yield batch


def _load(folder: str) -> tuple[Any, Any]:
    try:
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise InputError(f"{folder}: a local model needs torch: pip install torch transformers") from error

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = "auto" if device == "cuda" else torch.float32
    try:  # a plain path, so nothing is ever looked up on a hub
        path = str(Path(folder).resolve())
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, trust_remote_code=False)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{folder}: not a model transformers can load: {str(error).splitlines()[0]}") from error
    if not tokenizer.chat_template:
        raise InputError(f"{folder}: the tokenizer has no chat template")
    return tokenizer, model.to(device).eval()
