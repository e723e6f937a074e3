"""The ways in which a hostile server answers a request, by name (`MODES`).

An honest part says what the right answer would be; a mode sends that in a form that is hard to read, something else,
nothing, or too much.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import struct
import time
import urllib.parse
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from spelt_keys import escaped

if TYPE_CHECKING:
    from hostile_server import Exchange

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxt.exe\u2066\u200b"
FLOOD = b"x" * (1 << 16)
Respond = Callable[["Exchange"], "bytes | None"]


def head(*lines: str, status: int = 200, reason: str = "OK") -> bytes:
    """A status line and header lines, with the empty line after them."""
    return "\r\n".join((f"HTTP/1.1 {status} {reason}", *lines, "", "")).encode("utf-8", "surrogatepass")


def whole(body: Any, *lines: str, status: int = 200, reason: str = "OK", kind: str = "application/json") -> bytes:
    """An answer with its length: JSON, or bytes as they are."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (
        head(f"Content-Type: {kind}", f"Content-Length: {len(content)}", *lines, status=status, reason=reason) + content
    )


def chunked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield b"%x\r\n%s\r\n" % (len(piece), piece)


def error(status: int, message: str = "no", *lines: str) -> Respond:
    return lambda at: whole({"error": {"message": message, "type": "x"}}, *lines, status=status, reason="No")


def limited(retry_after: str) -> Respond:
    return error(429, "too many", f"Retry-After: {retry_after}")


def answered(change: Callable[[Exchange], Any]) -> Respond:
    """A whole answer with this body."""
    return lambda at: whole(change(at))


def right_with(**fields: Any) -> Respond:
    """The right answer with other top-level fields."""
    return answered(lambda at: at.right(**fields))


def choice_with(**fields: Any) -> Respond:
    """The right answer with other fields in its choice."""
    return answered(lambda at: at.choice(**fields))


def plain(text: str, status: int = 400, kind: str = "text/plain") -> bytes:
    """An answer that is a text."""
    return whole(text.encode(), status=status, kind=kind)


def raw(at: Exchange) -> bytes:
    """The right answer's body."""
    return json.dumps(at.right()).encode()


def big(text: str, times: int) -> Respond:
    """An answer whose text is this one many times; a wide character takes four bytes in it, and in memory."""
    return lambda at: _big(text, times, at.server.is_system)


@cache
def _big(text: str, times: int, from_system: bool) -> bytes:
    message = {"role": "assistant", "content": text * times}
    chat = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return whole(json.dumps({"answer": text * times} if from_system else chat, ensure_ascii=False).encode())


def then_closed(content: Callable[[Exchange], bytes]) -> Respond:
    """These bytes and the end of the connection."""
    return lambda at: at.send(content(at))


def poured(first: bytes, *again: bytes, pause: float = 0.0) -> Respond:
    """`first`, then the others again and again."""

    def respond(at: Exchange) -> None:
        at.send(first)
        at.pour(itertools.cycle(again), pause)

    return respond


def dripped(content: Callable[[Exchange], bytes], at_once: int = 0) -> Respond:
    """A byte at a time, ten a second, after those that come at once."""

    def respond(at: Exchange) -> None:
        told = content(at)
        at.send(told[:at_once])
        at.pour((told[i : i + 1] for i in range(at_once, len(told))), 0.1)
        at.hang()

    return respond


def hung(content: Callable[[Exchange], bytes]) -> Respond:
    """These bytes, then nothing."""

    def respond(at: Exchange) -> None:
        at.send(content(at))
        at.hang()

    return respond


def hidden_error(code: Any) -> Respond:
    """An error whose HTTP status says that all is well."""
    return answered(lambda at: {"id": None, "choices": None, "error": {"message": "no", "code": code}})


def redirected(status: int, where: Callable[[Exchange], str]) -> Respond:
    return lambda at: whole(b"moved", f"Location: {where(at)}", status=status, reason="Moved", kind="text/plain")


def reset(at: Exchange) -> None:
    at.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def compressed(at: Exchange, wbits: int) -> bytes:
    squeeze = zlib.compressobj(wbits=wbits)
    return squeeze.compress(raw(at)) + squeeze.flush()


def bomb(name: str, wbits: int) -> Respond:
    """A small body that grows a thousandfold."""

    def respond(at: Exchange) -> None:
        squeeze = zlib.compressobj(9, wbits=wbits)
        at.send(head("Content-Type: application/json", f"Content-Encoding: {name}"))
        at.pour(squeeze.compress(b" " * (1 << 22)) for _ in range(2000))

    return respond


