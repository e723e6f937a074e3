"""Servers on this machine answer their user's programs, and no web page of others."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from rag_zeval.errors import InputError
from rag_zeval.ports import listen, send

OWN_NAME = socket.gethostname()
PORT = "{port}"  # stands for the server's


@contextmanager
def server(host: str) -> Iterator[int]:
    """A server that answers 200 in a thread; its port."""
    with listen(host, 0, GET=lambda handler: send(handler, 200, {}), POST=lambda handler: send(handler, 200, {})) as it:
        threading.Thread(target=it.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield it.server_port
        finally:
            it.shutdown()


def status(port: int, method: str, *headers: tuple[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, "/", skip_host=True)
    for name, value in headers:
        connection.putheader(name, value.replace(PORT, str(port)))
    connection.endheaders()
    return connection.getresponse().status


@pytest.mark.parametrize("host", ["no host", "192.0.2.1"])  # no name, and nobody's address
def test_a_host_that_is_not_this_machine_is_named(host: str) -> None:
    with pytest.raises(InputError, match=f"port 0 of {host}: .*; choose another with --host"):
        listen(host, 0)


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """The ports of servers, by the host that each was told to listen on."""
    with ExitStack() as stack:
        yield {host: stack.enter_context(server(host)) for host in ("127.0.0.1", "localhost", "0.0.0.0")}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("bound", "host", "answered"),
    [
        *(("127.0.0.1", host, True) for host in ("127.0.0.1:{port}", "localhost:{port}", "LocalHost", "[::1]:{port}")),
        ("127.0.0.1", "localhost:9999", True),  # a tunnel from another machine
        *(("127.0.0.1", host, False) for host in ("evil.example", "evil.example:{port}", "localhost.evil.example")),
        *(("127.0.0.1", host, False) for host in ("127.0.0.1.evil.example", "192.0.2.7", OWN_NAME, "", "[", "a b")),
        ("localhost", "localhost:{port}", True),
        *(("0.0.0.0", host, True) for host in ("192.0.2.7:{port}", "[2001:db8::7]:{port}", OWN_NAME, "localhost")),
        *(("0.0.0.0", host, False) for host in ("evil.example", "192.0.2.7.evil.example", "")),
    ],
)
def test_a_name_of_others_is_refused(ports: dict[str, int], bound: str, host: str, answered: bool, method: str) -> None:
    """A site can give its own name this machine's address, so that its pages may read what the address serves."""
    assert status(ports[bound], method, ("Host", host)) == (200 if answered else 403)


@pytest.mark.parametrize(
    ("origin", "answered"),
    [
        ("http://127.0.0.1:{port}", True),
        ("http://127.0.0.1:1", False),
        ("https://evil.example", False),
        ("null", False),
    ],
)
def test_a_page_of_another_site_is_refused(ports: dict[str, int], origin: str, answered: bool) -> None:
    headers = ("Host", "127.0.0.1:{port}"), ("Origin", origin), ("Content-Type", "text/plain")
    assert status(ports["127.0.0.1"], "POST", *headers) == (200 if answered else 403)


def test_no_host_and_two_hosts_are_refused(ports: dict[str, int]) -> None:
    port = ports["127.0.0.1"]
    assert status(port, "GET") == 403
    assert status(port, "GET", ("Host", "localhost"), ("Host", "evil.example")) == 403


def test_a_client_that_leaves_early_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    left = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        try:
            send(handler, 200, b"x" * 50_000_000)
        finally:
            left.set()

    def fail(handler: BaseHTTPRequestHandler) -> None:
        raise ValueError("a bug")

    with listen("127.0.0.1", 0, GET=answer, POST=fail) as it:
        threading.Thread(target=it.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        with socket.create_connection(("127.0.0.1", it.server_port)) as client:
            client.sendall(b"GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            client.recv(1)
        assert left.wait(10)
        with pytest.raises(http.client.RemoteDisconnected):  # after the first request has ended, too
            status(it.server_port, "POST", ("Host", "localhost"))
        it.shutdown()
    said = capfd.readouterr().err
    assert "a bug" in said and "Connection" not in said and "BrokenPipe" not in said
