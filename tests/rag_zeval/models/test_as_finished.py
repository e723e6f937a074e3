"""The one door to `await`, and batches that do not depend on who asked first."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.models.as_finished import as_finished
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


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_an_exception_comes_out_and_the_rest_is_given_up(in_a_loop: bool) -> None:
    given_up: list[int] = []

    async def fail(item: int) -> int:
        try:
            await asyncio.sleep(60 if item else 0)
        except asyncio.CancelledError:
            given_up.append(item)
            raise
        raise LookupError("the first")

    async def notebook() -> None:
        list(as_finished(fail, range(3), 3))

    with pytest.raises(LookupError, match="the first"):
        asyncio.run(notebook()) if in_a_loop else list(as_finished(fail, range(3), 3))
    assert sorted(given_up) == [1, 2]


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
