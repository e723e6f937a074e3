"""The server behind the mock judge. It speaks OpenAI's API without a model, replies by script and fails on request.

`rag-zeval mock-judge` starts it from the command line, with the rule in `literal_judge` as its script. Tests of
everything that talks to a judge start it too.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import check_fields, read_json
from rag_zeval.literal_judge import said_in, word_vector
from rag_zeval.ports import listen, send

HANG_SECONDS = 3600.0
Body = dict[str, Any]
Answer = Mapping[str, Any]  # an HTTP answer: its "status", and "body" and "headers" if it has any
Replies = str | Mapping[str, str] | Callable[[Body], str | Answer | None]
NO_REPLY = {"status": 400, "body": {"error": {"message": "there is no reply to this"}}}
ERRORS: dict[str, Answer] = {
    "429": {"status": 429, "body": {"error": {"message": "too many"}}, "headers": {"Retry-After": "1"}},
    "500": {"status": 500, "body": {"error": {"message": "broken"}}},
}


def _nan(value: Any) -> Any:
    """Return a JSON value with NaN in place of every number and boolean."""
    if isinstance(value, dict):
        return {key: _nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_nan(inner) for inner in value]
    return float("nan") if isinstance(value, (bool, int, float)) else value


def _json_as(text: str, change: Callable[[Any], str]) -> str:
    """Change a reply if it is JSON. Return any other reply unchanged."""
    try:
        return change(json.loads(text))
    except ValueError:
        return text


# Faults of a model: how each changes a correct reply.
SPOILED: dict[str, Callable[[str], str]] = {
    "fenced": lambda text: f"```json\n{text}\n```",
    "prose": lambda text: f"Sure! Here is what I found [1]:\n\n{text}\n\nLet me know if it's of use.",
    "single quotes": lambda text: _json_as(text, repr),
    "nan": lambda text: _json_as(text, lambda value: json.dumps(_nan(value))),
    "empty": lambda text: "",
    "cut": lambda text: text[: len(text) // 2],
    "refusal": lambda text: "I am sorry, but I cannot judge this.",
}
# Faults of a server. "length": the reply is cut off at the token limit, and the server says so. "half": the connection
# closes in the middle of the answer. "drip": the server sends single bytes without end.
BROKEN = ("length", "no text", *ERRORS, "hang", "drip", "half")
FAULTS = (*SPOILED, *BROKEN)


class ScriptedJudge:
    """Serves chat completions and embeddings under `url` until `close`, each request in its own thread.

    replies: one text for all requests. Or a mapping: the first key that occurs in the prompt gives the reply. Or a
    function of the request's body that returns a text, an HTTP answer, or None. Without a reply the server answers 400.
    faults: names of FAULTS or HTTP answers for the next requests, one each in order of arrival; "ok" is no fault.
    count: counts the tokens of a text; without it every prompt has 7 and every reply 5.
    models, models_status: the list of models that the server returns, and its HTTP status. keep: whether `requests` and
    `headers` keep what was sent (hundreds of MB in a long run). delay: seconds before an answer. open_most: the largest
    number of requests that were open at one time.

        judge = ScriptedJudge('[{"id": "A", ...}]')
        Evaluator(open_backend(judge.spec())).evaluate("Who?", "Ann.", ["Ann."])
    """

    def __init__(self, replies: Replies = "", *, port: int = 0, keep: bool = True):
        self.replies = replies
        self.vector: Callable[[str], list[float]] = word_vector
        self.count: Callable[[str], int] | None = None
        self.faults: list[str | Answer] = []
        self.models: list[Body] = []
        self.models_status = 200
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.delay = 0.0
        self.open_most = 0
        self._open = 0
        self._keep = keep
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._server = listen("127.0.0.1", port, GET=self._list_models, POST=self.answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self.thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True, name="scripted judge"
        )
        self.thread.start()

    def spec(self, model: str = "judge") -> str:
        return f"openai:{model}@{self.url}"

    def close(self) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def _list_models(self, handler: BaseHTTPRequestHandler) -> None:
        send(handler, self.models_status, {"object": "list", "data": self.models})

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Read a request's body and answer it, or fail as the next fault says."""
        try:
            body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        except (TypeError, ValueError):  # no length, or no JSON
            self._break(handler, NO_REPLY)
            return
        with self._lock:
            if self._keep:
                self.requests.append(body)
                self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            fault = self.faults.pop(0) if self.faults else "ok"
            fault = ERRORS.get(fault, fault) if isinstance(fault, str) else fault
            self._open += 1
            self.open_most = max(self.open_most, self._open)
        time.sleep(self.delay)
        with self._lock:  # before the answer: a client may send its next request at the answer's last byte
            self._open -= 1
        if not self._break(handler, fault):
            answer = self._embed if handler.path.endswith("/embeddings") else self._chat
            answer(handler, body, fault)

    def _chat(self, handler: BaseHTTPRequestHandler, body: Body, fault: str | Answer) -> None:
        text = self._reply(body)
        if not isinstance(text, str):
            self._break(handler, text or NO_REPLY)
            return
        text = SPOILED[fault](text) if fault in SPOILED else text
        cut = fault == "length"
        content = None if fault == "no text" else SPOILED["cut"](text) if cut else text
        message = {"role": "assistant", "content": content}
        choice = {"index": 0, "message": message, "finish_reason": "length" if cut else "stop"}
        sent, written = 7, 5
        if self.count:
            sent = self.count(said_in(body))
            written = self.count(content or "")
        usage = {"prompt_tokens": sent, "completion_tokens": written, "total_tokens": sent + written}
        completion = {"id": "1", "object": "chat.completion", "created": 0, "model": body.get("model")}
        send(handler, 200, {**completion, "choices": [choice], "usage": usage})

    def _reply(self, body: Body) -> str | Answer | None:
        if callable(self.replies):
            return self.replies(body)
        if isinstance(self.replies, str):
            return self.replies
        try:
            prompt = said_in(body)
        except ValueError:
            return None
        return next((reply for key, reply in self.replies.items() if key in prompt), None)

    def _embed(self, handler: BaseHTTPRequestHandler, body: Body, fault: str | Answer) -> None:
        try:
            given = check_fields(body, {"input": (str, [str])})["input"]
        except InputError:
            self._break(handler, NO_REPLY)
            return
        texts = given if isinstance(given, list) else [given]
        vectors: list[Any] = [[] if fault in ("empty", "no text") else self.vector(text) for text in texts]
        vectors = _nan(vectors) if fault == "nan" else vectors
        data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        send(handler, 200, {"object": "list", "model": body.get("model"), "data": data, "usage": usage})

    def _break(self, handler: BaseHTTPRequestHandler, fault: str | Answer) -> bool:
        """Fail as a broken server does. Return False if the fault is no HTTP answer, "hang", "drip" or "half"."""
        if isinstance(fault, Mapping):
            send(handler, fault["status"], fault.get("body", {"error": {"message": "no"}}), fault.get("headers"))
        elif fault == "hang":
            self._stopped.wait(HANG_SECONDS)
        elif fault == "drip":
            handler.send_response(200)
            handler.end_headers()
            while not self._stopped.wait(0.05):
                handler.wfile.write(b" ")
        elif fault == "half":
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"choices": [')
            handler.close_connection = True
        else:
            return False
        return True


def read_replies(path: Path) -> dict[str, str]:
    """Read `{text in the prompt: reply}`. A reply that is no text is sent as JSON.

    Raises InputError if the file holds no JSON object.
    """
    return {key: reply if isinstance(reply, str) else json.dumps(reply) for key, reply in read_json(path).items()}
