"""A model folder, run with transformers in one or several processes."""

import math
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache, cached_property
from itertools import groupby
from threading import Thread
from typing import Any

from rag_zeval.errors import InputError, needed
from rag_zeval.models.batched import FolderModel, Job
from rag_zeval.models.folder import loading, model_config, window_of
from rag_zeval.models.grammars import Grammars
from rag_zeval.models.language_model import Reply
from rag_zeval.models.precision import choose_dtype, in_identity
from rag_zeval.text import one_line

BATCH_TOKENS = 65_536  # most tokens of prompts, replies and padding in a batch: limits the KV cache
BATCH_ROWS = 64
SIMILAR = 128  # tokens by which the lengths of similar jobs may differ
STORED = "auto"  # transformers' name of the dtype that the weights are stored in


class TransformersBackend(FolderModel):
    """A causal language model with a chat template, on a GPU if there is one, else on the CPU.

    spec: its folder, optionally with the dtype to compute in, as in `models/judge@float32`. The default is the dtype of
    the weights on a GPU, and the faster dtype on a CPU (`choose_dtype`).
    Requests are batched by length. Each has its own seed, so its sample does not depend on its batch.
    If a batch does not fit into memory, its requests run one at a time; one that still does not fit fails.
    processes: how many processes share the batches, each with a copy of the model. The replies do not depend on it. A
    script that uses more than one needs `if __name__ == "__main__":`.
    Raises InputError if the folder has no model, or one that needs its own code or has no chat template.
    """

    def __init__(self, spec: str, processes: int = 1):
        folder, dtype = choose_dtype(spec, on_gpu=STORED)
        super().__init__(folder)
        self.name = spec
        self._elsewhere = (folder if dtype == STORED else f"{folder}@{dtype}", f"{self.identity} {dtype}")
        self._pool: ProcessPoolExecutor | None = None
        self._processes = processes
        if processes > 1:
            self._pool = _processes(processes)
            with _lost_process(folder):
                for _ in range(processes):  # they load the model while this process does
                    self._pool.submit(_load, *self._elsewhere)
            self.at_once *= processes  # with several batches for each, processes seldom wait for each other
        self.tokenizer, self._model, _ = load_folder(folder, "AutoModelForCausalLM", dtype)
        self.identity += in_identity(self._model)
        if not self.tokenizer.chat_template:
            raise InputError(f"{folder}: the tokenizer has no chat template")
        self.max_context = window_of(self._model.config, folder)

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Reply]]:
        batches = list(_batches(jobs, self._processes))
        if self._pool is None or len(batches) == 1:
            for batch in batches:
                yield from self.run_batch(batch)
            return
        longest_first: list[Future[list[tuple[int, Reply]]]] = []
        try:
            with _lost_process(self.name):
                for batch in reversed(batches):
                    longest_first.append(self._pool.submit(_run_elsewhere, *self._elsewhere, batch))
                for done in longest_first:  # in this order, whichever ends first, so that equal runs write equal files
                    yield from done.result()
        except KeyboardInterrupt:
            _kill_processes(self._pool)
            raise
        finally:
            for waiting in longest_first:
                waiting.cancel()

    def run_batch(self, batch: list[Job]) -> Iterator[tuple[int, Reply]]:
        """Yield `(index, reply)` for a batch, computed in this process."""
        failure = None
        try:
            yield from self._generate(batch)
        except RuntimeError as error:  # out of memory; retried below, where the error no longer holds the tensors
            failure = str(error) or type(error).__name__
        if failure is not None and len(batch) > 1:
            for job in batch:
                yield from self.run_batch([job])
        elif failure is not None:
            yield batch[0].index, Reply(None, f"failed: {one_line(failure.splitlines()[0])}", calls=1)

    @cached_property
    def _eos(self) -> list[int]:
        from rag_zeval.models.decoding import stop_ids

        return stop_ids(self._model, self.tokenizer)

    @cached_property
    def _grammars(self) -> Grammars:
        return Grammars(self.tokenizer, self._model.config.get_text_config().vocab_size, self._eos)

    def _generate(self, batch: list[Job]) -> list[tuple[int, Reply]]:
        from rag_zeval.models.decoding import generate

        started = time.perf_counter()
        sampling, eos = batch[0].request.sampling, self._eos
        schemas = [job.request.response_schema for job in batch]
        generated = generate(
            self._model,
            [job.prompt for job in batch],
            [job.limit for job in batch],
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seeds=[job.request.seed for job in batch],
            grammars=[None if schema is None else self._grammars.of(schema) for schema in schemas],
            eos=eos,
            pad=eos[0] if eos else 0,
        )
        seconds = (time.perf_counter() - started) / len(batch)
        replies = []
        for job, (ids, _) in zip(batch, generated, strict=True):
            finished = bool(ids) and ids[-1] in eos
            text = self.tokenizer.decode(
                ids[:-1] if finished else ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            status = "ok" if finished else "truncated"
            reply = Reply(text, status, len(job.prompt), len(ids), calls=1, seconds=seconds)
            replies.append((job.index, reply))
        return replies


@cache
def _processes(count: int) -> ProcessPoolExecutor:
    """Return the pool for all models of this process. Starting a process takes longer than loading a model."""
    spawn = multiprocessing.get_context("spawn")  # torch does not survive a fork
    return ProcessPoolExecutor(count, mp_context=spawn, initializer=_end_with_parent)


def _kill_processes(pool: ProcessPoolExecutor) -> None:
    """End a pool at once. Without this, Python waits at its end for the batches that are being computed."""
    _processes.cache_clear()
    for process in list(pool._processes.values()):
        process.kill()


@contextmanager
def _lost_process(name: str) -> Iterator[None]:
    """Turn the loss of a pool process into an InputError. The next model then gets a new pool."""
    try:
        yield
    except BrokenProcessPool as error:
        _processes.cache_clear()
        raise InputError(f"{name}: a process with this model was killed; did the machine run out of memory?") from error


def _end_with_parent() -> None:
    """Make a pool process ignore Ctrl-C, and end as soon as its parent has ended in any way."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()


_loaded: dict[str, TransformersBackend] = {}  # in a pool process: the last model used, by weights and dtype


def _load(spec: str, key: str) -> None:
    if key not in _loaded:
        _loaded.clear()  # free the memory before the next model is loaded
        _loaded[key] = TransformersBackend(spec)


def _run_elsewhere(spec: str, key: str, batch: list[Job]) -> list[tuple[int, Reply]]:
    _load(spec, key)
    return list(_loaded[key].run_batch(batch))


def _batches(jobs: Sequence[Job], processes: int) -> Iterator[list[Job]]:
    """Yield batches of jobs with equal sampling and similar length, within BATCH_TOKENS (a single job may exceed it).

    Batches are small enough that processes share even a few jobs. Prompts of similar length with the same beginning go
    into the same batch, because a beginning that they share is computed once.
    """
    rows = min(BATCH_ROWS, math.ceil(len(jobs) / processes))

    def sampling(job: Job) -> tuple[float, float]:
        return job.request.sampling.temperature, job.request.sampling.top_p

    ordered = sorted(jobs, key=lambda job: (*sampling(job), job.size // SIMILAR, job.prompt))
    for _, jobs_alike in groupby(ordered, sampling):
        batch: list[Job] = []
        for job in jobs_alike:
            longest = max(one.size for one in (*batch, job))
            if batch and (len(batch) == rows or (len(batch) + 1) * longest > BATCH_TOKENS):
                yield batch
                batch = []
            batch.append(job)
        yield batch


def load_folder(folder: str, kind: str, dtype: str = "float32", own_code: bool = False) -> tuple[Any, Any, int]:
    """Load a folder. Return its tokenizer, its model (on a GPU if there is one), and the number of missing weights.

    kind: the name of a class of transformers. dtype: float32, bfloat16, or STORED. own_code: whether the folder's own
    code may run. Such code has its own tokenizer, so the first result is then None.
    Raises InputError if the folder holds no model, or one that transformers cannot load.
    """
    with needed("torch", f"{folder}: a local model"):
        import torch
    with needed("transformers", f"{folder}: a local model"):
        import transformers

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model_config(folder)  # its message is clearer than that of transformers
    with loading(folder) as path:
        tokenizer = None if own_code else transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        model, loaded = getattr(transformers, kind).from_pretrained(
            path, dtype=dtype, output_loading_info=True, trust_remote_code=own_code
        )
    return tokenizer, model.to(device).eval(), len(loaded["missing_keys"])
