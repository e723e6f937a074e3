"""Sends requests to a server with OpenAI's protocol, many at a time, and counts what each one cost."""

import asyncio
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rag_zeval.budget import NOT_ASKED, Account, Bill, BudgetSpent, token_count
from rag_zeval.errors import InputError, needed
from rag_zeval.files import locate
from rag_zeval.models.http_errors import RETRIES, error_status, error_text
from rag_zeval.models.keys import gateway_headers, needed_key, read_key
from rag_zeval.models.language_model import Reply
from rag_zeval.models.responses.bounded_http import (
    MIB,
    Exchange,
    exchange,
    innermost_reason,
    open_http,
    proxy_of,
    read_json,
)
from rag_zeval.secrets import scrub
from rag_zeval.text import one_line

KEY_ENV = "OPENAI_API_KEY"
REFUSED = (400, 422)  # HTTP statuses of a request that must be changed before it is sent again
MOST_CHARACTERS = 1_000_000  # of a reply: several times those of 32,768 tokens; longer ones need much memory
BASE_URL = ". If they fail too, check the URL: most servers' base URLs end with /v1"
MOST_FAILURES = 20  # requests that fail one after the other, before anything was answered, until no more are sent
MOST_MENDS = 10  # changes to one request: more than there are reasons to reject it (see `Refusals`)

Body = dict[str, Any]
Reader = Callable[[Any], tuple[str, str]]  # from an answer's JSON to text and status; ValueError if it has no text
Mend = Callable[[Body, str], Body | None]  # from a rejected body and its answer to the body to send instead


@dataclass(frozen=True)
class _Session:
    """The client and limits of one event loop. Before the first request, `probe` checks that the server is there."""

    loop: asyncio.AbstractEventLoop
    client: Any
    places: asyncio.Semaphore
    probe: asyncio.Task[None] | None

    @property
    def is_failed(self) -> bool:
        """Whether the check found no server, or did not end."""
        probe = self.probe
        return probe is not None and probe.done() and (probe.cancelled() or probe.exception() is not None)


