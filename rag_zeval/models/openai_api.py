"""Chat completions from any OpenAI-compatible endpoint: a vendor, or your own `vllm serve`."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from rag_zeval.models.endpoint import Endpoint
from rag_zeval.models.language_model import Messages, Reply, Request
from rag_zeval.models.refusals import Refusals, unwrapped
from rag_zeval.models.responses.chat_completion import read_completion
from rag_zeval.models.responses.cut_prompts import CutPromptDetector


class OpenAIBackend(Endpoint):
    """A language model behind an Endpoint. Parameters that it rejects are changed or left out (see `Refusals`)."""

    max_context: int | None = None
    batched = False
    card: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, model: str, url: str, **calls: Any):
        super().__init__(model, url, **calls)
        self._refusals = Refusals(f"{self.url}: {model}")
        self._cut_prompts = CutPromptDetector()

    def count_tokens(self, messages: Messages) -> None:
        return None  # only the server knows its tokenizer

    async def complete(self, request: Request) -> Reply:
        asked, refusals = self._arguments(request), self._refusals
        prompt = "\n".join(message["content"] for message in request.messages)

        def read(completion: Any) -> tuple[str, str]:
            self._cut_prompts.check(prompt, completion)
            text, status = read_completion(completion)
            return text if request.response_schema is None else unwrapped(text), status

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
        arguments |= self.extra_body
        if request.response_schema is not None:
            schema = {"name": "reply", "schema": request.response_schema, "strict": True}
            arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
        return arguments
