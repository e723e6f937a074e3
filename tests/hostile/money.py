"""A limit of dollars against a server that bills by its own count, whatever it replies and whether or not it does.

A token is a byte here, the most that any tokenizer makes of a text, and what was computed is billed: also where the
reply has no text, tells no tokens, comes too late or not at all. After each run the server's bills are added up. They
may exceed the limit by the dearest single request. A server that writes more than the tokens it was allowed is no kind
here: no client can prevent that.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from findings import Findings
from hostile_modes import chunked, head, whole

from rag_zeval.files import read_jsonl
from rag_zeval.literal_judge import literal_reply
from rag_zeval.results import SPENT

ROOT = Path(__file__).parents[2]
PRICES = {"prompt": 20.0, "completion": 500.0}  # dollars per million tokens
MAX_TOKENS = 2_000  # of a reply: $1
LIMIT = 2.0
ENOUGH = 10_000.0
ROWS, WIKIEVAL_ROWS = 24, 8
TIMEOUT, PATIENCE = 1.0, 60.0  # seconds for a reply, where some never come, and elsewhere: a machine may be busy
ROUNDING = 2e-4  # what two sums may differ by: dollars are shown with four digits
HANG_SECONDS = 60.0
DEADLINE = 120.0  # seconds for a command
MAX_BODY_MIB = 0.5
NINES = "9" * 30
WIDE = "\U0001f9ee\u4e2d\u00e9"  # four, three and two bytes


class Order(BaseHTTPRequestHandler):
    """One request: what it asks for, how often it came, and the ways to bill and to answer it."""

    server: Till

    def handle(self) -> None:
        with suppress(OSError, ValueError):  # the client left
            super().handle()

    def do_GET(self) -> None:
        self.send(whole({"object": "list", "data": []}))

    def do_POST(self) -> None:
        self.body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.times = self.server.came(json.dumps(self.body["messages"]))
        self.limit: int = self.body.get("max_tokens") or self.body.get("max_completion_tokens") or MAX_TOKENS
        self.prompt = sum(4 + len(message["content"].encode()) for message in self.body["messages"])
        self.text = literal_reply(self.body) or ""
        self.close_connection = True
        KINDS[self.server.kind](self)

    def log_message(self, *args: Any) -> None:
        pass

    def bill(self, completion: int | None = None, prompt: float | None = None) -> None:
        """Bill this request, before anything of the answer is sent; a reply without a number has all it may have."""
        completion = self.limit if completion is None else completion
        prompt = self.prompt if prompt is None else prompt
        self.server.bills.append((PRICES["prompt"] * prompt + PRICES["completion"] * completion) / 1e6)

    def send(self, content: bytes) -> None:
        self.connection.sendall(content)

    def right(self, written: int, text: str | None = "", **changes: Any) -> dict[str, Any]:
        """An answer that tells its tokens; with the right text, if none is given."""
        message = {"role": "assistant", "content": self.text if text == "" else text}
        usage = {"prompt_tokens": self.prompt, "completion_tokens": written, "total_tokens": self.prompt + written}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return {"id": "1", "object": "chat.completion", "created": 0, "choices": choices, "usage": usage, **changes}

    def ended(self, reason: str, text: str | None) -> dict[str, Any]:
        """An answer of all tokens allowed, which are told, that ended for this reason."""
        answer = self.right(self.limit)
        answer["choices"][0] |= {"message": {"role": "assistant", "content": text}, "finish_reason": reason}
        return answer

    def hang(self) -> None:
        self.connection.settimeout(0.1)
        until = time.monotonic() + HANG_SECONDS
        while time.monotonic() < until and not self.server.stopped.is_set():
            try:
                if not self.connection.recv(1 << 16):
                    return
            except TimeoutError:
                continue


Kind = Callable[[Order], None]


def good(at: Order, **changes: Any) -> None:
    """What an honest server does."""
    written = min(at.limit, len(at.text.encode()) // 4)
    at.bill(written)
    at.send(whole(at.right(written, **changes)))


def billed(answer: Callable[[Order], Any], status: int = 200) -> Kind:
    """All tokens allowed are billed, and this is answered: JSON, or bytes as they go over the wire."""

    def respond(at: Order) -> None:
        at.bill()
        content = answer(at)
        at.send(content if isinstance(content, bytes) else whole(content, status=status))

    return respond


def with_usage(usage: Any) -> Kind:
    """A right text after as much thinking as is allowed, whose tokens are told so."""
    return billed(lambda at: at.right(0, usage=usage(at) if callable(usage) else usage))


def raw_usage(count: str) -> Kind:
    """Counts that are no counts, as JSON."""
    told = f'{{"prompt_tokens": {count}, "completion_tokens": {count}, "total_tokens": {count}}}'
    return billed(lambda at: whole(json.dumps(at.right(0, usage=7)).replace('"usage": 7', f'"usage": {told}').encode()))


def refused(message: str, until: Callable[[dict[str, Any]], bool], status: int = 400) -> Kind:
    """Refuse what is not asked for in the server's way, which costs nothing; then all tokens allowed are billed."""

    def respond(at: Order) -> None:
        if until(at.body):
            at.bill()
            at.send(whole(at.ended("length", None)))
        else:
            at.send(whole({"error": {"message": message}}, status=status, reason="No"))

    return respond


