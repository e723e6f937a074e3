"""The one door to `await`, and batches that do not depend on who asked first."""

import asyncio
import contextlib
import gc
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.models.as_finished import as_finished, awaitable, check_stopped
from rag_zeval.models.batched import BatchedModel
from rag_zeval.models.language_model import Reply, Request


@given(st.lists(st.integers(0, 5), max_size=20), st.integers(1, 6))
def test_each_item_is_answered_once_by_its_index_and_no_more_are_taken_than_can_be_asked(
    turns: list[int], at_once: int
) -> None:
    taken, ended, most = 0, 0, 0

    def items() -> Iterator[int]:
        nonlocal taken
        for item in turns:
            taken += 1
            yield item

    async def wait(item: int) -> int:
        nonlocal most
        most = max(most, taken - ended)
        for _ in range(item):
            await asyncio.sleep(0)
        return item

    results = []
    for result in as_finished(wait, items(), at_once):
        results.append(result)
        ended += 1
    assert sorted(results) == list(enumerate(turns))
    assert most <= at_once


class Sleeping:
    """Sleeps for a minute over each item and notes those given up; over the first it does `first`, if there is one."""

    def __init__(self, first: Callable[[], object] | None = None):
        self.first, self.given_up = first, list[int]()

    async def ask(self, item: int) -> object:
        if item == 0 and self.first is not None:
            await asyncio.sleep(0)
            return self.first()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.given_up.append(item)
            raise
        return None

    def run(self, in_a_loop: bool) -> None:
        """Ask about three items, in plain code or in a notebook's cell, and leave with the first answer."""

        def leave_early() -> None:
            with contextlib.closing(as_finished(self.ask, range(3), 3)) as results:  # type: ignore[type-var]
                next(results)

        async def cell() -> None:
            leave_early()

        with contextlib.closing(asyncio.new_event_loop()) as loop:
            loop.run_until_complete(cell()) if in_a_loop else leave_early()


@pytest.mark.parametrize("in_a_loop", [False, True])
@pytest.mark.parametrize(
    ("first", "outcome"),
    [({}.clear, contextlib.nullcontext()), ({}.popitem, pytest.raises(KeyError, match="dictionary is empty"))],
    ids=["answered", "raised"],
)
def test_with_one_answer_or_exception_that_is_enough_the_rest_is_given_up(
    first: Callable[[], object], outcome: Any, in_a_loop: bool
) -> None:
    model = Sleeping(first)
    with outcome:
        model.run(in_a_loop)
    assert sorted(model.given_up) == [1, 2]


