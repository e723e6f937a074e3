"""A language model without a model: replies by script, in this process."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rag_zeval.models.language_model import Messages, Reply, Request

Script = Sequence[str | Reply] | Callable[[Request], str | Reply]


class ScriptedBackend:
    """Replies from a list (in order of asking) or by a function of the request.

    A string becomes an "ok" reply; tokens are whitespace-separated words. `calls` counts the requests that came.
    """

    batched = False
    at_once = 1

    def __init__(
        self,
        script: Script,
        *,
        name: str = "scripted",
        max_context: int | None = None,
        card: Mapping[str, Any] | None = None,
    ):
        self.name = self.identity = name
        self.max_context = max_context
        self.card: Mapping[str, Any] = card or {}
        self.calls = 0
        self._script = script if callable(script) else lambda _: script[self.calls]

    def count_tokens(self, messages: Messages) -> int:
        return sum(len(message["content"].split()) for message in messages)

    async def complete(self, request: Request) -> Reply:
        reply = self._script(request)
        self.calls += 1
        if isinstance(reply, Reply):
            return reply
        return Reply(reply, "ok", self.count_tokens(request.messages), len(reply.split()), calls=1)
