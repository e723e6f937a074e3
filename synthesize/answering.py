"""From batches to rows: decoding, text. Imported only where torch is already needed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.models.decoding import stop_ids
from rag_zeval.stages.world import true_support
from synthesize.cad import Response, decode
from synthesize.jobs import Batch, JobReader, model_path
from synthesize.memory import fitting_tokens, free_bytes
from synthesize.settings import Settings
from synthesize.sources import SourceQuestion

log = logging.getLogger(__name__)


class Answerer:
    """A model that answers questions at each alpha of the settings.

    Raises InputError when the folder holds no model that transformers can load, or there is no such device.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.tokenizer = JobReader(settings).tokenizer
        self.vllm = _on_vllm(settings) if settings.engine == "vllm" else None
        self.stops = stop_ids(self.vllm or self.model, self.tokenizer)

    @cached_property
    def model(self) -> Any:
        """The packed decoder's; beside vLLM it is loaded for the first pair that vLLM leaves."""
        return _load(self.settings)

    def batch_tokens(self, longest: int, sharing: int = 1) -> int:
        """How many cached tokens of a batch the free memory holds; at least 1.

        longest: tokens of the longest prompt; sharing: processes that use the same memory.
        """
        if self.vllm:
            return self.vllm.cache_tokens
        free = free_bytes(self.model.device) // sharing
        return fitting_tokens(self.model, free, self.settings.batch_size, len(self.settings.alphas), longest)

    def answers(self, batches: Iterable[Batch]) -> Iterator[list[Row]]:
        """The rows of each batch."""
        return map(self.answer, batches)

    def answer(self, batch: Batch) -> list[Row]:
        """A row for each job, in their order."""
        reason = None
        try:
            answers = self._decode(batch)
        except torch.AcceleratorError:  # the GPU is in no state to answer anything more
            raise
        except RuntimeError as error:  # out of memory, mostly: one question must not take the others with it
            reason = (str(error) or type(error).__name__).splitlines()[0]
        # behind the block: in it, the error would hold the caches that did not fit
        if reason is not None and len(batch) == 1:
            return [batch[0].row(f"failed: {reason}")]
        if reason is not None:
            log.warning("%d questions together failed (%s): trying one by one", len(batch), reason)
            return [row for job in batch for row in self.answer([job])]
        return [
            job.row("ok", [self._response(job.question, response) for response in responses])
            for job, responses in zip(batch, answers, strict=True)
        ]

    def _decode(self, batch: Batch) -> list[list[Response]]:
        prompts = [job.with_passage for job in batch], [job.without_passage for job in batch]
        alphas, limits = self.settings.alphas, (self.settings.max_new_tokens, self.stops)
        if self.vllm is None:
            return decode(self.model, *prompts, alphas, *limits)
        answers, lost = [], 0
        for job, coupled in zip(batch, self.vllm.decode(*prompts, alphas, *limits), strict=True):
            left = [alpha for alpha, response in zip(alphas, coupled, strict=True) if response is None]
            alone = [job.with_passage], [job.without_passage]
            packed = iter(decode(self.model, *alone, left, *limits)[0] if left else [])
            answers.append([response or next(packed) for response in coupled])
            lost += len(left)
        if lost:
            log.warning("vLLM lost %d pairs of a batch of %d questions: the packed decoder answered", lost, len(batch))
        return answers

    def _response(self, question: SourceQuestion, response: Response) -> Row:
        ids = response.ids[:-1] if response.finished else response.ids
        text = self.tokenizer.decode(ids, skip_special_tokens=True).strip()
        return {
            "alpha": response.alpha,
            "text": text,
            "n_tokens": len(response.ids),
            "finished": response.finished,
            "true_support": None if question.facts is None else true_support(text, question.facts),
        }


def _on_vllm(settings: Settings) -> Any:
    try:
        from synthesize.vllm_cad import VLLMDecoder
    except ImportError as error:
        raise InputError("config: key 'engine' is vllm, but vLLM is missing: pip install vllm") from error
    with model_path(settings) as path:
        return VLLMDecoder(path, settings.dtype)


def _load(settings: Settings) -> Any:
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise InputError("config: key 'device' is cuda, but torch finds no GPU")
    device = settings.device if settings.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    disable_progress_bar()  # ours is enough
    with model_path(settings) as path:
        model: Any = AutoModelForCausalLM.from_pretrained(
            path, dtype=getattr(torch, settings.dtype), trust_remote_code=False
        )
    return model.to(device).eval()
