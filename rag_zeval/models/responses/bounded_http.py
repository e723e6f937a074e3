"""The HTTP client under the openai client, for untrusted servers: it limits answers and follows no redirects."""

import json
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rag_zeval.budget import Bill
from rag_zeval.errors import InputError
from rag_zeval.secrets import without_keys
from rag_zeval.text import one_line

MIB = 1 << 20
ERROR_BYTES = 64 << 10  # of an error's body that are read: the reason is at its beginning
SHOWN = 80  # characters of an unreadable answer, such as a sign-in page, in an error message
EVENTS = ("data:", "event:", "id:", "retry:", ":")  # how a stream of server-sent events may begin, and no JSON does
MOST_VALUES = 1_000_000  # in one answer: JSON's small values take twenty times their length in memory
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE")  # that set up an HTTP client
KEPT_HEADERS = ("location", "retry-after", "retry-after-ms", "x-should-retry")
NO_MONEY = '"insufficient_quota"'  # in an error of OpenAI's API: the account is empty, and a retry cannot help
NEVER_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout")  # HTTP client errors: no server got the request
HEADERS = {
    "Accept-Encoding": "identity",  # a compressed body may grow a thousandfold
    "Connection": "close",  # on a shared connection, a surplus answer would be taken for that of the next request
}


@dataclass
class Exchange:
    """The HTTP requests that one reply takes, and the last answer to them.

    sent: requests so far. status, text: HTTP status and body of the last answer, unchanged. utf8: whether the body is
    UTF-8; otherwise the text has U+FFFD in place of some bytes. refusal: why the body was not read, or None. error: the
    HTTP status of the last answer that was an error. bill: counts what the requests cost.
    """

    sent: int = 0
    status: int | None = None
    text: str = ""
    utf8: bool = True
    refusal: str | None = None
    error: int | None = None
    bill: Bill | None = None


exchange: ContextVar[Exchange] = ContextVar("exchange")  # of the reply that is being fetched


def open_http(max_bytes: int, error_status: Callable[[Any], int | None] = lambda answer: None) -> Any:
    """Return an HTTP client that reads at most `max_bytes` of a body.

    It rejects compressed bodies and follows no redirects.

    error_status: returns the HTTP status of the error in an answer's JSON; None if there is no error. An answer with
    status 200 then gets that status, and the openai client retries or gives up accordingly.

    The body is put into the current `exchange`. The openai client gets an answer without a body: it would copy the
    body, and after an exception of ours it would send the request, and pay, again. Streams are passed on unread.

    Raises InputError if an environment variable names a proxy or certificates that cannot be used.
    """
    import openai

    class BoundedClient(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, *, stream: bool = False, **settings: Any) -> Any:
            if stream:
                return await super().send(request, stream=True, **settings)
            under_way = exchange.get()
            if under_way.bill is not None:
                await under_way.bill.begin()
            under_way.sent, under_way.text, under_way.refusal = under_way.sent + 1, "", None
            under_way.status, answer, arrived = None, None, True
            try:
                response = await super().send(request, stream=True, **settings)
                under_way.status = response.status_code
                try:
                    await _read(response, max_bytes, under_way)
                finally:
                    await response.aclose()
                answer = json_or_none(under_way.text)
            except Exception as error:
                arrived = type(error).__name__ not in NEVER_SENT
                raise
            finally:  # after a timeout, too
                if under_way.bill is not None and arrived:
                    under_way.bill.end(under_way.status, answer)  # status 200 may be billed, whatever the body says
            headers = {name: value for name, value in response.headers.items() if name in KEPT_HEADERS}
            hidden = error_status(answer) if response.is_success else None
            under_way.error = hidden or (under_way.error if response.is_success else response.status_code)
            if NO_MONEY in under_way.text and (hidden or not response.is_success):
                headers["x-should-retry"] = "false"
            return type(response)(hidden or response.status_code, headers=headers, request=request)

    try:
        return BoundedClient(follow_redirects=False, headers=HEADERS)
    except Exception as error:  # of any kind: a package for SOCKS is missing, a URL is malformed, a file is not there
        reason = one_line(without_keys(f"{type(error).__name__}: {error}"))
        raise InputError(
            f"no HTTP client can be opened ({reason}); check the environment variables {', '.join(VARIABLES)}"
        ) from error


def proxy_of(url: str) -> str:
    """Return " through the proxy in HTTPS_PROXY", or whichever variable names one for this URL; "" without a proxy."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxies = getproxies()
    scheme = next((scheme for scheme in (parts.scheme, "all") if proxies.get(scheme)), None)
    if scheme is None or proxy_bypass(parts.netloc):
        return ""
    return f" through the proxy in {scheme.upper()}_PROXY"


async def _read(response: Any, max_bytes: int, under_way: Exchange) -> None:
    packed = response.headers.get("content-encoding", "")
    if packed.lower() not in ("", "identity"):
        under_way.refusal = f"the answer is packed (Content-Encoding {packed}), and none was asked for"
        return
    body, most = bytearray(), max_bytes if response.is_success else ERROR_BYTES
    async for part in response.aiter_raw():
        body += part
        if len(body) > most:
            break
    if len(body) > most and response.is_success:
        under_way.refusal = f"the answer is longer than {max_bytes / MIB:g} MiB"
    else:  # JSON is UTF-8, whatever a header says; a byte order mark is not part of it
        try:
            under_way.text = body[:most].decode("utf-8-sig")
        except UnicodeDecodeError:
            under_way.text, under_way.utf8 = body[:most].decode("utf-8-sig", "replace"), False


def read_json(text: str) -> Any:
    """Parse an answer; very long integers become floats. Raises ValueError if it is not JSON or has too many values."""
    if sum(map(text.count, ",:[{")) > MOST_VALUES:
        raise ValueError(f"the answer holds more than {MOST_VALUES:,} values")
    try:
        return json.loads(text, parse_int=_whole_number)
    except json.JSONDecodeError as error:
        streams = "it is a stream of events: turn streaming off, so that one JSON object is sent"
        reason = streams if text.lstrip().startswith(EVENTS) else error
        raise ValueError(f"the endpoint's answer is not valid JSON: {reason}: {text[:SHOWN]!r}") from error
    except RecursionError as error:
        raise ValueError("the endpoint's answer is not valid JSON: brackets without end") from error


def json_or_none(text: str) -> Any:
    """As `read_json`, but return None if the answer cannot be read."""
    try:
        return read_json(text)
    except ValueError:
        return None


def _whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) < 20 else float(digits)  # Python reads no int of more than 4,300 digits


def innermost_reason(error: BaseException) -> str:
    """Return why a connection failed, from the innermost of the exceptions that wrap each other."""
    while (cause := error.__cause__ or error.__context__ or _first_of(error)) is not None:
        error = cause
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _first_of(error: BaseException) -> BaseException | None:
    """Return the first exception of a group; None if this is no group. Python 3.10 has no class for them."""
    grouped: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return grouped[0] if grouped else None
