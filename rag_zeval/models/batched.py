"""Batching for models in this process: requests that wait at the same time are computed together."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_zeval.models.folder import model_sha256, read_card
from rag_zeval.models.language_model import Messages, Reply, Request, chat_ids

QUIET_TURNS = 50  # turns of the event loop without a new request, before a batch begins; a follow-up needs far fewer


class BatchedModel(ABC):
    """A model for which requests are cheaper in batches.

    Requests are collected until the event loop has nothing else to do, and then computed in an order that does not
    depend on their arrival. So the same examples, started together, always form the same batches. Several event loops
    may use the model, in threads or nested; each has its own batches.
    """

    batched = True
    at_once = 128

    def __init__(self) -> None:
        self._queues: dict[asyncio.AbstractEventLoop, _Queue] = {}
        self._computing = threading.Lock()

    @abstractmethod
    def replies_to(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Yield `(index, reply)` for each request once, in any order, and compute each lazily."""

    async def complete(self, request: Request) -> Reply:
        """Return the reply to one request, computed in a batch with the others that wait."""
        loop = asyncio.get_running_loop()
        queue = self._queues.get(loop)
        if queue is None or queue.worker.done():
            waiting: list[tuple[Request, asyncio.Future[Reply]]] = []
            worker = loop.create_task(self._compute_batches(waiting))
            worker.add_done_callback(_retrieve)
            queue = self._queues[loop] = _Queue(waiting, worker)
        reply: asyncio.Future[Reply] = loop.create_future()
        queue.waiting.append((request, reply))
        return await reply

    async def _compute_batches(self, waiting: list[tuple[Request, asyncio.Future[Reply]]]) -> None:
        try:
            while waiting:
                seen = quiet = 0
                while quiet < QUIET_TURNS:
                    await asyncio.sleep(0)
                    quiet = quiet + 1 if len(waiting) == seen else 0
                    seen = len(waiting)
                batch = sorted((entry for entry in waiting if not entry[1].done()), key=lambda entry: entry[0].seed)
                waiting.clear()
                await self._compute(batch)
        finally:
            del self._queues[asyncio.get_running_loop()]

    async def _compute(self, batch: Sequence[tuple[Request, asyncio.Future[Reply]]]) -> None:
        try:
            replies = self.replies_to([request for request, _ in batch])
            while (found := self._next(replies)) is not None:
                index, reply = found
                if not batch[index][1].done():
                    batch[index][1].set_result(reply)
                await asyncio.sleep(0)  # so that this row is written before the next is computed
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)

    def _next(self, replies: Iterator[tuple[int, Reply]]) -> tuple[int, Reply] | None:
        with self._computing:  # the model computes for one thread at a time
            return next(replies, None)


def _retrieve(worker: asyncio.Task[None]) -> None:
    """Retrieve the exception of Ctrl-C, which the event loop raises itself. Else asyncio prints it once more."""
    if not worker.cancelled():
        worker.exception()


@dataclass(frozen=True)
class _Queue:
    """The waiting requests of one event loop, and the task that computes them."""

    waiting: list[tuple[Request, asyncio.Future[Reply]]]
    worker: asyncio.Task[None]


@dataclass(frozen=True)
class Job:
    """A request whose prompt (token ids) fits the window. `limit`: most tokens of its reply."""

    index: int
    request: Request
    prompt: list[int]
    limit: int

    @property
    def size(self) -> int:
        return len(self.prompt) + self.limit


class FolderModel(BatchedModel):
    """A causal language model from a folder, with the chat template of its tokenizer.

    The subclass loads the model, and sets `tokenizer` and `max_context`. Raises InputError if the folder has no model.
    """

    tokenizer: Any
    max_context: int | None
    card: Mapping[str, Any]

    def __init__(self, folder: str):
        super().__init__()
        self.name = folder
        self.identity = f"weights {model_sha256(folder)}"
        self.card = read_card(folder)

    def count_tokens(self, messages: Messages) -> int:
        return len(chat_ids(self.tokenizer, messages))

    def replies_to(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        jobs: list[Job] = []
        for index, request in enumerate(requests):
            prompt, limit = chat_ids(self.tokenizer, request.messages), request.sampling.max_tokens
            if self.max_context is not None:
                if len(prompt) >= self.max_context:
                    status = f"failed: prompt needs {len(prompt)} tokens, the model's window is {self.max_context}"
                    yield index, Reply(None, status)
                    continue
                limit = min(limit, self.max_context - len(prompt))
            jobs.append(Job(index, request, prompt, limit))
        yield from self.run(jobs)

    @abstractmethod
    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Reply]]:
        """Yield `(index, reply)` for each job once, in any order."""