class Endpoint:
    """A model over HTTP: at most `concurrency` open requests, each with `timeout` seconds, retries included.

    Several threads may use it, each with its own event loop. `concurrency` then holds for each of them.
    connect_timeout: seconds to connect, and for the server's first answer (to a request for its list of models).
    max_body_mib: largest body of an answer, in MiB. account: the budget that pays for the calls, if there is one.
    extra_body: fields that callers of `post` add to their requests. They are part of `identity`.
    The key comes from the environment variable named by api_key_env. Only the HTTP client keeps it, and it is removed
    from everything that the server sends (`scrub`).
    Every request has the headers of `gateway_headers`, too.
    Raises InputError if that variable is not set or holds no key, for headers that cannot be sent, if a limit is not
    above 0, and if the openai package is missing.
    """

    def __init__(
        self,
        model: str,
        url: str,
        *,
        concurrency: int = 8,
        timeout: float = 600.0,
        connect_timeout: float = 10.0,
        max_body_mib: float = 16.0,
        max_retries: int = RETRIES,
        api_key_env: str | None = None,
        account: Account | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ):
        self._key_env = api_key_env or KEY_ENV
        if api_key_env is not None:
            with locate("api_key_env"):
                needed_key(api_key_env, "the API key")
        read_key(self._key_env)
        gateway_headers()
        if concurrency < 1:
            raise InputError(f"concurrency is {concurrency}, must be at least 1")
        limits = {"timeout": timeout, "connect_timeout": connect_timeout, "max_body_mib": max_body_mib}
        for name, value in limits.items():
            if not 0 < value < math.inf:
                raise InputError(f"{name} is {value:g}, must be a number above 0")
        with needed("openai", "an endpoint"):
            import openai  # noqa: F401
        self.name = model
        self.url = url.rstrip("/")
        self.extra_body = dict(extra_body or {})
        extra = json.dumps(self.extra_body, sort_keys=True, separators=(",", ":"))  # one word of the identity
        self.identity = f"{self.url} {model}{f' extra_body={extra}' if self.extra_body else ''}"
        self.at_once, self._max_retries = concurrency, max_retries
        self._timeout, self._connect_timeout, self._max_body_mib = timeout, connect_timeout, max_body_mib
        self._account = account
        self._reached = False
        self._answered, self._failures = False, 0  # whether a request was answered; how many failed
        self._here = threading.local()  # its `session` is that of the event loop in this thread

    async def _probe(self, http: Any, path: str) -> None:
        """Raise InputError if the server cannot be reached or rejects the key. Any other answer will do.

        The list of models is requested. Some servers refuse it (HTTP 401) with a key that is good for requests. So a
        request to `path` without content, which costs nothing, then decides.
        """
        for method, place, body in (("GET", "/models", None), ("POST", path, {})):
            if await self._status(http, method, place, body) != 401:
                return
        if read_key(self._key_env) is None:
            raise InputError(f"{self.url} needs an API key (HTTP 401); environment variable {self._key_env} is not set")
        raise InputError(f"{self.url} refuses the API key in {self._key_env} (HTTP 401); check the key")

    async def _status(self, http: Any, method: str, place: str, body: Body | None) -> int | None:
        """Return the HTTP status of the answer to a request; None if there is no answer in time.

        A note on stderr tells what is unusual. Raises InputError if the server cannot be reached.
        """
        import anyio
        import openai

        url, headers = f"{self.url}{place}", {"Authorization": f"Bearer {self._key()}", **gateway_headers()}
        # connecting has a shorter limit than the whole, so that we can tell the two timeouts apart
        timeout = openai.Timeout(None, connect=0.9 * self._connect_timeout)
        status, told = None, f"no answer within {self._connect_timeout:g} s"
        try:
            with anyio.fail_after(self._connect_timeout):
                async with http.stream(method, url, headers=headers, json=body, timeout=timeout) as answer:
                    status = answer.status_code
        except TimeoutError:  # it took the connection, so it is there; requests have their own time limit
            pass
        except Exception as error:
            reason = one_line(scrub(self._connection_reason(error)))
            raise InputError(f"cannot reach {self.url}{proxy_of(url)}: {reason}") from None
        if status is None or (status >= 300 and status != 401 and body is None):
            told = told if status is None else f"HTTP {status}{proxy_of(url)}"
            print(f"note: {url}: {told}; sending requests anyway{BASE_URL if status == 404 else ''}", file=sys.stderr)
        return status

    async def post(self, path: str, body: Body, read: Reader, mend: Mend | None = None) -> Reply:
        """Send one request and `read` the JSON of its answer. If it fails, the reply's status says why.

        If the server rejects the body, `mend` may give another one to send instead, up to MOST_MENDS times. Each
        attempt counts as a call.

        The request first waits for a free place, then for the budget. If the budget is spent, nothing is sent and the
        status is NOT_ASKED. The openai client sends and retries, but we read the body ourselves, because its own
        objects would take a third of the time. Raises InputError if the server cannot be reached or rejects the key,
        and if MOST_FAILURES requests failed and none was answered.
        """
        session: _Session | None = getattr(self._here, "session", None)
        if session is None or session.loop is not asyncio.get_running_loop() or session.is_failed:
            session = self._here.session = self._open_session(path)  # it checks again: the server may be there by now
        if session.probe is not None:
            await asyncio.shield(session.probe)
            self._reached = True
        async with session.places:
            reply = await self._send(session.client, path, body, read, mend)
        if not self._answered and self._failures >= MOST_FAILURES:
            said = f"the first {self._failures} requests failed, so no more are sent"
            raise InputError(f"{self.url}: {said}; the last one {reply.status}")
        return reply

    def _open_session(self, path: str) -> _Session:
        import openai

        loop = asyncio.get_running_loop()
        http = open_http(int(self._max_body_mib * MIB), error_status)
        client = openai.AsyncOpenAI(
            base_url=self.url,
            api_key=self._key(),
            timeout=openai.Timeout(self._timeout, connect=self._connect_timeout),
            max_retries=self._max_retries,
            default_headers=gateway_headers(),
            http_client=http,
        )
        probe = None if self._reached else loop.create_task(self._probe(http, path))
        session = _Session(loop, client, asyncio.Semaphore(self.at_once), probe)
        if probe is not None:
            probe.add_done_callback(lambda _: session.is_failed)  # no warning of asyncio if all requests are cancelled
        return session

    async def _send(self, client: Any, path: str, body: Body, read: Reader, mend: Mend | None) -> Reply:
        import anyio

        bill = Bill(self._account, body)
        under_way = Exchange(bill=bill)
        exchange.set(under_way)
        started = time.perf_counter()
        answer, text = None, None
        try:
            await bill.begin()  # the time limit starts once the budget allows the call
            started = time.perf_counter()
            # the client only limits the time between two bytes; this also stops a server that sends one now and then
            with anyio.fail_after(self._timeout):
                await _post_mended(client, path, body, mend)
            if under_way.refusal:
                raise ValueError(under_way.refusal)
            answer = read_json(scrub(under_way.text))
            self._answered = True
            said, status = read(answer)
            if len(said) > MOST_CHARACTERS:
                raise ValueError(f"the reply has {len(said):,} characters; at most {MOST_CHARACTERS:,} are read")
            text = said
        except Exception as error:
            if isinstance(error.__cause__ or error, BudgetSpent):  # older clients wrap it
                status = NOT_ASKED
            else:
                status = f"failed: {one_line(scrub(self._reason(error, under_way)))}"
                self._failures += not self._answered and not _is_about_body(error, under_way)
        finally:
            bill.close()
        counts = token_count(answer, "prompt_tokens"), token_count(answer, "completion_tokens")
        retries, seconds = max(0, under_way.sent - 1), time.perf_counter() - started
        costs: dict[str, Any] = {"paid_tokens": bill.paid, "bounded": bill.bounded}
        return Reply(text, status, *counts, calls=under_way.sent, retries=retries, seconds=seconds, **costs)

    def _reason(self, error: Exception, under_way: Exchange) -> str:
        import openai

        if isinstance(error, openai.APIStatusError):
            return error_text(error.response, under_way.refusal or under_way.text, under_way.status)
        if isinstance(error, openai.APIConnectionError):
            return self._connection_reason(error.__cause__ or error)
        if isinstance(error, TimeoutError):
            said = f"no answer within {self._timeout:g} s"
            if under_way.error is not None:  # it is there, but says no: more time would not help
                said += f"; the last error was HTTP {under_way.error}"
            elif under_way.sent > 1:
                said += f" to the last of {under_way.sent} requests"
            return said
        return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"

    def _connection_reason(self, error: BaseException) -> str:
        kind = type(error).__name__  # openai brings one of two HTTP clients; their errors have the same names
        if kind == "ConnectTimeout":
            return f"no connection within {self._connect_timeout:g} s"
        if kind.endswith("Timeout"):
            return f"no answer within {self._timeout:g} s"
        return innermost_reason(error)

    def _key(self) -> str:
        return read_key(self._key_env) or "none"  # local servers need no key, but the client insists on one


def _is_about_body(error: Exception, under_way: Exchange) -> bool:
    """Whether the server rejected this request, as too long for example. It may accept others."""
    return getattr(error, "status_code", under_way.status) in (*REFUSED, 413)


async def _post_mended(client: Any, path: str, body: Body, mend: Mend | None) -> None:
    import openai

    for _ in range(MOST_MENDS):
        try:
            await client.post(path, body=body, cast_to=str)
            return
        except openai.APIStatusError as error:
            if mend is None or error.status_code not in REFUSED:
                raise
            if (mended := mend(body, exchange.get().text)) is None:
                raise
            body, under_way = mended, exchange.get()
            under_way.error = None
            if under_way.bill is not None:
                under_way.bill.change(body)
    await client.post(path, body=body, cast_to=str)
