"""What calls to endpoints cost, and a limit in dollars.

The cost of a call is not known before it, and some servers do not report it afterwards. So each call has an upper
bound. A call may start only while the dollars spent plus the upper bounds of all open calls are below the limit.
Therefore a run exceeds its limit by the price of one call at most.
"""

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MILLION = 1e6
MOST_TOKENS = 2**53  # a larger count is invalid
LONGEST_REPLY = 131_072  # tokens; the upper bound for a request that does not limit its reply
CHAT_FRAME = 256  # most tokens that a chat template adds to a prompt
TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
# Errors after which a reply may have been computed and billed, because a proxy gave up. Other errors cost nothing.
PERHAPS_BILLED = (408, 499, 502, 504, 520, 524, 598, 599)
NOT_ASKED = "failed: not asked, or not again: the budget is spent"  # a status of replies

Tokens = tuple[int, int]  # tokens of the prompt, tokens of the reply


class BudgetSpent(Exception):
    """A request was not sent, because the limit is reached."""


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens of prompts and of replies."""

    prompt: float
    completion: float

    def of(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Return the price of these tokens in dollars."""
        return (self.prompt * prompt_tokens + self.completion * completion_tokens) / MILLION

    def paid(self, tokens: Sequence[int] | None) -> float | None:
        """Return the price of a row's `paid_tokens` in dollars; None if they are unknown."""
        return None if tokens is None else self.of(*tokens)


class Budget:
    """The dollars that a run may spend on all its models together, and what it has spent so far.

    Only one event loop may use it at a time.
    """

    def __init__(self, limit: float):
        self.limit, self.spent = limit, 0.0
        self._open: list[float] = []  # the upper bounds of the calls under way
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_spent(self) -> bool:
        return self.spent >= self.limit

    async def reserve(self, most: float) -> None:
        """Wait until a call that costs at most `most` dollars may start. Raises BudgetSpent if the limit is reached."""
        while self.spent + math.fsum(self._open) >= self.limit:
            if self.is_spent:
                raise BudgetSpent
            ended = asyncio.get_running_loop().create_future()
            self._waiting.append(ended)
            await ended
        self._open.append(most)

    def release(self, most: float, spent: float) -> None:
        """End a call that reserved `most` dollars and cost `spent`."""
        self._open.remove(most)
        self.spent += spent
        waiting, self._waiting = self._waiting, []
        for ended in waiting:
            if not ended.done():
                ended.set_result(None)


@dataclass(frozen=True)
class Account:
    """The budget that pays for the calls to a model, and the model's price.

        open_backend("openai:gpt-4o-mini", account=Account(Budget(5.0), Price(0.15, 0.6)))

    Once the budget is spent, no request is sent any more, and the status of its reply says so.
    """

    budget: Budget
    price: Price


class Bill:
    """The cost of one reply, over all HTTP requests that are sent for it.

    paid: tokens so far; an upper bound if the server did not report them. bounded: the number of such requests.
    """

    def __init__(self, account: Account | None, body: Mapping[str, Any]):
        self.paid: Tokens = (0, 0)
        self.bounded = 0
        self._account = account
        self._body = body
        self._reserved: float | None = None

    def change(self, body: Mapping[str, Any]) -> None:
        """Compute the upper bounds of later requests from this body."""
        self._body = body
        self.close()

    async def begin(self) -> None:
        """Reserve the money for the next request. Raises BudgetSpent if the limit is reached."""
        if self._account is not None and self._reserved is None:
            most = self._account.price.of(*most_tokens(self._body))
            await self._account.budget.reserve(most)
            self._reserved = most

    def end(self, status: int | None, answer: Any) -> None:
        """Count a request that was sent. status, answer: its HTTP status and the JSON of its answer; None if missing.

        If the request costs nothing, its money stays reserved for the next one.
        """
        told = told_tokens(answer)
        if told == (None, None) and status is not None and status >= 300 and status not in PERHAPS_BILLED:
            return
        bounds = most_tokens(self._body) if None in told else (0, 0)  # slow, and seldom needed
        prompt, completion = (most if own is None else own for own, most in zip(told, bounds, strict=True))
        self.paid = self.paid[0] + prompt, self.paid[1] + completion
        self.bounded += any(own is None and most for own, most in zip(told, bounds, strict=True))
        self._release(prompt, completion)

    def close(self) -> None:
        """Release the money that is still reserved."""
        self._release(0, 0)

    def _release(self, prompt: int, completion: int) -> None:
        if self._account is not None and self._reserved is not None:
            self._account.budget.release(self._reserved, self._account.price.of(prompt, completion))
            self._reserved = None


def most_tokens(body: Mapping[str, Any]) -> Tokens:
    """Return upper bounds for the tokens of a request's prompt and reply. No text has more tokens than bytes."""
    text = json.dumps(body, ensure_ascii=False, default=str)
    prompt = len(text.encode("utf-8", "surrogatepass")) + CHAT_FRAME
    if "messages" not in body:  # embeddings are no reply tokens
        return prompt, 0
    limits = [limit for name in TOKEN_LIMITS if type(limit := body.get(name)) is int]
    choices = body.get("n")
    return prompt, max(limits, default=LONGEST_REPLY) * (choices if type(choices) is int else 1)


def token_count(answer: Any, field: str) -> int | None:
    """Return a token count from the `usage` of an answer, in [0, 2^53); None if it is missing or invalid.

    No prompt has 0 tokens. Servers that do not count write such zeros, so they count as missing.
    """
    usage = answer.get("usage") if isinstance(answer, dict) else None
    if not isinstance(usage, dict):
        return None
    found, least = usage.get(field), 1 if usage.get("prompt_tokens") == 0 else 0
    return found if type(found) is int and least <= found < MOST_TOKENS else None


def told_tokens(answer: Any) -> tuple[int | None, int | None]:
    """Return the tokens of prompt and reply that an answer reports; None for what it does not report.

    If the total minus the prompt is larger than the reply, it counts as the reply: some servers include a model's
    thoughts only in the total.
    """
    prompt, completion, total = (token_count(answer, f"{name}_tokens") for name in ("prompt", "completion", "total"))
    if prompt is not None and total is not None and total > prompt:
        completion = max(completion or 0, total - prompt)
    return prompt, completion
