"""An HTTP server that breaks what can be broken: a judge that nobody should trust."""

from __future__ import annotations

import json
import re
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hostile_modes import MODES

POUR_BYTES = 4 << 30  # what an endless mode sends at most
HANG_SECONDS = 600.0


class Exchange(BaseHTTPRequestHandler):
    """The requests of one connection in turn, each with its `body` (None where the models are asked for) and `key`.

    `text` is the honest reply to it. What goes over the wire, its mode says.
    """

    server: HostileServer
    protocol_version = "HTTP/1.1"  # a connection is kept
    disable_nagle_algorithm = True
    timeout = HANG_SECONDS

    def handle(self) -> None:
        with suppress(OSError, ValueError):  # the client left
            super().handle()

    def do_GET(self) -> None:
        self._respond(None, self.server.models_mode)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.chats += 1
        self._respond(json.loads(content), self.server.chat_mode(content))

    def _respond(self, body: dict[str, Any] | None, mode: str) -> None:
        self.body, self.text = body, self.server.honest(body) if body is not None else ""
        self.key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        answer = self.answer(mode)
        if answer is None:
            self.close_connection = True
        else:
            self.send(answer)

    def answer(self, mode: str) -> bytes | None:
        return MODES[mode](self)

    def log_message(self, *args: Any) -> None:
        pass

    def right(self, text: str | None = None, **changes: Any) -> dict[str, Any]:
        """The right answer, or that with another text, or with other top-level fields."""
        if self.server.is_system:
            said = self.text if text is None else text
            return {"answer": said, "docs": [{"id": "1", "text": self.text}], **changes}
        if self.body is None:
            return {"object": "list", "data": [{"id": "judge", "object": "model"}], **changes}
        message = {"role": "assistant", "content": self.text if text is None else text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
        return {"id": "1", "object": "chat.completion", "created": 0, "choices": [choice], "usage": usage, **changes}

    def choice(self, **changes: Any) -> dict[str, Any]:
        """The right answer to a chat with other fields in its choice."""
        answer = self.right()
        answer["choices"][0].update(changes)
        return answer

    def send(self, content: bytes) -> None:
        self.connection.sendall(content)

    def pour(self, pieces: Iterable[bytes], pause: float = 0.0) -> None:
        """Send until the client leaves, the server stops, or it is enough; never so fast that nobody else is served."""
        sent = 0
        for piece in pieces:
            if sent > POUR_BYTES or self.server.stopped.wait(pause or 0.001):
                return
            self.send(piece)
            sent += len(piece)

    def hang(self) -> None:
        """Say nothing until the server stops."""
        self.server.stopped.wait(HANG_SECONDS)


class HostileServer(ThreadingHTTPServer):
    """Serves `/v1` on 127.0.0.1 by `honest(body) -> reply`, and breaks some answers by `MODES` until `close`.

    `other_url` is where redirects point: nobody answers there. `chats` counts the chat requests. is_system: it is a RAG
    system, whose answers have the text in "answer" and one chunk, which says the same, in "docs".
    """

    request_queue_size = 256
    exchange = Exchange

    def __init__(self, honest: Callable[[dict[str, Any]], str | None], *, port: int = 0, is_system: bool = False):
        super().__init__(("127.0.0.1", port), self.exchange)
        self.honest, self.is_system, self.stopped = honest, is_system, threading.Event()
        self.set("good")
        self._elsewhere = socket.create_server(("127.0.0.1", 0))
        self._elsewhere.setblocking(False)
        self.url, self.other_url = (
            f"http://127.0.0.1:{at.getsockname()[1]}/v1" for at in (self.socket, self._elsewhere)
        )
        self._accepting = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._accepting.start()

    @property
    def elsewhere(self) -> bool:
        """Whether somebody came to `other_url`."""
        return bool(select.select([self._elsewhere], [], [], 0)[0])

    def set(self, mode: str, on_models: bool = False) -> None:
        """Answer every chat request by a mode; or the list of models, and it alone."""
        self.models_mode, self._others = (mode, "good") if on_models else ("good", mode)
        self._by_question: Mapping[int, str] = {}
        self._connections = self.chats = 0

    def mix(self, modes: Mapping[int, str]) -> None:
        """Answer what is asked about "question N" by the mode for N, whenever it is asked, and all else well."""
        self.set("good")
        self._by_question = modes

    def chat_mode(self, content: bytes) -> str:
        asked = [int(number) for number in re.findall(rb"question (\d+)", content)]
        return next((self._by_question[number] for number in asked if number in self._by_question), self._others)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether a connection that was accepted is not closed at once."""
        self._connections += 1
        accepts = "closed at accept" not in (self._others, *self._by_question.values())
        return accepts or not 2 < self._connections < 6

    def shutdown_request(self, request: Any) -> None:
        self.close_request(request)  # without a word that it ends, so that a reset is one

    def handle_error(self, request: Any, client_address: Any) -> None:
        raise sys.exc_info()[1]  # a mistake in a mode, of which a test shall know

    def close(self) -> None:
        self.stopped.set()
        self.shutdown()
        self._accepting.join()  # a port is not free while somebody accepts on it
        self.server_close()
        self._elsewhere.close()
