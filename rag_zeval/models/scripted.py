"""A backend without a model: replies by script. For tests, and for trying a pipeline before paying for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rag_zeval.models.language_model import Messages, Reply, Request

Script = Sequence[str | Reply] | Mapping[str, str | Reply] | Callable[[Request], str | Reply]


class ScriptedBackend:
    """Replies from a list (in order of asking), a dict (first key found in the prompt) or a function of the request.

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
        card: Mapping[str, str] | None = None,
    ):
        self.name = self.identity = name
        self.max_context = max_context
        self.card: Mapping[str, str] = card or {}
        self.calls = 0
        self._script = script

    def count_tokens(self, messages: Messages) -> int:
        return sum(len(message["content"].split()) for message in messages)

    async def complete(self, request: Request) -> Reply:
        scripted = self._find(request)
        self.calls += 1
        if isinstance(scripted, Reply):
            return scripted
        return Reply(scripted, "ok", self.count_tokens(request.messages), len(scripted.split()), calls=1)

    def _find(self, request: Request) -> str | Reply:
        if callable(self._script):
            return self._script(request)
        if isinstance(self._script, Mapping):
            prompt = "\n".join(message["content"] for message in request.messages)
            for key, reply in self._script.items():
                if key in prompt:
                    return reply
        elif self.calls < len(self._script):
            return self._script[self.calls]
        return Reply(None, "failed: the script has no reply for this request", calls=1)
