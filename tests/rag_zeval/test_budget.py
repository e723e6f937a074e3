"""A budget: whatever calls cost, and in whatever order they end, a limit is exceeded by one call at most."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.budget import (
    LONGEST_REPLY,
    NOT_ASKED,
    Account,
    Bill,
    Budget,
    BudgetSpent,
    Price,
    most_tokens,
    told_tokens,
)
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.language_model import Reply, Request, Sampling
from rag_zeval.models.openai_api import OpenAIBackend

PRICE = Price(1_000.0, 20_000.0)  # a reply of 7 and 5 tokens is $0.107


@given(
    st.integers(1, 300),
    st.lists(st.tuples(st.integers(0, 100), st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=30),
)
def test_a_limit_is_exceeded_by_one_call_at_most_and_nobody_waits_for_ever(
    limit: int, calls: list[tuple[int, float, int]]
) -> None:
    """A call: what it costs at most, the share of that it does cost, and how long it takes."""
    budget, costs = Budget(limit), []

    async def call(most: int, share: float, turns: int) -> None:
        await budget.reserve(most)
        for _ in range(turns):
            await asyncio.sleep(0)
        costs.append(most * share)
        budget.release(most, most * share)

    async def every() -> list[Any]:
        return await asyncio.wait_for(asyncio.gather(*(call(*one) for one in calls), return_exceptions=True), 10)

    refused = [end for end in asyncio.run(every()) if end is not None]
    assert sum(costs) == pytest.approx(budget.spent) and all(isinstance(end, BudgetSpent) for end in refused)
    assert budget.spent < limit + max(costs, default=0) + 1e-9
    assert budget.is_spent or not refused


def test_a_call_that_waits_begins_when_another_has_cost_less_than_it_might() -> None:
    budget, begun = Budget(10), []

    async def call(name: str, spent: float) -> None:
        await budget.reserve(10)
        begun.append(name)
        await asyncio.sleep(0)
        budget.release(10, spent)

    async def every() -> None:
        await asyncio.gather(call("a", 3), call("b", 8), call("c", 1), return_exceptions=True)

    asyncio.run(every())
    assert (begun, budget.spent) == (["a", "b"], 11)


def usage(**tokens: Any) -> dict[str, Any]:
    return {"usage": {f"{name}_tokens": count for name, count in tokens.items()}}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (usage(prompt=7, completion=5, total=12), (7, 5)),
        (usage(prompt=7, completion=5, total=112), (7, 105)),
        (usage(prompt=7, completion=5, total=0), (7, 5)),
        (usage(prompt=7, total=12), (7, 5)),
        (usage(prompt=7, total=7), (7, None)),
        (usage(prompt=7), (7, None)),
        (usage(completion=5, total=12), (None, 5)),
        (usage(prompt=7, completion=0, total=7), (7, 0)),
        (usage(prompt=0, completion=0, total=0), (None, None)),
        (usage(prompt=0, completion=5, total=5), (None, 5)),
        (usage(prompt=-1, completion=True, total="12"), (None, None)),
        (usage(prompt=2**53, completion=1.0, total=float("nan")), (None, None)),
        *(({"usage": value}, (None, None)) for value in (None, [7, 5], 7)),
        *((value, (None, None)) for value in ({}, None, [1], "usage")),
    ],
)
def test_only_counts_are_counts_and_thoughts_may_stand_in_the_total(answer: Any, told: Any) -> None:
    assert told_tokens(answer) == told


def test_no_tokenizer_makes_more_tokens_of_a_request_than_its_upper_bound() -> None:
    text = 'Ann \U0001f9ee \ud800 \ufdfa\n"' * 100
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 50}
    prompt, completion = most_tokens(body)
    assert prompt >= len(text.encode("utf-8", "surrogatepass")) and completion == 50
    for changes, most in [
        ({"max_completion_tokens": 80}, 80),
        ({"n": 3}, 150),
        ({"max_tokens": None}, LONGEST_REPLY),
        ({"max_tokens": "50"}, LONGEST_REPLY),
    ]:
        assert most_tokens({**body, **changes})[1] == most
    assert most_tokens({"model": "m", "input": text})[1] == 0


FREE = [301, 307, 400, 401, 403, 404, 409, 413, 422, 429, 500, 501, 503, 529]
PERHAPS = [None, 200, 204, 408, 499, 502, 504, 520, 524]


@pytest.mark.parametrize("status", [*FREE, *PERHAPS])
def test_what_may_have_been_computed_counts_and_refusals_do_not(status: int | None) -> None:
    body = {"messages": [], "max_tokens": 50}
    bill, most = Bill(None, body), most_tokens(body)
    bill.end(status, None)
    assert (bill.paid, bill.bounded) == (((0, 0), 0) if status in FREE else (most, 1))
    bill.end(status, usage(prompt=7, completion=5))
    assert bill.paid == ((7, 5) if status in FREE else (most[0] + 7, most[1] + 5))


def ask(endpoint: Any, budget: Budget, count: int, **settings: Any) -> list[Reply]:
    requests = [Request(({"role": "user", "content": str(n)},), Sampling(max_tokens=50)) for n in range(count)]
    backend = OpenAIBackend("judge", endpoint.url, account=Account(budget, PRICE), **settings)
    return [reply for _, reply in as_finished(backend.complete, requests, 8)]


def test_where_the_money_ends_nothing_is_sent_and_open_calls_end_well(endpoint: Any) -> None:
    endpoint.delay = 0.05
    replies = ask(endpoint, budget := Budget(5 * 0.107), 12)
    there = [reply for reply in replies if reply.text is not None]
    assert len(there) == len(endpoint.requests) == 5 and budget.spent == pytest.approx(5 * 0.107)
    assert {(reply.status, reply.calls, reply.paid_tokens) for reply in replies if reply not in there} == {
        (NOT_ASKED, 0, (0, 0))
    }


def test_a_reply_that_does_not_come_is_asked_for_again_only_while_there_is_money(endpoint: Any) -> None:
    endpoint.faults = ["half"] * 6
    (reply,) = ask(endpoint, budget := Budget(2.0), 1)
    most = PRICE.of(*(reply.paid_tokens or ())) / reply.calls
    assert (reply.status, reply.calls, reply.bounded, reply.text) == (
        NOT_ASKED,
        len(endpoint.requests),
        reply.calls,
        None,
    )
    assert 1 < reply.calls < 4 and budget.spent == pytest.approx(reply.calls * most) and budget.spent - most < 2


def test_waiting_for_money_is_no_waiting_for_the_reply(endpoint: Any) -> None:
    endpoint.delay = 0.4
    replies = ask(endpoint, Budget(1.2), 4, timeout=1.0)  # one at a time, for each may cost more than is there
    assert [reply.status for reply in replies] == ["ok"] * 4 and endpoint.open_most == 1


def test_what_never_left_costs_nothing(no_proxy: None) -> None:
    account = Account(budget := Budget(1.0), PRICE)
    backend = OpenAIBackend("judge", "http://127.0.0.1:9/v1", account=account, max_retries=1)
    backend._reached = True
    ((_, reply),) = as_finished(backend.complete, [Request(({"role": "user", "content": "q"},))], 1)
    assert (reply.status, reply.calls, reply.paid_tokens) == ("failed: connection refused", 2, (0, 0))
    assert budget.spent == 0
