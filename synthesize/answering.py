"""Answer batches of questions with a model, and compute how large a batch may be for the free memory.

Import this module only where torch is needed anyway.
"""

import logging
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import psutil
import torch
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.models.decoding import GrowingLayer, stop_ids
from rag_zeval.models.folder import loading
from rag_zeval.stages.world import true_support
from synthesize.cad import Response, decode
from synthesize.jobs import Batch, JobReader
from synthesize.settings import Settings
from synthesize.sources import SourceQuestion

log = logging.getLogger(__name__)

SHARE = 0.8  # share of the free memory to use; the rest is for fragmentation, the system and uncounted tensors
LOGITS = 6  # most float32 copies of a step's logits: both streams', weighted and not, their sum, the next ones


class Answerer:
    """A model that answers questions at each alpha of the settings.

    Raises InputError if transformers cannot load a model from the folder, or if the device does not exist. With vLLM,
    the packed decoder's model is loaded later and may raise it then.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.reader = JobReader(settings)
        self.tokenizer = self.reader.tokenizer
        self.vllm = _on_vllm(settings) if settings.engine == "vllm" else None
        self.stops = stop_ids(self.vllm or self.model, self.tokenizer)

    @cached_property
    def model(self) -> Any:
        """The packed decoder's model. With vLLM it is loaded only when vLLM first loses a pair."""
        return _load(self.settings)

    def batch_tokens(self, longest: int, sharing: int = 1) -> int:
        """Return how many cached tokens of a batch fit into the free memory, at least 1.

        longest: tokens of the longest prompt. sharing: number of processes that share the memory.
        """
        if self.vllm:
            return self.vllm.cache_tokens
        free = free_bytes(self.model.device) // sharing
        return fitting_tokens(self.model, free, self.settings.batch_size, len(self.settings.alphas), longest)

    def answers(self, batches: Iterable[Batch]) -> Iterator[list[Row]]:
        """Yield the rows of each batch."""
        return map(self.answer, batches)

    def answer(self, batch: Batch) -> list[Row]:
        """Return a row for each job, in their order.

        If a batch fails, its jobs are tried one by one. A job that fails alone gets a row with the reason.
        """
        reason = None
        try:
            answers = self._decode(batch)
        except torch.AcceleratorError:  # the GPU cannot be used any more
            raise
        except RuntimeError as error:  # mostly out of memory: one question must not make the others fail
            reason = (str(error) or type(error).__name__).splitlines()[0]
        # Outside of the except block, where the error would keep the caches in memory.
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
            return decode(self.model, *prompts, alphas, *limits, self.settings.mixing)
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
        whole = {
            "alpha": response.alpha,
            "text": self.tokenizer.decode(ids, skip_special_tokens=True).strip(),
            "n_tokens": len(response.ids),
            "finished": response.finished,
        }
        row = self.reader.shortened(whole)
        return row | {"true_support": None if question.facts is None else true_support(row["text"], question.facts)}


def _on_vllm(settings: Settings) -> Any:
    try:
        from synthesize.vllm_cad import VLLMDecoder
    except ImportError as error:
        raise InputError("config: key 'engine' is vllm, but vLLM is missing: pip install vllm") from error
    with loading(settings.model) as path:
        return VLLMDecoder(path, settings.dtype)


def _load(settings: Settings) -> Any:
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise InputError("config: key 'device' is cuda, but torch finds no GPU")
    device = settings.device if settings.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    disable_progress_bar()  # the stage shows its own
    with loading(settings.model) as path:
        model: Any = AutoModelForCausalLM.from_pretrained(
            path, dtype=getattr(torch, settings.dtype), trust_remote_code=False
        )
    return model.to(device).eval()


def free_bytes(device: Any) -> int:
    """Return the free bytes of a torch device. For the CPU: what the system can give without swapping."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    return int(psutil.virtual_memory().available)


def cached_token_bytes(model: Any) -> int:
    """Return the bytes of one token's keys and values in all layers."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.num_hidden_layers * heads * width * 2 * model.dtype.itemsize


def needed_bytes(model: Any, tokens: int, rows: int, branches: int, longest: int) -> int:
    """Return an upper bound of the bytes that decoding a batch needs, without the model's weights.

    tokens: cached tokens of the batch, as `jobs.batches` counts them. rows: its questions. branches: number of alphas.
    longest: tokens of the longest prompt.

    The sum has the copies of one layer's keys and values while prompts are packed, and the spare columns of each row in
    both streams. It also has the pass over the longest prompt, with the mask that a prefix shared by all prompts needs.
    """
    config = model.config.get_text_config()
    layers = config.num_hidden_layers
    cached = (tokens + 2 * rows * GrowingLayer.ROOM) * cached_token_bytes(model) * (layers + 2) // layers
    logits = LOGITS * 4 * rows * branches * config.vocab_size
    pass_tokens = max(longest, rows * branches)
    states = pass_tokens * (3 * config.intermediate_size + 6 * config.hidden_size) * model.dtype.itemsize
    mask = longest**2 * (model.dtype.itemsize + 1) if rows > 1 else 0
    return cached + logits + states + mask


def fitting_tokens(model: Any, free: int, rows: int, branches: int, longest: int) -> int:
    """Return the most cached tokens for which `needed_bytes` stays within SHARE of `free` bytes, at least 1."""
    spare = int(SHARE * free) - needed_bytes(model, 0, rows, branches, longest)
    layers = model.config.get_text_config().num_hidden_layers
    return max(1, spare * layers // (cached_token_bytes(model) * (layers + 2)))
