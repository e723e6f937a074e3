"""A server that speaks OpenAI's protocol: requests sent side by side, each with its own fate."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rag_zeval.errors import InputError
from rag_zeval.llm import one_line

RETRIES = 5  # by the client itself, on 408, 409, 429, 5xx and broken connections; it waits as Retry-After says
PROBE_SECONDS = 10.0
KEY_ENV = "OPENAI_API_KEY"

Body = dict[str, Any]
Item = TypeVar("Item")
Result = TypeVar("Result")
_attempts: ContextVar[list[float]] = ContextVar("attempts")  # HTTP requests sent for the item being served


@dataclass(frozen=True)
class Served(Generic[Result]):
    """One item as it went: what was read from the answer, or why there is none ("failed: ..."), and what it took."""

    result: Result | None
    failure: str
    calls: int
    seconds: float


class Endpoint:
    """A model over HTTP: up to `concurrency` requests at once, each within `timeout` seconds, retries included.

    The key is read from the environment variable of the given name whenever it is needed, and kept nowhere.
    Raises InputError if a variable named by the caller is not set, or the openai package is missing.
    """

    def __init__(
        self,
        model: str,
        url: str,
        *,
        concurrency: int = 8,
        timeout: float = 600.0,
        max_retries: int = RETRIES,
        api_key_env: str | None = None,
    ):
        if api_key_env is not None and not os.environ.get(api_key_env):
            raise InputError(f"environment variable {api_key_env} is not set: it must hold the API key")
        if concurrency < 1:
            raise InputError(f"concurrency is {concurrency}, must be at least 1")
        try:
            import openai  # noqa: F401
        except ImportError as error:
            raise InputError("an endpoint needs the openai package: pip install openai") from error
        self.name = model
        self.url = url.rstrip("/")
        self.identity = f"{self.url} {model}"
        self._key_env = api_key_env or KEY_ENV
        self._concurrency, self._timeout, self._max_retries = concurrency, timeout, max_retries
        self._reached = False

    def probe(self) -> None:
        """Raise InputError if nothing answers at the URL or it refuses the key. Any other answer will do."""
        import openai

        client = openai.OpenAI(base_url=self.url, api_key=self._key(), max_retries=0, timeout=PROBE_SECONDS)
        try:
            with client:
                client.models.list()
        except openai.AuthenticationError as error:
            raise InputError(f"{self.url} refuses the API key in {self._key_env} (HTTP 401)") from error
        except openai.APIConnectionError as error:
            # a server that took the connection but is busy is there: its requests have their own time limit
            if type(error.__cause__).__name__ != "ReadTimeout":
                raise InputError(f"cannot reach {self.url}: {_connection_reason(error)}") from error
        except (openai.OpenAIError, ValueError):
            pass  # no list of models here; that is no reason to stop
        self._reached = True

    def each(
        self, items: Iterable[Item], serve: Callable[[Any, Item], Awaitable[Result]]
    ) -> Iterator[tuple[int, Result]]:
        """Yield `(index, await serve(client, item))` of each item, as they finish.

        Items are taken as they can be sent, and asked for again after each result (see `Backend.complete`).
        """
        import openai

        todo = enumerate(items)
        waiting = next(todo, None)
        if waiting is None:
            return
        if not self._reached:
            self.probe()
        finished: queue.SimpleQueue[tuple[int, Result] | Exception] = queue.SimpleQueue()
        line = _Waiting[tuple[int, Item]](self._concurrency)
        client = openai.AsyncOpenAI(
            base_url=self.url,
            api_key=self._key(),
            timeout=self._timeout,
            max_retries=self._max_retries,
            http_client=openai.DefaultAsyncHttpxClient(event_hooks={"request": [_count_attempt]}),
        )

        async def work() -> None:
            try:
                while (entry := line.take()) is not None:
                    index, item = entry
                    finished.put((index, await serve(client, item)))
            except Exception as error:
                finished.put(error)

        # A thread with a loop of its own, so that it also works where a loop is running already (notebooks).
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        under_way = 0
        try:
            while waiting or under_way:
                while waiting:
                    if line.put(waiting):
                        asyncio.run_coroutine_threadsafe(work(), loop)
                    under_way += 1
                    # some wait in line, so that a worker has its next one at once
                    waiting = next(todo, None) if under_way < 2 * self._concurrency else None
                result = finished.get()
                if isinstance(result, Exception):
                    raise result
                under_way -= 1
                yield result
                waiting = next(todo, None)
        finally:
            asyncio.run_coroutine_threadsafe(_leave(client), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    async def serve(self, client: Any, path: str, body: Body, read: Callable[[Any], Result]) -> Served[Result]:
        """Post one request and read the JSON of its answer; whatever goes wrong is the fate of this item only.

        The client sends, waits and retries as ever, but makes no objects of its own of what goes out and comes in: that
        takes a third of its time.
        """
        import anyio

        attempts: list[float] = []
        _attempts.set(attempts)
        started = time.perf_counter()
        result, failure = None, ""
        try:
            # the client's timeout is one of silence; a server that drips bytes is stopped here
            with anyio.fail_after(self._timeout):
                answer = await client.post(path, body=body, cast_to=object)
            # the client leaves it a text where the header does not say JSON
            result = read(json.loads(answer) if isinstance(answer, str) else answer)
        except Exception as error:
            failure = f"failed: {_reason(error, self._timeout)}"
        return Served(result, failure, len(attempts), time.perf_counter() - started)

    def _key(self) -> str:
        return os.environ.get(self._key_env) or "none"  # a local server asks for none, the client insists on one


class _Waiting(Generic[Item]):
    """What waits for one of `most` workers of another thread. A worker leaves when it finds nothing."""

    def __init__(self, most: int):
        self._waiting: deque[Item] = deque()
        self._workers, self._most = 0, most
        self._lock = threading.Lock()

    def put(self, item: Item) -> bool:
        """True if a worker is wanted for it."""
        with self._lock:
            self._waiting.append(item)
            wanted = self._workers < self._most
            self._workers += wanted
            return wanted

    def take(self) -> Item | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._workers -= 1
            return None


async def _count_attempt(_: Any) -> None:
    _attempts.get().append(time.perf_counter())


async def _leave(client: Any) -> None:
    """Give up what is still open, and close the client."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await client.close()


def count(answer: Any, field: str) -> int | None:
    """A number of tokens from the `usage` of an answer, if it tells."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    found = usage.get(field) if isinstance(usage, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _reason(error: Exception, timeout: float) -> str:
    import openai

    if isinstance(error, (TimeoutError, openai.APITimeoutError)):
        return f"no answer within {timeout:g} s"
    if isinstance(error, openai.APIStatusError):
        body = error.body if isinstance(error.body, dict) else {}
        return one_line(f"HTTP {error.status_code}: {body.get('message') or error.message}")
    if isinstance(error, openai.APIConnectionError):
        return _connection_reason(error)
    if isinstance(error, json.JSONDecodeError):
        return one_line(f"the endpoint's answer is not valid JSON: {error}")
    return one_line(f"{type(error).__name__}: {error}")


def _connection_reason(error: BaseException) -> str:
    """The innermost cause: "connection refused" stands at the bottom of a chain of wrappers."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError) and error.strerror:
        return one_line(error.strerror)
    return one_line(str(error) or type(error).__name__)
