"""What models in this process share: requests that wait at the same time are computed together."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from rag_zeval.models.language_model import Reply, Request

QUIET_TURNS = 50  # of the event loop without a new request: whoever got a reply asks on within far fewer

Waiting = tuple[Request, "asyncio.Future[Reply]"]


class BatchedModel(ABC):
    """A model to which many requests cost less together than one by one.

    Requests are collected until the event loop has nothing else to do, and then computed, in an order that does not
    depend on their arrival. So the same examples, begun together, always stand in the same batches.
    """

    batched = True
    at_once = 128

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[Waiting] = []
        self._busy = False  # collecting, or handing out

    @abstractmethod
    def replies_to(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Yield `(index, reply)` of each request once, in any order, each computed when it is asked for."""

    async def complete(self, request: Request) -> Reply:
        """The reply to one request, computed with those that wait beside it."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what waited in an earlier one was given up with it
            self._loop, self._waiting, self._busy = loop, [], False
        reply: asyncio.Future[Reply] = loop.create_future()
        self._waiting.append((request, reply))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._collect, loop, 0, 0)
        return await reply

    def _collect(self, loop: asyncio.AbstractEventLoop, seen: int, quiet: int) -> None:
        quiet = quiet + 1 if len(self._waiting) == seen else 0
        if quiet < QUIET_TURNS:
            loop.call_soon(self._collect, loop, len(self._waiting), quiet)
            return
        waiting = sorted((w for w in self._waiting if not w[1].done()), key=lambda w: w[0].seed)
        self._waiting = []
        self._hand_out(loop, waiting, self._compute([request for request, _ in waiting]))

    def _compute(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        yield from self.replies_to(requests)  # so that whatever it raises is raised where replies are handed out

    def _hand_out(
        self, loop: asyncio.AbstractEventLoop, waiting: list[Waiting], replies: Iterator[tuple[int, Reply]]
    ) -> None:
        """One reply a turn: who writes rows then has those of one batch before the next is computed."""
        try:
            index, reply = next(replies)
        except StopIteration:
            self._busy = bool(self._waiting)
            if self._busy:
                loop.call_soon(self._collect, loop, 0, 0)
            return
        except Exception as error:
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            self._busy = False
            return
        if not waiting[index][1].done():
            waiting[index][1].set_result(reply)
        loop.call_soon(self._hand_out, loop, waiting, replies)
