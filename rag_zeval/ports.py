"""HTTP servers of this machine, and ports that cannot be had."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rag_zeval.errors import InputError


def listen(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """A server that listens at a port, 0 for any that is free. Raises InputError with the port if it cannot be had."""
    try:
        return ThreadingHTTPServer((host, port), handler)
    except OverflowError as error:
        raise InputError(f"port {port} of {host}: must be 0 to 65535") from error
    except OSError as error:
        raise InputError(f"port {port} of {host}: {error.strerror}; choose another with --port") from error
