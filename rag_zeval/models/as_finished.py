"""Bridges between plain and async code: runs many requests concurrently, and makes plain functions awaitable."""

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, ParamSpec, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

_END: Any = object()
WAKE_SECONDS = 0.2  # interval at which a waiting event loop wakes up: interrupting a notebook does not wake it


def as_finished(
    ask: Callable[[Item], Awaitable[Result]], items: Iterable[Item], at_once: int
) -> Iterator[tuple[int, Result]]:
    """Yield `(index, await ask(item))` for each item as it finishes, with at most `at_once` running at a time.

    Items are taken lazily, so there may be very many. If `ask` raises, or the caller stops early, all running calls are
    cancelled. The exception of `ask` is raised here. The event loop runs in this thread while the caller waits for a
    result. If this thread already runs an event loop, as in a notebook, another thread is used.

        for index, reply in as_finished(model.complete, requests, model.at_once):
            print(requests[index].messages, reply.text)
    """
    if not _in_a_loop():
        yield from _results(ask, items, at_once, _stop.get())
        return
    stop = _Stop()
    results = _results(ask, items, at_once, stop)
    with ThreadPoolExecutor(1) as thread:
        try:
            while (result := thread.submit(next, results, _END).result()) is not _END:
                yield result
        finally:  # Ctrl-C is raised while this thread waits for the other
            stop.set()
            thread.submit(results.close).result()


def awaitable(work: Callable[Arguments, Result], doc: str) -> Callable[Arguments, Coroutine[Any, Any, Result]]:
    """Return a coroutine function that runs `work` in a thread. Its name is that of `work` with an "a" before it.

    When it is cancelled, `as_finished` and `check_stopped` raise CancelledError inside `work`. The caller gets its own
    CancelledError once `work` has ended. doc: the docstring of the new function.

        aevaluate = awaitable(evaluate, "As `evaluate`, for async code.")
    """

    @functools.wraps(work)
    async def awaited(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        stop, context = _Stop(), copy_context()
        context.run(_stop.set, stop)
        thread = ThreadPoolExecutor(1)
        running = asyncio.wrap_future(thread.submit(context.run, functools.partial(work, *args, **kwargs)))
        thread.shutdown(wait=False)
        try:
            while not running.done():
                await asyncio.wait([running], timeout=WAKE_SECONDS)
            return running.result()
        except asyncio.CancelledError:
            stop.set()
            await asyncio.gather(running, return_exceptions=True)
            raise

    awaited.__name__ = awaited.__qualname__ = f"a{work.__name__}"
    awaited.__doc__ = doc
    return awaited


def check_stopped() -> None:
    """Raise CancelledError if this runs inside an `awaitable` that was cancelled."""
    if (stop := _stop.get()) is not None:
        stop.check()


class _Stop:
    """Lets one thread cancel every `as_finished` that another thread runs, now or later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._ends: list[Callable[[], object]] = []

    def set(self) -> None:
        with self._lock:
            self._is_set = True
            for end in self._ends:
                end()

    def check(self) -> None:
        if self._is_set:
            raise asyncio.CancelledError

    @contextmanager
    def calls(self, end: Callable[[], object]) -> Iterator[None]:
        """Make `set` call `end` within this context. Raises CancelledError if it is set already."""
        with self._lock:
            self.check()
            self._ends.append(end)
        try:
            yield
        finally:
            with self._lock:
                self._ends.remove(end)


_stop: ContextVar[_Stop | None] = ContextVar("stop", default=None)  # that of the `awaitable` that this thread runs


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _cancelled(tasks: Collection[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _results(
    ask: Callable[[Item], Awaitable[Result]], items: Iterable[Item], at_once: int, stop: _Stop | None
) -> Generator[tuple[int, Result], None, None]:
    async def answer(index: int, item: Item) -> tuple[int, Result]:
        return index, await ask(item)

    async def give_up() -> None:
        await _cancelled(under_way)  # first: they cancel their own tasks, of which some have not begun
        await _cancelled(asyncio.all_tasks() - {asyncio.current_task()})

    loop = asyncio.new_event_loop()
    todo = enumerate(items)
    finished: asyncio.Queue[asyncio.Future[tuple[int, Result]]] = asyncio.Queue()
    under_way: set[asyncio.Future[tuple[int, Result]]] = set()
    stopped: asyncio.Future[tuple[int, Result]] = loop.create_future()
    stopped.add_done_callback(finished.put_nowait)
    try:
        with (stop or _Stop()).calls(lambda: loop.call_soon_threadsafe(stopped.cancel)):
            while True:
                while len(under_way) < at_once and (entry := next(todo, None)) is not None:
                    task = loop.create_task(answer(*entry))
                    task.add_done_callback(finished.put_nowait)
                    under_way.add(task)
                if not under_way:
                    return
                done = loop.run_until_complete(finished.get()) if finished.empty() else finished.get_nowait()
                under_way.discard(done)
                yield done.result()  # for `stopped`, this raises CancelledError
    finally:
        loop.run_until_complete(give_up())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
