"""The interface to language models: requests, replies, and what a model must offer the evaluator and the scorers."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rag_zeval.errors import InputError
from rag_zeval.replies.reading import EMPTY, is_empty
from rag_zeval.text import one_line

Messages = Sequence[Mapping[str, str]]

REPLY_SHARE = 4  # if max_tokens exceeds 1/4 of the window, at least 1/4 is kept free for the reply


@dataclass(frozen=True)
class Sampling:
    """How to sample. The defaults are the paper's for inference. `max_tokens` limits the reply, not the prompt.

    Raises InputError for a number that no model can use.
    """

    temperature: float = 0.1
    top_p: float = 0.9
    max_tokens: int = 8192
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise InputError(f"temperature is {self.temperature}, must be 0 or more")
        if not 0 <= self.top_p <= 1:
            raise InputError(f"top_p is {self.top_p}, must be from 0 to 1")
        if self.max_tokens < 1:
            raise InputError(f"max_tokens is {self.max_tokens}, must be 1 or more")


@dataclass(frozen=True)
class Request:
    """One question to the model.

    trial: numbers repeated samples of the same question. response_schema: a JSON schema that the reply must follow.

        Request(({"role": "user", "content": "Is it so?"},), Sampling(max_tokens=512))
    """

    messages: tuple[dict[str, str], ...]
    sampling: Sampling = Sampling()
    trial: int = 0
    response_schema: dict[str, Any] | None = None

    @property
    def seed(self) -> int:
        """The seed of this request, in [0, 2^31). It depends on the sampling seed, the trial and the messages only."""
        content = json.dumps([self.sampling.seed, self.trial, self.messages])
        return int.from_bytes(hashlib.sha256(content.encode()).digest()[:4], "big") >> 1


@dataclass(frozen=True)
class Reply:
    """The reply to one request.

    status: "ok", "truncated" (the text was cut at the token limit) or "failed: reason" (the text is None).
    calls: requests sent, retries included; 0 for a cached reply. Tokens are counted by the model, None if unknown.
    seconds: from the request to the reply, retries included; in a batch, an equal share of the batch's time.
    paid_tokens: (prompt, completion) tokens to pay for, over all calls, even if no text came. None means that
    `prompt_tokens` and `completion_tokens` are all there is to pay for.
    bounded: calls whose token counts the server did not report. `paid_tokens` has an upper bound for them.
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

    def why_unread(self, prompt: str, error: ValueError) -> str:
        """Return why the text cannot be used: it was cut off or is empty, or the error of its reader.

        prompt: what the error is about, such as the name of the prompt.
        """
        if self.status == "truncated":
            return "reply cut off" + ("" if self.completion_tokens is None else f" at {self.completion_tokens} tokens")
        return EMPTY if is_empty(self.text or "") else f"{prompt}: {one_line(str(error))}"


class Model(Protocol):
    """A model that replies with text or with vectors.

    Send it many requests at once: with `asyncio.gather`, or with `as_finished` in code that is not async.
    name: as the user gave it. identity: what the model is known by in cache keys: its endpoint and name, or a hash of
    its weights. at_once: recommended number of concurrent requests.
    """

    name: str
    identity: str
    at_once: int


class Backend(Model, Protocol):
    """A language model. A request that fails gets a Reply with status "failed: …"; it raises nothing.

    max_context: size of the context window, in tokens of prompt and reply together; None if unknown.
    card: content of the checkpoint folder's `rag_zeval.json`: "world", prompt "variant", "answer_sentences", the most
    sentences of an answer that the judge can judge at once, and "structured", whether its replies are to be forced into
    the JSON format. Empty without the file.
    batched: whether requests are computed in batches. Rounding can then make a reply depend on its batch.
    """

    max_context: int | None
    card: Mapping[str, Any]
    batched: bool

    def count_tokens(self, messages: Messages) -> int | None:
        """Return the number of tokens in the prompt that these messages make; None if unknown."""

    async def complete(self, request: Request) -> Reply:
        """Return the reply to one request. Raises InputError if the model cannot be reached at all."""


def known_total(counts: Sequence[int | None]) -> int | None:
    """Return the sum of the counts that are known: 0 for no counts, None if there are some and all are unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if known or not counts else None


def chat_ids(tokenizer: Any, messages: Messages) -> list[int]:
    """Return the token ids of the prompt: the messages in the tokenizer's chat template, up to where the reply begins.

    Raises InputError if the template cannot be filled, or does what its sandbox forbids.
    """
    try:
        ids: list[int] = tokenizer.apply_chat_template(
            [dict(message) for message in messages], add_generation_prompt=True, tokenize=True, return_dict=False
        )
    except Exception as error:  # a template may raise anything
        reason = one_line(f"{type(error).__name__}: {error}")
        raise InputError(f"{tokenizer.name_or_path}: the chat template cannot be used: {reason}") from error
    return ids
