"""A local server between an original package and a model.

It asks through our client, caches the replies and counts them by example.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from rag_zeval.models.cache import ReplyCache
from rag_zeval.models.embeddings import embedding_of
from rag_zeval.models.endpoint import Endpoint
from rag_zeval.models.language_model import Reply
from rag_zeval.ports import listen, refuse, send

CHAT, EMBEDDINGS = "/chat/completions", "/embeddings"


class CountingProxy:
    """A local server that speaks OpenAI's protocol under `url(example)`.

    It passes requests on to `chat`, or to `embeddings` for vectors. Limits, retries and keys are those of these
    endpoints. An equal request of the same trial is answered from the file `cache`.

    Each request may spend money through the key. So the URL holds a secret of this run, and other programs and web
    pages are refused. If no reply comes, the answer is HTTP 400. The packages' clients do not retry that; ours has done
    so already. Use it as a context manager.
    """

    def __init__(self, chat: Endpoint, embeddings: Endpoint | None, cache: Path, trial: int = 0):
        self._endpoints = {CHAT: chat, **({EMBEDDINGS: embeddings} if embeddings else {})}
        self._cache_path, self._trial = cache, trial
        self._replies: dict[str, list[Reply]] = defaultdict(list)
        self._loop = asyncio.new_event_loop()
        self._secret = secrets.token_urlsafe(16)
        self._server = listen("127.0.0.1", 0, "HTTP/1.1", POST=self.answer)
        self._server.daemon_threads = True
        self._threads = [
            threading.Thread(target=self._loop.run_forever, daemon=True),
            threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True),
        ]

    def __enter__(self) -> CountingProxy:
        self._cache = ReplyCache(self._cache_path)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        for thread in self._threads:
            thread.join()
        self._loop.close()
        self._cache.close()

    def url(self, example: str) -> str:
        """Return the base URL for a client that asks about an example."""
        return f"http://127.0.0.1:{self._server.server_port}/{self._secret}/{quote(example, safe='')}/v1"

    def take(self, example: str) -> list[Reply]:
        """Return the replies that an example has received so far, and forget them."""
        return self._replies.pop(example, [])

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer an HTTP request with what the model replies."""
        secret, _, asked = handler.path[1:].partition("/")
        if not hmac.compare_digest(secret.encode(), self._secret.encode()):
            refuse(handler)
            return
        example, _, path = asked.partition("/v1")
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        endpoint = self._endpoints.get(path)
        if endpoint is None:
            send(handler, 404, {"error": {"message": f"nothing answers {path}"}})
            return
        try:
            work = self._reply(endpoint, path, {**json.loads(body), **endpoint.extra_body})
            reply = asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except Exception as error:  # the model cannot be reached, so every request fails like this
            reply = Reply(None, f"failed: {error}")
        self._replies[unquote(example)].append(embedding_of(reply) if path == EMBEDDINGS else reply)
        if reply.text is None:
            send(handler, 400, {"error": {"message": reply.status}})
        else:
            send(handler, 200, json.loads(reply.text))

    async def _reply(self, endpoint: Endpoint, path: str, body: dict[str, Any]) -> Reply:
        asked = json.dumps([endpoint.identity, path, body, self._trial], sort_keys=True)
        key = hashlib.sha256(asked.encode()).hexdigest()
        return await self._cache.reply(key, lambda: endpoint.post(path, body, _whole))


def _whole(answer: Any) -> tuple[str, str]:
    if not isinstance(answer, dict):
        raise ValueError("the endpoint's answer is no JSON object")
    return json.dumps(answer), "ok"