def first(kind: Kind, then: Kind, times: int = 1) -> Kind:
    """One kind for the first requests with a prompt, another for those after them."""
    return lambda at: (kind if at.times <= times else then)(at)


def free(status: int, *lines: str) -> Kind:
    """An error that is not billed."""
    return lambda at: at.send(whole({"error": {"message": "no"}}, *lines, status=status, reason="No"))


def hung(content: Callable[[Order], bytes] = lambda at: b"") -> Kind:
    """Computed, billed, begun to be sent and never ended."""

    def respond(at: Order) -> None:
        at.bill()
        at.send(content(at))
        at.hang()

    return respond


def reset(at: Order) -> None:
    at.bill()
    at.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    at.connection.close()


def in_pieces(at: Order) -> None:
    at.bill()
    at.send(head("Content-Type: application/json", "Transfer-Encoding: chunked"))
    body = json.dumps(at.ended("length", None)).encode()
    for piece in chunked([body[:10], body[10:50], body[50:]]):
        at.send(piece)
        time.sleep(0.02)
    at.send(b"0\r\n\r\n")


def slow(at: Order) -> None:
    time.sleep(0.3)
    billed(lambda at: at.ended("length", None))(at)


def half(at: Order) -> bytes:
    content = whole(at.right(at.limit))
    return content[: len(content) - len(content) // 4]


def packed(at: Order) -> bytes:
    return whole(gzip.compress(json.dumps(at.right(at.limit)).encode()), "Content-Encoding: gzip")


def cached_prompt(at: Order) -> None:
    """Most of the prompt came from the provider's own cache, and costs a tenth."""
    written = min(at.limit, len(at.text.encode()) // 4)
    at.bill(written, prompt=0.1 * at.prompt)
    usage = {"prompt_tokens": at.prompt, "completion_tokens": written, "total_tokens": at.prompt + written}
    at.send(whole(at.right(written, usage={**usage, "prompt_tokens_details": {"cached_tokens": at.prompt}})))


def thoughts_in_the_total(at: Order) -> None:
    """The thoughts are billed, and stand in the total alone."""
    at.bill()
    usage = {"prompt_tokens": at.prompt, "completion_tokens": 3, "total_tokens": at.prompt + at.limit}
    at.send(whole(at.right(3, usage=usage)))


def thoughts_in_details(at: Order) -> None:
    at.bill()
    details = {"completion_tokens_details": {"reasoning_tokens": at.limit - 5}}
    at.send(whole(at.right(0, usage={**at.right(at.limit)["usage"], **details})))


def any_of(at: Order) -> None:
    """Another kind for each request, drawn by its prompt and how often it came."""
    kind = random.Random(f"{at.body['messages']} {at.times}").choice(sorted(set(KINDS) - {"all of them"}))
    KINDS[kind](at)


closed = billed(lambda at: b"")
KINDS: dict[str, Kind] = {
    "good": good,
    "slow replies": slow,
    "in pieces": in_pieces,
    # no text
    "thoughts that ran out": billed(lambda at: at.ended("length", None)),
    "filtered": billed(lambda at: at.ended("content_filter", None)),
    "filtered with a text": billed(lambda at: at.ended("content_filter", "It is")),
    "an empty text": billed(lambda at: at.ended("stop", "")),
    "a text of parts": billed(lambda at: at.ended("stop", [{"type": "text", "text": at.text}])),  # type: ignore[arg-type]
    "a refusal": billed(lambda at: at.ended("stop", "I am sorry, but I cannot judge this.")),
    "cut off": billed(lambda at: at.ended("length", at.text[: len(at.text) // 2])),
    "no choices": billed(lambda at: at.right(at.limit, choices=[])),
    "choices are null": billed(lambda at: at.right(at.limit, choices=None, usage=None)),
    # tokens
    "no usage": with_usage(None),
    "usage is missing": billed(lambda at: {k: v for k, v in at.right(0).items() if k != "usage"}),
    "usage is a list": with_usage([1, 2]),
    **{f"usage of {count}": raw_usage(count) for count in ('"7"', "-7", "7.5", "null", "true", "NaN", "1e400", NINES)},
    "usage of a mapping": raw_usage('{"n": 7}'),
    "only prompt tokens told": with_usage(lambda at: {"prompt_tokens": at.prompt}),
    "no reply in the total": with_usage(lambda at: dict.fromkeys(("prompt_tokens", "total_tokens"), at.prompt)),
    "only completion tokens told": with_usage(lambda at: {"completion_tokens": at.limit}),
    "only a total told": with_usage(lambda at: {"total_tokens": at.prompt + at.limit}),
    "thoughts in the total alone": thoughts_in_the_total,
    "thoughts in details": thoughts_in_details,
    "a cached prompt": cached_prompt,
    # no whole answer
    "hangs": hung(),
    "hangs after the headers": hung(lambda at: head("Content-Length: 99")),
    "hangs in the body": hung(half),
    "closed without a word": closed,
    "reset": reset,
    "half a body": billed(half),
    "a body too long": billed(lambda at: at.right(at.limit, padding="x" * (1 << 20))),
    "no JSON": billed(lambda at: whole(b"<html>It is so.</html>")),
    "no body": billed(lambda at: whole(b"")),
    "packed": billed(packed),
    # errors
    "an error with status 200": billed(lambda at: {"error": {"message": "upstream failed"}}),
    "429 inside an answer": billed(lambda at: {"choices": None, "error": {"message": "too many", "code": 429}}),
    "502 inside a choice": billed(lambda at: {"choices": [{"error": {"message": "upstream closed", "code": 502}}]}),
    "408 too late": billed(lambda at: {"error": {"message": "timeout"}}, status=408),
    "502 too late": billed(lambda at: {"error": {"message": "upstream closed"}}, status=502),
    "504 too late": billed(lambda at: {"error": {"message": "timeout"}}, status=504),
    "524 too late": billed(lambda at: {"error": {"message": "timeout"}}, status=524),
    "500 that tells its tokens": billed(lambda at: {"error": "x", "usage": at.right(at.limit)["usage"]}, 500),
    "429 for ever": free(429, "Retry-After: 0.01"),
    "403": free(403),
    "302 elsewhere": free(302, "Location: http://127.0.0.1:9/v1"),
    # again
    "429, then good": first(free(429, "Retry-After: 0.01"), good, 2),
    "500, then good": first(free(500), good),
    "closed, then good": first(closed, good),
    "504, then thoughts": first(billed(lambda at: {}, status=504), billed(lambda at: at.ended("length", None))),
    "max_tokens is refused": refused("max_tokens: use max_completion_tokens", lambda body: "max_tokens" not in body),
    "temperature is refused": refused("temperature is not supported", lambda body: "temperature" not in body),
    "the window is small": refused(
        "maximum context length is 1900 tokens", lambda body: body.get("max_tokens", 0) < 1000
    ),
    "all of them": any_of,
}  # fmt: skip
# Their bills are told to the cent, so what a run says it spent is what was billed.
EXACT = {
    "good", "slow replies", "in pieces", "thoughts that ran out", "filtered", "filtered with a text", "an empty text",
    "a text of parts", "a refusal", "cut off", "no choices", "thoughts in the total alone", "thoughts in details",
    "500 that tells its tokens", "429, then good", "500, then good", "max_tokens is refused", "temperature is refused",
    "the window is small", "403", "302 elsewhere", "429 for ever",
}  # fmt: skip
FREE = {"403", "302 elsewhere", "429 for ever"}
COMMANDS = ("evaluate", "bench")


class Till(ThreadingHTTPServer):
    """Serves `/v1` on 127.0.0.1 by a kind, and keeps the `bills`, in dollars, until `close`. `asked`: chat requests."""

    request_queue_size = 256
    daemon_threads = True

    def __init__(self, kind: str):
        super().__init__(("127.0.0.1", 0), Order)
        self.kind, self.stopped = kind, threading.Event()
        self.bills: list[float] = []
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def came(self, prompt: str) -> int:
        """How often this prompt has come, this time included."""
        with self._lock:
            self._times[prompt] += 1
            return self._times[prompt]

    @property
    def asked(self) -> int:
        return self._times.total()

    def handle_error(self, request: Any, client_address: Any) -> None:
        raise sys.exc_info()[1]  # type: ignore[misc]  # a mistake in a kind, of which a test shall know

    def shutdown_request(self, request: Any) -> None:
        with suppress(OSError):
            request.shutdown(socket.SHUT_WR)
        self.close_request(request)

    def close(self) -> None:
        self.stopped.set()
        self.shutdown()
        self.server_close()


def texts(number: int) -> tuple[str, str]:
    """A reference in wide characters, and an answer."""
    facts = [f"Fact {at} of {number} is {WIDE} {at * number}" for at in range(4)]
    return ". ".join(facts) + ".", ". ".join(facts[: 1 + number % 3]) + "."


def _write_inputs(folder: Path) -> None:
    (folder / "wikieval").mkdir(parents=True)
    (folder / "prices.json").write_text(json.dumps({"judge": PRICES}))
    with open(folder / "in.jsonl", "w") as rows, open(folder / "wikieval" / "rows.jsonl", "w") as wikieval:
        for number in range(ROWS):
            reference, answer = texts(number)
            asked = {"question": f"question {number}"}
            rows.write(json.dumps({**asked, "id": f"r{number}", "contexts": [reference], "answer": answer}) + "\n")
            bad = {"poor_answer": f"Lie of {number}.", "ungrounded_answer": "No fact at all."}
            if number < WIKIEVAL_ROWS:
                wikieval.write(json.dumps({**asked, "context_v1": [reference], "answer": answer, **bad}) + "\n")


def timeout(kind: str, short: float = TIMEOUT) -> float:
    """Seconds for a reply of a kind."""
    return short if kind.startswith(("hangs", "all")) else PATIENCE


def _line(command: str, inputs: Path, url: str, limit: float, seconds: float) -> list[str]:
    if command == "evaluate":
        words = ["rag_zeval", "evaluate", str(inputs / "in.jsonl"), f"--model=openai:judge@{url}", "--out=o.jsonl"]
        words += [
            "--scorers=rag_zeval,ragas_faithfulness",
            "--against=contexts",
            f"--prices={inputs / 'prices.json'}",
            f"--max-cost={limit}",
        ]
        return [*words, f"--timeout={seconds}", f"--max-tokens={MAX_TOKENS}", f"--max-body-mib={MAX_BODY_MIB}"]
    words = ["eval_benchmarks", "benchmarks=[wikieval]", "scorers=[rag_zeval,ragas_faithfulness]", f"data_dir={inputs}"]
    words += [f"models=['openai:judge@{url}']", "out_dir=out", "bootstrap.draws=50", f"judge.timeout={seconds}"]
    words += [f"prices={inputs / 'prices.json'}", f"max_cost={limit}", f"judge.max_tokens={MAX_TOKENS}"]
    return [*words, f"judge.max_body_mib={MAX_BODY_MIB}"]


class _Campaign(Findings):
    def __init__(self, folder: Path):
        super().__init__("money", COUNTED)
        self.folder = folder
        _write_inputs(folder / "inputs")

    def attack(self, kind: str, command: str) -> None:
        """A run with a limit; the same again; and one with a high limit and an honest server, which ends the work."""
        where = f"{kind}, {command}"
        folder = Path(tempfile.mkdtemp(prefix=re.sub(r"\W+", "-", where), dir=self.folder))
        till = Till(kind)
        status, said = self._run(command, folder, till, LIMIT)
        asked, stopped, bill = till.asked, "stopped at " in said, sum(till.bills)
        self._check_bills(where, till)
        shown = self._check_shown(where, said, bill)
        if kind in EXACT:
            self.note("said to be more", where, [f"${shown}, not ${bill:.4f}"] if shown > bill + ROUNDING else [])
        self.note("stopped too early", where, [f"at ${shown}: {said[-300:]}"] if stopped and shown < LIMIT else [])
        self.note("free replies counted", where, [f"${shown}"] if kind in FREE and (stopped or shown) else [])
        well = status == 1 or (status == 0 and not stopped)
        self.note("ended badly", where, [] if well else [f"{status}: {said[-300:]}"])
        rows = _rows(command, folder)
        self.note("rows never asked", where, [row["id"] for row in rows if not row["calls"] and not row["cached"]])
        if stopped:
            self.counts["runs stopped by the limit"] += 1
            status, said = self._run(command, folder, till, LIMIT)
            more = till.asked - asked
            self.note("went on at the same limit", where, [f"{more} requests"] if more else [])
            self.note("ended badly", f"{where}, again", [f"{status}: {said[-300:]}"] if status != 1 else [])
            after = _rows(command, folder)
            self.note("rows lost", f"{where}, again", [row["id"] for row in rows if row not in after])
            self._check_shown(f"{where}, again", said, bill)
        till.kind = "good"
        status, said = self._run(command, folder, till, ENOUGH)
        self.note("not ended by a larger limit", where, [f"{status}: {said[-300:]}"] if status else [])
        self._check_shown(f"{where}, a larger limit", said, sum(till.bills))
        final = _rows(command, folder)
        lacking = {"evaluate": 2 * ROWS, "bench": 4 * WIKIEVAL_ROWS}[command] - len(final)
        self.note("rows lost", where, [f"{lacking} rows"] if lacking else [])
        self.note("rows lost", where, [row["id"] for row in final if None in _scores(row) and row not in rows])
        till.close()
        self.counts["kinds x commands"] += 1
        self.counts["requests billed"] += len(till.bills)

    def _check_bills(self, where: str, till: Till) -> None:
        total, dearest = sum(till.bills), max(till.bills, default=0.0)
        told = f"${total:.2f} for {len(till.bills)} of {till.asked} requests at a limit of ${LIMIT:g}"
        self.note("over the limit", where, [told] if total > LIMIT + dearest + ROUNDING else [])
        over = "largest overshoot, cents"
        self.counts[over] = max(self.counts[over], round(100 * (total - LIMIT)))

    def _check_shown(self, where: str, said: str, bill: float) -> float:
        """The dollars that a command says it has spent, which must not be fewer than those billed."""
        found = re.findall(r"(?:dollars\W+|spent: )(?:at most )?\$?([\d.]*\d)", said)
        shown = float(found[-1]) if found else -1.0
        self.note("said to be less", where, [f"${shown} of ${bill:.4f}"] if shown < bill - ROUNDING else [])
        return shown

    def _run(self, command: str, folder: Path, till: Till, limit: float) -> tuple[int, str]:
        env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        env |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        line = [sys.executable, "-m", *_line(command, self.folder / "inputs", till.url, limit, timeout(till.kind))]
        try:
            done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self.note("hangs", folder.name, [f"after {DEADLINE:g} s"])
            return -9, "spent: $0"
        self.note("tracebacks", folder.name, [done.stderr[-500:]] if "Traceback" in done.stderr else [])
        return done.returncode, done.stdout + done.stderr


def _rows(command: str, folder: Path) -> list[dict[str, Any]]:
    paths = folder.glob("o.jsonl" if command == "evaluate" else "out/rows/*.jsonl")
    return [row for path in sorted(paths) for row in read_jsonl(path) if row["id"] != SPENT]


def _scores(row: dict[str, Any]) -> list[float | None]:
    return [score["value"] if isinstance(score, dict) else score for score in row["scores"]]


COUNTED = (
    "kinds", "kinds x commands", "requests billed", "runs stopped by the limit", "largest overshoot, cents",
    "over the limit", "said to be less", "said to be more", "stopped too early", "free replies counted", "ended badly",
    "rows never asked", "rows lost", "went on at the same limit", "not ended by a larger limit", "hangs", "tracebacks",
)  # fmt: skip


def run(kinds: Sequence[str] = tuple(KINDS), commands: Sequence[str] = COMMANDS) -> Findings:
    """Each kind with each command, two at a time."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        campaign = _Campaign(Path(folder))
        campaign.counts["kinds"] = len(kinds)
        places = [(kind, command) for kind in kinds for command in commands]
        attempts = {pool.submit(campaign.attack, *place): ", ".join(place) for place in places}
        for attempt in as_completed(attempts):
            if error := attempt.exception():
                campaign.note("broke off", attempts[attempt], [repr(error)])
            campaign.tell(f"{campaign.counts['kinds x commands']} kinds x commands")
    return campaign