def tiny_chunks(at: Exchange) -> bytes:
    return head("Transfer-Encoding: chunked") + b"".join(chunked(bytes([b]) for b in raw(at))) + b"0\r\n\r\n"


def otherwise(at: Exchange) -> str:
    """A text that says otherwise: nobody asked for it."""
    return re.sub(r"\b(true|false)\b", lambda m: "false" if m[0] == "true" else "true", at.text).replace("Fact", "Lie")


def wrong(at: Exchange) -> dict[str, Any]:
    return at.right(otherwise(at))


def hidden_in_choice(at: Exchange, error: Any) -> dict[str, Any]:
    """An answer that says otherwise, and in the same choice that it ended with an error."""
    answer = wrong(at)
    answer["choices"][0].update(error=error, finish_reason="error")
    return answer


def choices(answer: dict[str, Any], index: int) -> list[dict[str, Any]]:
    return [{**choice, "index": index} for choice in answer["choices"]]


def said(message: Callable[[Exchange, str], dict[str, Any]]) -> Respond:
    """The right answer with another message, made of the exchange and of a text that says otherwise."""
    return answered(lambda at: at.choice(message=message(at, otherwise(at))))


def thinking(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [text_part(text)]}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def called(arguments: str) -> dict[str, Any]:
    return {"id": "1", "type": "function", "function": {"name": "judge", "arguments": arguments}}


