"""An HTTP server over plain sockets that breaks what can be broken: a judge that nobody should trust."""

from __future__ import annotations

import json
import re
import socket
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from hostile_modes import HANG_SECONDS, MODES, Exchange, escaped, whole


class HostileServer:
    """Serves `/v1` on 127.0.0.1 by `honest(body) -> reply`, and breaks some answers by `MODES` until `close`.

    `elsewhere` counts the requests that came to `other_url`, where redirects point; `chats` counts the chat requests.
    """

    def __init__(self, honest: Callable[[dict[str, Any]], str], *, port: int = 0):
        self.honest = honest
        self.chats = self.elsewhere = 0
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self.set("good")
        self._listening = [_listen(port), _listen(0)]
        self.port = self._listening[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.other_url = f"http://127.0.0.1:{self._listening[1].getsockname()[1]}/v1"
        places = zip(self._listening, (self._serve, self._serve_elsewhere), strict=True)
        self._accepting = [threading.Thread(target=self._accept, args=place, daemon=True) for place in places]
        for thread in self._accepting:
            thread.start()

    def set(self, mode: str, on_models: bool = False) -> None:
        """Answer every chat request by a mode; or the list of models, and it alone."""
        assert mode in MODES, mode
        self._models, self._others = (mode, "good") if on_models else ("good", mode)
        self._by_question: Mapping[int, str] = {}
        self._connections = self.chats = 0

    def mix(self, modes: Mapping[int, str]) -> None:
        """Answer what is asked about "question N" by the mode for N, whenever it is asked, and all else well."""
        self.set("good")
        self._by_question = modes

    def close(self) -> None:
        self.stopped.set()
        for listening, thread in zip(self._listening, self._accepting, strict=True):
            thread.join()  # a port is not free while somebody accepts on it
            listening.close()

    def _accept(self, listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        while not self.stopped.is_set():
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            threading.Thread(target=self._guard, args=(connection, serve), daemon=True).start()

    def _guard(self, connection: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        with connection:
            try:
                connection.settimeout(HANG_SECONDS)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                serve(connection)
            except (OSError, ValueError):
                pass  # the client left

    def _serve_elsewhere(self, connection: socket.socket) -> None:
        if connection.recv(1 << 16):
            self.elsewhere += 1
            connection.sendall(whole({"object": "list", "data": []}))

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections += 1
            accepts = "closed at accept" not in (self._others, *self._by_question.values())
            if not accepts and 2 < self._connections < 6:
                return
        reader = connection.makefile("rb")
        while (first := reader.readline()) and not self.stopped.is_set():
            head = first
            while (line := reader.readline()).strip():
                head += line
            length = re.search(rb"(?im)^content-length: *(\d+)", head)
            content = reader.read(int(length[1])) if length else b""
            body = json.loads(content) if content else None
            with self._lock:
                self.chats += body is not None
            exchange = Exchange(self, connection, head.decode("latin-1"), body)
            answer = MODES[self._mode(content)](exchange)
            if answer is None:
                return
            connection.sendall(answer)

    def _mode(self, content: bytes) -> str:
        if not content:
            return self._models
        asked = [int(number) for number in re.findall(rb"question (\d+)", content)]
        return next((self._by_question[number] for number in asked if number in self._by_question), self._others)


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(256)
    listening.settimeout(0.1)
    return listening


def shows_key(content: bytes, key: str, piece: int = 20) -> list[str]:
    """Which pieces of a key stand in these bytes, as they are, in a URL's form or in JSON's."""
    found = []
    for start in range(len(key) - piece + 1):
        part = key[start : start + piece]
        quoted = urllib.parse.quote(part, safe="")
        forms = {
            part,
            quoted,
            quoted.lower(),
            escaped(part),
            part.replace("/", "\\/"),
            escaped(part).replace("\\", "\\\\"),
        }
        found += [form for form in forms if form.encode() in content]
    return found
