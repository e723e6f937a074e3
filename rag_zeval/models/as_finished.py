"""The one door from plain code to `await`: many questions side by side, their answers as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")

_END: Any = object()


def as_finished(ask: Callable[[Item], Awaitable[Result]], items: Iterable[Item], at_once: int) -> Iterator[Result]:
    """Yield `await ask(item)` of each item, as they finish, at most `at_once` of them under way.

    Items are taken only as they can be asked about, so they may be many. What `ask` raises is raised here, and then,
    as when the caller stops early, everything under way is given up. The event loop runs while a result is waited for,
    in this thread; where one runs already (a notebook), in a thread beside it.

        for reply in as_finished(model.complete, requests, model.at_once):
            print(reply.text)
    """
    results = _results(ask, items, at_once)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        yield from results
        return
    with ThreadPoolExecutor(1) as thread:
        try:
            while (result := thread.submit(next, results, _END).result()) is not _END:
                yield result
        finally:
            thread.submit(results.close).result()


def _results(
    ask: Callable[[Item], Awaitable[Result]], items: Iterable[Item], at_once: int
) -> Generator[Result, None, None]:
    async def answer(item: Item) -> Result:
        return await ask(item)

    loop = asyncio.new_event_loop()
    todo = iter(items)
    finished: asyncio.Queue[asyncio.Task[Result]] = asyncio.Queue()
    under_way: set[asyncio.Task[Result]] = set()
    try:
        while True:
            while len(under_way) < at_once and (item := next(todo, _END)) is not _END:
                task = loop.create_task(answer(cast(Item, item)))
                task.add_done_callback(finished.put_nowait)
                under_way.add(task)
            if not under_way:
                return
            task = loop.run_until_complete(finished.get()) if finished.empty() else finished.get_nowait()
            under_way.remove(task)
            yield task.result()
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.gather(*under_way, *asyncio.all_tasks(loop), return_exceptions=True))
        loop.close()