def cut_off(reason: str) -> Respond:
    """Half of the text, and this reason."""
    return answered(lambda at: at.choice(message={"content": at.text[: len(at.text) // 2]}, finish_reason=reason))


def cut_thoughts(at: Exchange) -> bytes:
    """All tokens went into thoughts, which say otherwise."""
    message = {"content": "", "reasoning_content": otherwise(at)}
    return whole(at.choice(message=message, finish_reason="length"))


def raw_usage(number: str) -> Respond:
    """Token counts written as `number`."""

    def respond(at: Exchange) -> bytes:
        told = json.dumps(at.right(usage={"prompt_tokens": "N", "completion_tokens": "N", "total_tokens": "N"}))
        return whole(told.replace('"N"', number).encode())

    return respond


def with_claim(at: Exchange, claim: str) -> str:
    """The right reply with this put into its first claim, else into the true answer to a question, else before it."""
    place = next((name for name in ('"claim": "', '"answer": "') if name in at.text), "")
    return at.text.replace(place, f"{place}{claim} ", 1)


JSON_HEAD = head("Content-Type: application/json")
CHUNKED_HEAD = head("Content-Type: application/json", "Transfer-Encoding: chunked")

OF_ANY: dict[str, Respond] = {
    "good": right_with(),
    # connections
    "closed at accept": right_with(),  # the server sees to it
    "reset": reset,
    "closed without a word": lambda at: None,
    "closed in the status line": then_closed(lambda at: b"HTTP/1.1 20"),
    "closed after the headers": then_closed(lambda at: head("Content-Length: 100")),
    "half a body": then_closed(lambda at: whole(at.right())[:-40]),
    "no body": answered(lambda at: b""),
    "hangs": hung(lambda at: b""),
    "hangs after the headers": hung(lambda at: head("Content-Length: 100")),
    "hangs in the body": hung(lambda at: whole(at.right())[:-1]),
    "drips the status line": dripped(lambda at: whole(at.right())),
    "drips headers": dripped(lambda at: head("X-Drip: " + "x" * 9000), 20),
    "drips the body": dripped(lambda at: JSON_HEAD + b" " * 9000, len(JSON_HEAD)),
    "drips chunks": dripped(lambda at: CHUNKED_HEAD + b"1\r\n \r\n" * 2000, len(CHUNKED_HEAD)),
    # without end
    "endless headers": poured(b"HTTP/1.1 200 OK\r\n", b"X-A: " + FLOOD[:1000] + b"\r\n"),
    "an endless header": poured(b"HTTP/1.1 200 OK\r\nX-A: ", FLOOD),
    "an endless status line": poured(b"HTTP/1.1 200 ", FLOOD),
    "endless 1xx": poured(b"", head(status=100, reason="Continue") * 100),
    "endless 1xx, slowly": poured(b"", head(status=103, reason="Early Hints"), pause=0.05),
    "an endless body": poured(JSON_HEAD, FLOOD),
    "an endless body of spaces": poured(JSON_HEAD, b" " * (1 << 16)),
    "an endless body of brackets": poured(JSON_HEAD, b"[" * (1 << 16)),
    "endless chunks": poured(CHUNKED_HEAD, *chunked([FLOOD])),
    "an endless chunk's name": poured(CHUNKED_HEAD + b"1;", FLOOD),
    "an endless chunk's size": poured(CHUNKED_HEAD, b"0" * 4096),
    "endless trailers": poured(CHUNKED_HEAD + b"0\r\n", b"X-A: " + FLOOD[:1000] + b"\r\n"),
    "endless tiny chunks": poured(CHUNKED_HEAD, b"1\r\n \r\n" * 4096),
    "an endless error": poured(head(status=400, reason="Bad"), FLOOD),
    "an endless 500": poured(head(status=500, reason="Bad"), FLOOD),
    "50 MB": big("x", 50_000_000),
    "50 MB of wide characters": big("\U0001f600", 12_500_000),
    "15 MB of text": big("x", 15_000_000),
    "15 MB of wide characters": big("\U0001f600", 3_750_000),
    "15 MB of escapes": big("\x01", 2_500_000),
    "15 MB of empty objects in the text": big("{},", 5_000_000),
    "15 MB around the reply": answered(lambda at: at.right("x " * 3_750_000 + at.text + " x" * 3_750_000)),
    "an announced petabyte": then_closed(lambda at: head(f"Content-Length: {10**15}") + FLOOD),
    # encodings of content
    "gzip": lambda at: whole(compressed(at, 31), "Content-Encoding: gzip"),
    "deflate": lambda at: whole(compressed(at, 15), "Content-Encoding: deflate"),
    "a broken gzip": lambda at: whole(compressed(at, 31)[:20] + b"broken", "Content-Encoding: gzip"),
    "gzip that is none": lambda at: whole(at.right(), "Content-Encoding: gzip"),
    "an unknown encoding": lambda at: whole(at.right(), "Content-Encoding: x-secret"),
    "a gzip bomb": bomb("gzip", 31),
    "a deflate bomb": bomb("deflate", 15),
    "a gzip bomb in a gzip": bomb("gzip, gzip", 31),
    # lengths and chunks
    "a length too long": hung(lambda at: head("Content-Length: 99999") + raw(at)),
    "a length too short": lambda at: head("Content-Length: 60") + raw(at),
    "a negative length": then_closed(lambda at: head("Content-Length: -5") + raw(at)),
    "a length that is not a number": then_closed(lambda at: head("Content-Length: lots") + raw(at)),
    "two lengths": then_closed(lambda at: head("Content-Length: 5", "Content-Length: 9") + b"{}"),
    "a length and chunks": then_closed(
        lambda at: head("Content-Length: 5", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n"
    ),
    "a chunk's size is not a number": then_closed(lambda at: CHUNKED_HEAD + b"zz\r\n{}\r\n"),
    "a huge chunk": then_closed(lambda at: CHUNKED_HEAD + b"fffffffffffffff0\r\n{}\r\n"),
    "chunks without an end": then_closed(lambda at: CHUNKED_HEAD + b"".join(chunked([raw(at)]))),
    "tiny chunks": tiny_chunks,
    # protocol
    "100, then the answer": lambda at: head(status=100, reason="Continue") + whole(at.right()),
    "103 many times, then the answer": lambda at: head(status=103, reason="Early") * 50 + whole(at.right()),
    "101": then_closed(lambda at: head("Upgrade: websocket", "Connection: Upgrade", status=101, reason="Up") + FLOOD),
    "HTTP/0.9": then_closed(raw),
    "HTTP/9.9": lambda at: whole(at.right()).replace(b"HTTP/1.1", b"HTTP/9.9"),
    "garbage": then_closed(lambda at: bytes(range(256)) * 40),
    "TLS instead": then_closed(lambda at: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500),
    "status 999": lambda at: whole(at.right(), status=999),
    "status 0": lambda at: whole(at.right(), status=0),
    "events instead of JSON": lambda at: plain(f"data: {raw(at).decode()}\n\n", 200, "text/event-stream"),
    "two answers at once": lambda at: whole(at.right()) + whole(wrong(at)),
    "an answer too many, later": lambda at: at.send(whole(at.right())) or time.sleep(0.02) or whole(wrong(at)),
    "the connection ends after the answer": then_closed(lambda at: whole(at.right())),
    "says it closes and does not": lambda at: whole(at.right(), "Connection: close"),
    "a header of control characters": lambda at: whole(at.right(), "X-A: \x01\x02\x7f"),
    "a codec of bad repute": lambda at: whole(at.right(at.text + "é" * 200_000), kind="text/x; charset=punycode"),
    "a codec that is none": lambda at: whole(at.right(), kind="application/json; charset=\"\x01no such\""),
    # statuses
    "204": then_closed(lambda at: head(status=204, reason="No Content")),
    "205": answered(lambda at: b""),
    "304": then_closed(lambda at: head(status=304, reason="Not Modified")),
    "301 to itself": redirected(301, lambda at: at.server.url + "/chat/completions"),
    **{
        f"{code} elsewhere": redirected(code, lambda at: at.server.other_url + "/chat/completions")
        for code in (302, 303, 307, 308)
    },
    "307 to a file": redirected(307, lambda at: "file:///etc/passwd"),
    "307 to nowhere": redirected(307, lambda at: "http://[::bad:/\x01"),
    "307 without a place": lambda at: whole(b"", status=307, reason="Moved"),
    "307, always another": redirected(307, lambda at: f"{at.server.url}/{time.monotonic_ns()}/chat/completions"),
    **{str(code): error(code) for code in (400, 401, 403, 404, 405, 408, 409, 413, 418, 422, 451)},
    **{str(code): error(code) for code in (500, 501, 502, 503, 504, 529)},
    **{f"429, again after {after!r}": limited(after) for after in ("0", "1", "-1", "1e9", "nan", "inf", "9" * 400)},
    "429, again after a date": limited("Wed, 21 Oct 2099 07:28:00 GMT"),
    "429, again after nonsense": limited("soon\x7f, maybe"),
    "400, to be tried again": error(400, "no", "x-should-retry: true"),
    "500 without a word": lambda at: whole(b"", status=500, reason=""),
    "an error as text": lambda at: plain("the quota is used up", 403),
    "an error as HTML": lambda at: plain("<html><body><h1>502 Bad Gateway</h1></body></html>", 502, "text/html"),
    "an error as a list": lambda at: whole([1, {"message": 5}], status=400),
    "an error as JSON's null": lambda at: whole(None, status=400),
    "an error that nests": lambda at: whole(b"[" * 60_000, status=400),
    "an error of many digits": lambda at: whole(b'{"error": ' + b"9" * 50_000 + b"}", status=400),
    "an error in UTF-16": lambda at: whole('{"error": {"message": "no"}}'.encode("utf-16"), status=400),
    "an error of escapes": lambda at: whole({"error": {"message": ESCAPES}}, status=400),
    "an error as text of escapes": lambda at: plain(ESCAPES),
    "an error in a codec of bad repute": lambda at: plain("no" + "é" * 30_000, 400, "text/x; charset=punycode"),
    "an error of half characters": lambda at: whole({"error": {"message": "no \ud800 \udfff"}}, status=400),
    "an error that names every parameter": error(400, "temperature, top_p, seed, max_tokens, max_completion_tokens"),
    "an error that names every parameter, 422": error(422, "no response_format, top_p, max_completion_tokens"),
    "an error with a window of one token": error(400, "maximum context length is 1 tokens (0 in the messages)"),
    "an error with a longest reply of one token": error(400, "max_tokens: at most 1"),
    # the key comes back
    "the key in an error": lambda at: plain(f'{{"error": {{"message": "Incorrect API key provided: {at.key}."}}}}'),
    "the key in a text error": lambda at: plain(f"no such key: {at.key}", 403),
    "the key in a page": lambda at: plain(f"<p>Authorization: Bearer {at.key}</p>", 500, "text/html"),
    "the key, cut off": lambda at: plain("." * 280 + at.key),
    "half the key": lambda at: plain(f"the key {at.key[: len(at.key) // 2]} is not known"),
    "the key in a URL": lambda at: plain(f"/v1?key={urllib.parse.quote(at.key, safe='')}"),
    "the key escaped in an error": lambda at: plain(f'{{"detail": "{escaped(at.key)}"}}'),
    "the key in a status line": lambda at: whole(b"no", status=400, reason=at.key, kind="text/plain"),
    "the key in a broken status line": then_closed(lambda at: f"Bearer {at.key}\r\n\r\n".encode()),
    "the key in a broken header": then_closed(lambda at: f"HTTP/1.1 200 OK\r\n{at.key}\r\n\r\n".encode()),
    "the key in a header": lambda at: whole(at.right(), f"X-Key: {at.key}"),
    "the key in a place to go": redirected(307, lambda at: f"http://{at.key}@127.0.0.1:1/{at.key}"),
    "the key in a chunk's size": then_closed(lambda at: CHUNKED_HEAD + at.key.encode() + b"\r\n"),
    "the key in a reply": answered(lambda at: at.right(with_claim(at, at.key))),
    "the key escaped in a reply": answered(lambda at: at.right(with_claim(at, escaped(at.key)))),
    "the key around a reply": answered(lambda at: at.right(f"Bearer {at.key}\n```json\n{at.text}\n```\n{at.key}")),
    "the key as the reply": answered(lambda at: at.right(at.key)),
    "the key as a model": answered(lambda at: at.right(model=at.key, id=at.key, system_fingerprint=at.key)),
    # JSON of other shapes
    "null": answered(lambda at: None),
    "a list": answered(lambda at: [at.right()]),
    "a number": answered(lambda at: 5),
    "a text": answered(lambda at: at.text),
    "an empty object": answered(lambda at: {}),
    "an error with status 200": answered(lambda at: {"error": {"message": "no" + ESCAPES}}),
    **{
        f"an error with status 200 and code {code!r}": hidden_error(code)
        for code in (400, 401, 429, 500, "429", "rate_limit_exceeded", "content_filter", 1e400, -1, True, [429])
    },
    "an error in a list, with status 200": answered(lambda at: [{"error": {"code": 503, "message": "no"}}]),
    "an error that is the answer": answered(lambda at: {"object": "error", "message": "no", "code": 500}),
    "an error that is a text, with status 200": answered(lambda at: {"error": "no" + ESCAPES, "status": 503}),
    "an error that nests, with status 200": answered(lambda at: {"error": {"error": {"error": [["no"]]}}}),
    "a detail with status 200": answered(lambda at: {"detail": [{"loc": ["body"], "msg": "no" + ESCAPES}]}),
    "errors with status 200": answered(lambda at: {"success": False, "errors": [{"code": 429, "message": "no"}]}),
    "the key in an error with status 200": answered(lambda at: {"error": {"message": at.key, "code": at.key}}),
    "names twice": lambda at: whole(json.dumps(at.right())[:-1].encode() + b", " + json.dumps(at.right())[1:].encode()),
    "a mark of byte order": lambda at: whole(b"\xef\xbb\xbf" + raw(at)),
    "UTF-16": lambda at: whole(json.dumps(at.right()).encode("utf-16")),
    "latin-1": lambda at: whole(json.dumps(at.right(text="caf\xe9 " + at.text), ensure_ascii=False).encode("latin-1")),
    "half characters": answered(lambda at: at.right(text="\ud800 " + at.text + " \udfff")),
    "half a character in a claim": answered(lambda at: at.right(text=with_claim(at, "\\ud800"))),
    "NUL": answered(lambda at: at.right(text="\0" + at.text + "\0")),
    "NUL in a claim": answered(lambda at: at.right(text=with_claim(at, "\\u0000"))),
    "escapes around a reply": answered(lambda at: at.right(text=ESCAPES + at.text + ESCAPES)),
    "nothing but escapes": right_with(text=ESCAPES * 50),
    "JSON that nests": lambda at: whole(b"[" * 200_000 + b"]" * 200_000),
    "a reply that nests": right_with(text="[" * 100_000),
    "JSON and more": lambda at: whole(raw(at) + b" trailing"),
}  # fmt: skip

# What is wrong with the body of a chat, or of a list of models.
OF_CHATS: dict[str, Respond] = {
    "15 MB of empty lists": answered(lambda at: b'{"choices": [' + b"[]," * 5_000_000 + b"[]]}"),
    "15 MB of numbers": answered(lambda at: b'{"choices": [' + b"-9," * 5_000_000 + b"1]}"),
    "the key as a reason": answered(lambda at: at.choice(message={"content": None}, finish_reason=at.key)),
    **{f"choices are {value}": right_with(choices=value) for value in ([], None, {"0": 1}, [None], [7])},
    **{f"a message is {it}": choice_with(message=it) for it in (None, "hello", {"content": None}, {"content": 1.0})},
    "a refusal": choice_with(message={"content": None, "refusal": "no" + ESCAPES}),
    "a text of parts": answered(lambda at: at.choice(message={"content": [{"type": "text", "text": at.text}]})),
    "an empty text": right_with(text=""),
    "an error beside a text": answered(lambda at: {**wrong(at), "error": {"message": "no", "code": 400}}),
    "an error in a choice": answered(lambda at: hidden_in_choice(at, {"message": "no", "code": 502})),
    "an error in a choice, of words": answered(lambda at: hidden_in_choice(at, "no" + ESCAPES)),
    "an error that is none": answered(lambda at: at.right(error=None, detail="fine")),
    "the second choice first": answered(lambda at: at.right(choices=[*choices(wrong(at), 1), *choices(at.right(), 0)])),
    **{f"a reason is {value}": choice_with(finish_reason=value) for value in (None, 7, {"length": ["length"]})},
    "a reason of escapes": choice_with(message={"content": None}, finish_reason=ESCAPES),
    "a reason without end": choice_with(message={"content": None}, finish_reason="x" * 1_000_000),
    "cut at the limit": cut_off("length"),
    **{
        f"cut at the limit, {reason!r}": cut_off(reason)
        for reason in ("max_tokens", "MAX_TOKENS", "model_length", "max_output_tokens", "token_limit", "abort")
    },
    **{
        f"filtered, {reason!r}": choice_with(finish_reason=reason)
        for reason in ("content_filter", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST")
    },
    # thoughts, which say otherwise, and what else stands in the place of a text
    "thoughts beside the text": said(lambda at, lie: {"content": at.text, "reasoning_content": lie, "reasoning": lie}),
    "thoughts in place of the text": said(lambda at, lie: {"content": None, "reasoning_content": lie}),
    "thoughts beside an empty text": said(lambda at, lie: {"content": "", "reasoning": lie}),
    "thoughts and no text": said(lambda at, lie: {"reasoning_details": [{"type": "reasoning.text", "text": lie}]}),
    "parts with thoughts": said(lambda at, lie: {"content": [thinking(lie), text_part(at.text)]}),
    "parts with thoughts behind": said(lambda at, lie: {"content": [text_part(at.text), thinking(lie)]}),
    "parts that are thoughts alone": said(lambda at, lie: {"content": [thinking(lie)]}),
    "a text in two parts": said(lambda at, lie: {"content": [text_part(at.text[:20]), text_part(at.text[20:])]}),
    "output parts": said(lambda at, lie: {"content": [{"type": "output_text", "text": at.text, "annotations": []}]}),
    "parts with values": said(lambda at, lie: {"content": [{"type": "text", "text": {"value": at.text}}]}),
    "parts without types": said(lambda at, lie: {"content": [{"text": lie, "thought": True}, {"text": at.text}]}),
    "parts of another kind": said(lambda at, lie: {"content": [{"type": "input_text", "text": lie}]}),
    "a refusal among parts": said(lambda at, lie: {"content": [text_part(lie), {"type": "refusal", "refusal": "no"}]}),
    "thoughts in place of the text, at the limit": cut_thoughts,
    "parts that are texts": said(lambda at, lie: {"content": [lie]}),
    "parts without a text": said(lambda at, lie: {"content": [{"type": "text"}, {"type": "text", "text": 7}]}),
    "no parts": said(lambda at, lie: {"content": []}),
    "thoughts in the text": said(lambda at, lie: {"content": f"<think>{lie}</think>{at.text}"}),
    "thoughts in the text, with their end alone": said(lambda at, lie: {"content": f"{lie}</think>{at.text}"}),
    "thoughts in the text without an end": said(lambda at, lie: {"content": f"<think>{lie}"}),
    "a call in place of the text": said(lambda at, lie: {"content": "", "tool_calls": [called(lie)]}),
    "a call and no text": said(lambda at, lie: {"content": None, "tool_calls": [called(lie)]}),
    "a refusal beside a text": said(lambda at, lie: {"content": lie, "refusal": "no"}),
    **{f"usage {number[:8]}": raw_usage(number) for number in ("-1", "1.5", '"7"', "null", "true", "1e400", "1" * 20)},
    "usage of 5,000 digits": raw_usage("7" * 5_000),
    "usage is NaN": raw_usage("NaN"),
    "usage is a list": right_with(usage=[1]),
    "no usage": right_with(usage=None),
}  # fmt: skip

MODES = {**OF_ANY, **OF_CHATS}
