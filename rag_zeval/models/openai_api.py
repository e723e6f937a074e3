"""Chat completions of any OpenAI-compatible endpoint: a vendor's, or `vllm serve` on the next machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from rag_zeval.models.endpoint import Endpoint
from rag_zeval.models.language_model import Messages, Reply, Request, one_line
from rag_zeval.models.refusals import Refusals, unwrapped

# What servers that speak this protocol say of a reply's end, in their own words as well: Mistral, Anthropic, Gemini,
# Bedrock, watsonx, DeepSeek, vLLM.
CUT_OFF = frozenset(
    "length maxlength modellength maxtokens maxoutputtokens tokenlimit modelcontextwindowexceeded timelimit abort "
    "aborted cancelled error networkerror insufficientsystemresource".split()
)
FILTERED = frozenset(
    "contentfilter contentfiltered safety recitation prohibitedcontent blocklist spii guardrailintervened sensitive "
    "refusal".split()
)
THOUGHTS = ("thinking", "reasoning")  # types of parts


class OpenAIBackend(Endpoint):
    """Chat completions of an Endpoint. What it refuses is asked for otherwise, or not at all (see `Refusals`)."""

    max_context: int | None = None
    batched = False
    card: Mapping[str, str] = MappingProxyType({})

    def __init__(self, model: str, url: str, **calls: Any):
        super().__init__(model, url, **calls)
        self._refusals = Refusals(f"{self.url}: {model}")

    def count_tokens(self, messages: Messages) -> None:
        return None  # only the server knows its tokenizer

    async def complete(self, request: Request) -> Reply:
        asked, refusals = self._arguments(request), self._refusals
        read = _read if request.response_schema is None else _read_structured
        return await self.post("/chat/completions", refusals.allowed(asked), read, partial(refusals.mended, asked))

    def _arguments(self, request: Request) -> dict[str, Any]:
        sampling = request.sampling
        arguments: dict[str, Any] = {
            "model": self.name,
            "messages": list(request.messages),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": request.seed,
        }
        if request.response_schema is not None:
            schema = {"name": "reply", "schema": request.response_schema, "strict": True}
            arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
        return arguments


def _read(completion: Any) -> tuple[str, str]:
    try:
        choice = completion["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        text = None if message.get("refusal") else _text(message.get("content"))
        called = bool(message.get("tool_calls"))
    except (AttributeError, KeyError, TypeError, IndexError) as error:
        raise ValueError("the endpoint's answer is no chat completion") from error
    end = _plain(str(reason))
    if text is None or (called and not text) or end in FILTERED:
        raise ValueError(f"the endpoint sent no text (finish_reason {one_line(str(reason))})")
    return text, "truncated" if end in CUT_OFF else "ok"


def _text(content: Any) -> str | None:
    """What a model said: a text, or the texts in a list of parts, beside which there may be its thoughts alone."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    said = [part.get("text") for part in content if part.get("type") not in THOUGHTS]
    whole = all(part.get("type") in ("text", *THOUGHTS) for part in content)
    return "".join(said) if said and whole and all(isinstance(text, str) for text in said) else None


def _plain(reason: str) -> str:
    """`FinishReason.MAX_TOKENS`, `max-tokens` and `maxTokens` are all "maxtokens"."""
    return re.sub("[^a-z]", "", reason.rpartition(".")[2].lower())


def _read_structured(completion: Any) -> tuple[str, str]:
    text, status = _read(completion)
    return unwrapped(text), status