def test_what_is_given_up_leaves_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    """An HTTP client opens connections in tasks of its own, some of which have not begun when all is given up."""

    async def connect(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        if not turns:
            await asyncio.sleep(0.01)
            raise KeyError("refused")
        while True:
            async with anyio.create_task_group() as connections:
                connections.start_soon(asyncio.sleep, 0)

    with pytest.raises(KeyError, match="refused"):
        list(as_finished(connect, range(20), 20))
    gc.collect()
    assert not recwarn.list


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_ctrl_c_ends_it_at_once_and_gives_everything_up(in_a_loop: bool) -> None:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    model, started, threads = Sleeping(), time.monotonic(), threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        model.run(in_a_loop)
    assert time.monotonic() - started < 10 and sorted(model.given_up) == [0, 1, 2]
    assert threading.active_count() <= threads


def test_awaited_work_leaves_the_loop_free_and_gives_or_raises_what_it_does() -> None:
    async def slow(item: int) -> int:
        await asyncio.sleep(0.2)
        return item * item

    def work(count: int, *, least: int) -> int:
        return min(least, *(square for _, square in as_finished(slow, range(count), count)))

    async def both() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        heart = asyncio.create_task(tick())
        assert await asyncio.gather(awork(3, least=7), awork(3, least=-1)) == [0, -1]
        assert ticks >= 5
        with pytest.raises(TypeError):
            await awork(3)  # type: ignore[call-arg]
        heart.cancel()

    awork = awaitable(work, "As it is.")
    assert awork.__name__ == "awork" and awork.__doc__ == "As it is."  # type: ignore[attr-defined]
    asyncio.run(both())


@pytest.mark.parametrize("plain", [False, True])
def test_cancelled_work_ends_before_the_caller_goes_on_and_asks_nothing_more(plain: bool) -> None:
    """Work that asks, and work that computes and looks now and then."""
    begun: list[int] = []
    ended = threading.Event()

    async def ask(item: int) -> int:
        begun.append(item)
        await asyncio.sleep(0 if item < 4 else 60)
        return item

    def compute(item: int) -> int:
        begun.append(item)
        time.sleep(0.01)
        check_stopped()
        return item

    kept: list[int] = []

    def work() -> None:
        try:
            if plain:
                kept.extend(map(compute, range(10_000)))
            for _ in range(2):
                for _, item in as_finished(ask, range(10), 2):
                    kept.append(item)
        finally:
            time.sleep(0.05)
            ended.set()

    async def cancel() -> None:
        task = asyncio.create_task(awaitable(work, "")())
        while len(begun) < 6:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(cancel())
    if not plain:
        assert sorted(begun) == [0, 1, 2, 3, 4, 5] and sorted(kept) == [0, 1, 2, 3]


class Counting(BatchedModel):
    """Notes what was computed together, in its order."""

    name = identity = "counting"

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    def replies_to(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        self.batches.append([request.messages[0]["content"] for request in requests])
        yield from ((index, Reply(text.upper(), "ok")) for index, text in enumerate(self.batches[-1]))


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_what_waits_together_is_computed_together_in_one_order(texts: list[str], order: random.Random) -> None:
    async def chain(text: str) -> str | None:
        """Two questions, one after the other, the second behind a few turns of the loop."""
        first = await model.complete(Request(({"role": "user", "content": text},)))
        for _ in range(order.randrange(5)):
            await asyncio.sleep(0)
        return (await model.complete(Request(({"role": "user", "content": f"{first.text}!"},)))).text

    batches = []
    for _ in range(2):
        model = Counting()
        answers = [answer for _, answer in as_finished(chain, texts, len(texts))]
        assert sorted(map(str, answers)) == sorted(f"{text.upper()}!" for text in texts)
        batches.append(model.batches)
        order.shuffle(texts)
    assert batches[0] == batches[1] and list(map(len, batches[0])) == [len(texts)] * 2


def test_a_model_that_was_left_in_the_middle_answers_the_next_caller() -> None:
    model = Counting()
    requests = [Request(({"role": "user", "content": text},)) for text in "abc"]
    replies = as_finished(model.complete, requests, 3)
    next(replies)
    replies.close()  # type: ignore[attr-defined]
    assert {reply.text for _, reply in as_finished(model.complete, requests, 3)} == {"A", "B", "C"}


def test_what_a_model_raises_reaches_who_asked() -> None:
    class Broken(Counting):
        def replies_to(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
            raise OSError("no memory")

    with pytest.raises(OSError, match="no memory"):
        list(as_finished(Broken().complete, [Request(())], 1))


def test_loops_side_by_side_and_within_one_another_share_a_model() -> None:
    """Servers answer in many threads; who goes through results may ask again."""
    computing = threading.Semaphore(1)

    class Alone(Counting):
        def replies_to(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
            for reply in super().replies_to(requests):
                assert computing.acquire(blocking=False), "two threads compute at once"
                time.sleep(0.001)
                computing.release()
                yield reply

    def asked(texts: str, inner: bool = True) -> set[str | None]:
        requests = [Request(({"role": "user", "content": text},)) for text in texts]
        found = set()
        for _, reply in as_finished(model.complete, requests, 2):
            found.add(reply.text)
            if inner:
                assert asked("xyz", inner=False) == set("XYZ")
        return found

    model = Alone()
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(asked, ["abcdefgh"] * 4)) == [set("ABCDEFGH")] * 4


def test_ctrl_c_while_a_batch_is_computed_prints_no_message_of_asyncio(caplog: pytest.LogCaptureFixture) -> None:
    class Interrupted(Counting):
        def replies_to(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
            raise KeyboardInterrupt

    def run() -> None:
        model = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            list(as_finished(model.complete, [Request(({"role": "user", "content": "a"},))], 1))

    run()
    gc.collect()  # asyncio tells of an exception that nobody saw when its task goes
    assert not caplog.records
