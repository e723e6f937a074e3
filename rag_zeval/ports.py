"""HTTP servers on this machine: the port that they listen on, and the answers that they send."""

import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rag_zeval.errors import InputError


def listen(
    host: str, port: int, protocol: str = "HTTP/1.0", **answers: Callable[[BaseHTTPRequestHandler], None]
) -> ThreadingHTTPServer:
    """A server that listens on a port; 0 picks a free one. It logs nothing.

    answers: what answers the requests of a method. Raises InputError, naming the port, if it is taken.

        listen("127.0.0.1", 8080, GET=lambda handler: send(handler, 200, {"ok": True})).serve_forever()
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = protocol

        def log_message(self, *args: Any) -> None:
            pass

    for method, answer in answers.items():
        setattr(Handler, f"do_{method}", lambda handler, answer=answer: answer(handler))
    try:
        return ThreadingHTTPServer((host, port), Handler)
    except OverflowError as error:
        raise InputError(f"port {port} of {host}: must be 0 to 65535") from error
    except OSError as error:
        raise InputError(f"port {port} of {host}: {error.strerror}; choose another with --port") from error


def send(handler: BaseHTTPRequestHandler, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
    """Send an HTTP answer. `body` is sent as JSON, or as it is if it is bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)
