"""What the evaluator and every scorer ask of a language model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Messages = Sequence[Mapping[str, str]]

REPLY_SHARE = 4  # at least 1/4 of the window stays free for the reply, where max_tokens asks for more than that


@dataclass(frozen=True)
class Sampling:
    """How to sample; the defaults are the paper's for inference. `max_tokens` bounds the reply, not the prompt."""

    temperature: float = 0.1
    top_p: float = 0.9
    max_tokens: int = 8192
    seed: int = 0


@dataclass(frozen=True)
class Request:
    """One question to the model. `trial` numbers repeated samples of the same question.

    `response_schema` (JSON schema) constrains the reply where the model `can_constrain`; transformers ignores it.
    """

    messages: tuple[dict[str, str], ...]
    sampling: Sampling = Sampling()
    trial: int = 0
    response_schema: dict[str, Any] | None = None

    @property
    def seed(self) -> int:
        """Seed of this request alone, in [0, 2^31): the same in any batch, another for each trial and prompt."""
        content = json.dumps([self.sampling.seed, self.trial, self.messages])
        return int.from_bytes(hashlib.sha256(content.encode()).digest()[:4], "big") >> 1


@dataclass(frozen=True)
class Reply:
    """What came back. `status` is "ok", "truncated" (text cut at the token limit) or "failed: reason" (text None).

    calls: attempts made, retries among them (0 for a cached reply); tokens as the model counts them, None if unknown.
    seconds: from asking to the reply, retries included; in a batch, the batch's time shared equally.
    paid_tokens: (prompt, completion) to be paid for, over all calls, also where no text came; None: those above.
    bounded: calls that did not tell their tokens, and are counted there with as many as there can have been.
    """

    text: str | None
    status: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    calls: int = 0
    retries: int = 0
    seconds: float = 0.0
    cached: bool = False
    paid_tokens: tuple[int, int] | None = None
    bounded: int = 0


class Model(Protocol):
    """A model that answers, be it with text or with vectors.

    Many questions are awaited side by side, by `asyncio.gather` or, in plain code, through `as_finished`.
    """

    @property
    def name(self) -> str:
        """For people: the model as it was named."""

    @property
    def identity(self) -> str:
        """For cache keys: endpoint and model, or a hash of the weights."""

    @property
    def at_once(self) -> int:
        """How many questions it is well to have under way."""


class Backend(Model, Protocol):
    """A language model. It never raises for one bad request: that gets a Reply with status "failed: …"."""

    @property
    def max_context(self) -> int | None:
        """Tokens that prompt and reply may have together; None if unknown."""

    @property
    def card(self) -> Mapping[str, str]:
        """`rag_zeval.json` of the checkpoint folder: "world" and prompt "variant"; empty where there is none."""

    @property
    def batched(self) -> bool:
        """Whether requests are computed together, so that a reply depends, by rounding, on what is asked with it."""

    def count_tokens(self, messages: Messages) -> int | None:
        """Tokens of the prompt made of these messages; None if unknown."""

    async def complete(self, request: Request) -> Reply:
        """The reply to one request. Raises InputError when the model cannot be reached at all."""


def known_total(counts: Sequence[int | None]) -> int | None:
    """The sum of the counts that are known, 0 if there are none at all; None if there are and none is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known or not counts else None


def chat_ids(tokenizer: Any, messages: Messages) -> list[int]:
    """Token ids of the prompt: the messages in the tokenizer's chat template, ready for the reply."""
    ids: list[int] = tokenizer.apply_chat_template(
        [dict(message) for message in messages], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    return ids
