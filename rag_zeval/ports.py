"""HTTP servers on this machine: they listen on a port, refuse requests of other sites, and send answers."""

import errno
import ipaddress
import json
import socket
import sys
from collections.abc import Callable, Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from rag_zeval.errors import InputError

EVERY_NETWORK = ("", "0.0.0.0", "::")


class Server(ThreadingHTTPServer):
    """An HTTP server with a thread for each request. A client that leaves early is no error."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def listen(
    host: str, port: int, protocol: str = "HTTP/1.0", **answers: Callable[[BaseHTTPRequestHandler], None]
) -> Server:
    """Return a server that listens on a port; 0 picks a free one. It logs nothing.

    It refuses requests that another site's page makes from a browser on this machine (see `is_for`).
    answers: the function that answers requests, by HTTP method. Raises InputError if the port cannot be used.

        listen("127.0.0.1", 8080, GET=lambda handler: send(handler, 200, {"ok": True})).serve_forever()
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = protocol

        def log_message(self, *args: Any) -> None:
            pass

    def answer_own(handler: BaseHTTPRequestHandler, answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
        if is_for(host, handler.headers):
            answer(handler)
        else:
            refuse(handler)

    for method, answer in answers.items():
        setattr(Handler, f"do_{method}", lambda handler, answer=answer: answer_own(handler, answer))
    try:
        return Server((host, port), Handler)
    except OverflowError as error:
        raise InputError(f"port {port} of {host}: must be 0 to 65535") from error
    except OSError as error:
        of_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        option = "--host" if of_host else "--port"
        raise InputError(f"port {port} of {host}: {error.strerror}; choose another with {option}") from error


def is_for(host: str, headers: Message) -> bool:
    """Whether a request is meant for a server on `host`, and was not sent by a page of another site.

    A site can give its own name the address 127.0.0.1, and its page can then read what is served here. So the header
    Host must be localhost or `host`. For a server on every network it may also be any address or this machine's name.
    The header Origin, in which a page says where it is from, must name the same host.
    """
    called = headers.get_all("Host", [])
    try:
        (name,) = (urlsplit(f"//{one}").hostname for one in called)
    except ValueError:  # no Host, two, or an invalid one
        return False
    names = {"localhost", "127.0.0.1", "::1", host.lower()}
    own = name in names or (host in EVERY_NETWORK and (name == socket.gethostname().lower() or _is_address(name)))
    return own and all(origin == f"http://{called[0]}" for origin in headers.get_all("Origin", []))


def _is_address(name: str | None) -> bool:
    try:
        ipaddress.ip_address(name or "")
    except ValueError:
        return False
    return True


def refuse(handler: BaseHTTPRequestHandler) -> None:
    """Answer 403 to a request that is not for this server, and close the connection, because its body stays unread."""
    handler.close_connection = True
    send(handler, 403, {"error": {"message": "refused: ask this server by the address that it printed"}})


def send(handler: BaseHTTPRequestHandler, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
    """Send an HTTP answer. `body` is sent as JSON, or unchanged if it is bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)
