"""What calls to endpoints cost, and a limit in dollars that they keep.

Nobody knows before a call what it will cost, and some servers do not say it afterwards. So each call has an upper
bound: it may begin only while the dollars spent and the upper bounds of all open calls are below the limit. The most
that a run can spend beyond the limit is therefore the price of one call.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MILLION = 1e6
MOST_TOKENS = 2**53  # a count beyond it is none
LONGEST_REPLY = 131_072  # tokens of a reply, for the upper bound of a request that does not limit them
CHAT_FRAME = 256  # tokens that a server puts around a prompt, at most
TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
# Errors behind which a reply may have been computed and billed: somebody in between gave up. Others cost nothing.
PERHAPS_BILLED = (408, 499, 502, 504, 520, 524, 598, 599)
NOT_ASKED = "failed: not asked, or not again: the budget is spent"  # status of a reply

Tokens = tuple[int, int]  # of prompts, and of replies


class BudgetSpent(Exception):
    """A request was not sent, because the limit is reached."""


@dataclass(frozen=True)
class Price:
    """Dollars for a million tokens of prompts and of replies."""

    prompt: float
    completion: float

    def of(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Dollars for so many tokens."""
        return (self.prompt * prompt_tokens + self.completion * completion_tokens) / MILLION

    def paid(self, tokens: Sequence[int] | None) -> float | None:
        """Dollars for the `paid_tokens` of a row; None where they are not known."""
        return None if tokens is None else self.of(*tokens)


class Budget:
    """The dollars that a run may spend, on all its models together: the limit, and what is spent so far.

    Calls of one event loop at a time share it.
    """

    def __init__(self, limit: float = math.inf, spent: float = 0.0):
        self.limit, self.spent = limit, spent
        self._open: list[float] = []  # the upper bounds of the calls under way
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_spent(self) -> bool:
        return self.spent >= self.limit

    async def reserve(self, most: float) -> None:
        """Wait until a call may begin that costs at most this many dollars. Raises BudgetSpent if none may any more."""
        while self.spent + math.fsum(self._open) >= self.limit:
            if self.is_spent:
                raise BudgetSpent
            ended = asyncio.get_running_loop().create_future()
            self._waiting.append(ended)
            await ended
        self._open.append(most)

    def release(self, most: float, spent: float) -> None:
        """End a call that reserved `most` dollars, and has cost `spent`."""
        self._open.remove(most)
        self.spent += spent
        waiting, self._waiting = self._waiting, []
        for ended in waiting:
            if not ended.done():
                ended.set_result(None)


@dataclass(frozen=True)
class Account:
    """Who pays for the calls to a model: a run's budget, by the model's price."""

    budget: Budget
    price: Price


class Bill:
    """What one item on the wire costs, over all requests that are sent for it.

    paid: tokens so far; where a server did not tell them, as many as there can have been. bounded: requests of that
    kind.
    """

    def __init__(self, account: Account | None, body: Mapping[str, Any]):
        self.paid: Tokens = (0, 0)
        self.bounded = 0
        self._account = account
        self._most = most_tokens(body)
        self._reserved: float | None = None

    def change(self, body: Mapping[str, Any]) -> None:
        """From now on, requests have this body."""
        self._most = most_tokens(body)
        self.close()

    async def begin(self) -> None:
        """Reserve the money for the next request. Raises BudgetSpent if there is none."""
        if self._account is not None and self._reserved is None:
            most = self._account.price.of(*self._most)
            await self._account.budget.reserve(most)
            self._reserved = most

    def end(self, status: int | None, answer: Any) -> None:
        """Count a request that was sent: the HTTP status and the JSON of what came back, None where there is none.

        One that costs nothing leaves its money reserved for the next.
        """
        told = told_tokens(answer)
        if told == (None, None) and status is not None and status >= 300 and status not in PERHAPS_BILLED:
            return
        prompt, completion = (most if own is None else own for own, most in zip(told, self._most, strict=True))
        self.paid = self.paid[0] + prompt, self.paid[1] + completion
        self.bounded += any(own is None and most for own, most in zip(told, self._most, strict=True))
        self._release(prompt, completion)

    def close(self) -> None:
        """Give back what is reserved and not used."""
        self._release(0, 0)

    def _release(self, prompt: int, completion: int) -> None:
        if self._account is not None and self._reserved is not None:
            self._account.budget.release(self._reserved, self._account.price.of(prompt, completion))
            self._reserved = None


def most_tokens(body: Mapping[str, Any]) -> Tokens:
    """The most tokens that a request can have and be replied to with: no tokenizer makes more of a text than bytes."""
    text = json.dumps(body, ensure_ascii=False, default=str)
    prompt = len(text.encode("utf-8", "surrogatepass")) + CHAT_FRAME
    if "messages" not in body:  # vectors are no reply
        return prompt, 0
    limits = [limit for name in TOKEN_LIMITS if type(limit := body.get(name)) is int]
    choices = body.get("n")
    return prompt, max(limits, default=LONGEST_REPLY) * (choices if type(choices) is int else 1)


def token_count(answer: Any, field: str) -> int | None:
    """A number of tokens from the `usage` of an answer, in [0, 2^53), if it tells."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    found = usage.get(field) if isinstance(usage, dict) else None
    return found if type(found) is int and 0 <= found < MOST_TOKENS else None


def told_tokens(answer: Any) -> tuple[int | None, int | None]:
    """The tokens of prompt and reply that an answer says were used; None for what it does not say.

    What a total has more than the prompt counts as reply: there are servers that tell a model's thoughts there alone.
    """
    prompt, completion, total = (token_count(answer, f"{name}_tokens") for name in ("prompt", "completion", "total"))
    if prompt is not None and total is not None and total > prompt:
        completion = max(completion or 0, total - prompt)
    return prompt, completion
