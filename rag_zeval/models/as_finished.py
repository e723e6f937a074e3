"""The one door from plain code to `await`: many questions side by side, their answers as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_END: Any = object()


def as_finished(
    ask: Callable[[Item], Awaitable[Result]], items: Iterable[Item], at_once: int
) -> Iterator[tuple[int, Result]]:
    """Yield `(index, await ask(item))` of each item, as they finish, at most `at_once` of them under way.

    Items are taken only as they can be asked about, so they may be many. What `ask` raises is raised here, and then,
    as when the caller stops early, everything under way is given up. The event loop runs while a result is waited for,
    in this thread; where one runs already (a notebook), in a thread beside it.

        for index, reply in as_finished(model.complete, requests, model.at_once):
            print(requests[index].messages, reply.text)
    """
    results = _results(ask, items, at_once)
    if not _in_a_loop():
        yield from results
        return
    with ThreadPoolExecutor(1) as thread:
        try:
            while (result := thread.submit(next, results, _END).result()) is not _END:
                yield result
        finally:
            thread.submit(results.close).result()


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _results(
    ask: Callable[[Item], Awaitable[Result]], items: Iterable[Item], at_once: int
) -> Generator[tuple[int, Result], None, None]:
    async def answer(index: int, item: Item) -> tuple[int, Result]:
        return index, await ask(item)

    async def give_up() -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*under_way, *rest, return_exceptions=True)

    loop = asyncio.new_event_loop()
    todo = enumerate(items)
    finished: asyncio.Queue[asyncio.Task[tuple[int, Result]]] = asyncio.Queue()
    under_way: set[asyncio.Task[tuple[int, Result]]] = set()
    try:
        while True:
            while len(under_way) < at_once and (entry := next(todo, None)) is not None:
                task = loop.create_task(answer(*entry))
                task.add_done_callback(finished.put_nowait)
                under_way.add(task)
            if not under_way:
                return
            task = loop.run_until_complete(finished.get()) if finished.empty() else finished.get_nowait()
            under_way.remove(task)
            yield task.result()
    finally:
        loop.run_until_complete(give_up())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
