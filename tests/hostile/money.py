"""A limit of dollars against a server that bills by its own count, whatever it replies and whether or not it does.

A token is a byte here, the most that any tokenizer makes of a text, and what was computed is billed: also where the
reply has no text, tells no tokens, comes too late or not at all. After each run the server's bills are added up. They
may exceed the limit by the dearest single request. A server that writes more than the tokens it was allowed is no kind
here: no client can prevent that.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from commands import new_folder, read_rows, run_command, scores_of, write_rows, write_wikieval
from findings import Findings
from hostile_modes import MODES, Respond, answered, choice_with, cut_off, error, raw_usage, right_with, text_part, whole
from hostile_server import Exchange, HostileServer

from rag_zeval.literal_judge import literal_reply

PRICES = {"prompt": 20.0, "completion": 500.0}  # dollars per million tokens
MAX_TOKENS = 2_000  # of a reply: $1
LIMIT = 2.0
ENOUGH = 10_000.0
ROWS, WIKIEVAL_ROWS = 24, 8
TIMEOUT, PATIENCE = 1.0, 60.0  # seconds for a reply, where some never come, and elsewhere: a machine may be busy
ROUNDING = 2e-4  # what two sums may differ by: dollars are shown with four digits
DEADLINE = 120.0  # seconds for a command
MAX_BODY_MIB = 0.5
NINES = "9" * 30
WIDE = "\U0001f9ee\u4e2d\u00e9"  # four, three and two bytes


class Order(Exchange):
    """A request with the tokens that it may cost; `times` says how often it came. Its right answer tells them all."""

    server: Till

    def answer(self, mode: str) -> bytes | None:
        if self.body is None:  # the models cost nothing
            return whole(super().right())
        self.times = self.server.came(json.dumps(self.body["messages"]))
        self.limit: int = self.body.get("max_tokens") or self.body.get("max_completion_tokens") or MAX_TOKENS
        self.prompt = sum(4 + len(message["content"].encode()) for message in self.body["messages"])
        self.written = min(self.limit, len(self.text.encode()) // 4)  # by an honest server
        self.close_connection = True
        return KINDS[mode](self)

    def bill(self, completion: int, prompt: float | None = None) -> None:
        """Bill this request, before anything of the answer is sent."""
        prompt = self.prompt if prompt is None else prompt
        self.server.bills.append((PRICES["prompt"] * prompt + PRICES["completion"] * completion) / 1e6)

    def told(self, written: int) -> dict[str, Any]:
        return {"prompt_tokens": self.prompt, "completion_tokens": written, "total_tokens": self.prompt + written}

    def right(self, text: str | None = None, **changes: Any) -> dict[str, Any]:
        return super().right(text, **{"usage": self.told(self.limit), **changes})


Kind = Callable[[Order], "bytes | None"]


def good(at: Order) -> bytes:
    """What an honest server does."""
    at.bill(at.written)
    return whole(at.right(usage=at.told(at.written)))


def cached_prompt(at: Order) -> bytes:
    """Most of the prompt came from the provider's own cache, and costs a tenth."""
    at.bill(at.written, prompt=0.1 * at.prompt)
    return whole(at.right(usage={**at.told(at.written), "prompt_tokens_details": {"cached_tokens": at.prompt}}))


def billed(respond: Respond | Kind, seconds: float = 0.0) -> Kind:
    """All tokens allowed are billed, and answered in some way after some seconds."""

    def answer(at: Order) -> bytes | None:
        time.sleep(seconds)
        at.bill(at.limit)
        return respond(at)

    return answer


def with_usage(usage: Callable[[Order], Any]) -> Kind:
    """A right text after as much thinking as is allowed, whose tokens are told so."""
    return billed(lambda at: whole(at.right(usage=usage(at))))  # type: ignore[arg-type]


def refused(message: str, until: Callable[[dict[str, Any]], bool]) -> Kind:
    """Refuse what is not asked for in the server's way, which costs nothing; then all tokens allowed are billed."""
    return lambda at: (ran_out if until(at.body or {}) else error(400, message))(at)


def first(kind: Kind, then: Kind, times: int = 1) -> Kind:
    """One kind for the first requests with a prompt, another for those after them."""
    return lambda at: (kind if at.times <= times else then)(at)


def any_of(at: Order) -> bytes | None:
    """Another kind for each request, drawn by its prompt and how often it came."""
    kind = random.Random(f"{at.text} {at.times}").choice(sorted(set(KINDS) - {"all of them"}))
    return KINDS[kind](at)


ran_out = billed(choice_with(message={"content": None}, finish_reason="length"))
closed = billed(MODES["closed without a word"])
KINDS: dict[str, Kind] = {
    "good": good,
    "slow replies": billed(MODES["good"], seconds=0.3),
    "in pieces": billed(MODES["tiny chunks"]),
    # no text
    "thoughts that ran out": ran_out,
    "filtered": billed(choice_with(message={"content": None}, finish_reason="content_filter")),
    "filtered with a text": billed(choice_with(message={"content": "It is"}, finish_reason="content_filter")),
    "an empty text": billed(right_with(text="")),
    "a text of parts": billed(answered(lambda at: at.choice(message={"content": [text_part(at.text)]}))),
    "a refusal": billed(right_with(text="I am sorry, but I cannot judge this.")),
    "cut off": billed(cut_off("length")),
    "no choices": billed(right_with(choices=[])),
    "choices are null": billed(right_with(choices=None, usage=None)),
    # tokens
    "no usage": billed(right_with(usage=None)),
    "usage is missing": billed(answered(lambda at: {k: v for k, v in at.right().items() if k != "usage"})),
    "usage is a list": billed(right_with(usage=[1, 2])),
    **{
        f"usage of {count}": billed(raw_usage(count))
        for count in ('"7"', "-7", "7.5", "null", "true", "NaN", "1e400", NINES)
    },
    "usage of a mapping": billed(raw_usage('{"n": 7}')),
    "only prompt tokens told": with_usage(lambda at: {"prompt_tokens": at.prompt}),
    "no reply in the total": with_usage(lambda at: dict.fromkeys(("prompt_tokens", "total_tokens"), at.prompt)),
    "only completion tokens told": with_usage(lambda at: {"completion_tokens": at.limit}),
    "only a total told": with_usage(lambda at: {"total_tokens": at.prompt + at.limit}),
    "thoughts in the total alone": with_usage(lambda at: {**at.told(at.limit), "completion_tokens": 3}),
    "thoughts in details": with_usage(
        lambda at: {**at.told(at.limit), "completion_tokens_details": {"reasoning_tokens": at.limit - 5}}
    ),
    "a cached prompt": cached_prompt,
    # no whole answer
    **{
        mode: billed(MODES[mode])
        for mode in ("hangs", "hangs after the headers", "hangs in the body", "reset", "half a body", "no body")
    },
    "closed without a word": closed,
    "a body too long": billed(right_with(padding="x" * (1 << 20))),
    "no JSON": billed(lambda at: whole(b"<html>It is so.</html>")),
    "packed": billed(MODES["gzip"]),
    # errors
    "an error with status 200": billed(MODES["an error with status 200"]),
    "429 inside an answer": billed(MODES["an error with status 200 and code 429"]),
    "502 inside a choice": billed(answered(lambda at: {"choices": [{"error": {"message": "closed", "code": 502}}]})),
    **{f"{status} too late": billed(error(status, "timeout")) for status in (408, 502, 504, 524)},
    "500 that tells its tokens": billed(
        lambda at: whole({"error": "x", "usage": at.right()["usage"]}, status=500, reason="No")
    ),
    "429 for ever": error(429, "no", "Retry-After: 0.01"),
    "403": error(403),
    "302 elsewhere": MODES["302 elsewhere"],
    # again
    "429, then good": first(error(429, "no", "Retry-After: 0.01"), good, 2),
    "500, then good": first(error(500), good),
    "closed, then good": first(closed, good),
    "504, then thoughts": first(billed(error(504)), ran_out),
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
COMMANDS = {
    "evaluate": (
        "rag_zeval evaluate {inputs}/in.jsonl --model=openai:judge@{url} --out=rows.jsonl --against=contexts "
        "--scorers=rag_zeval,ragas_faithfulness --prices={inputs}/prices.json --max-cost={limit} --timeout={seconds} "
        f"--max-tokens={MAX_TOKENS} --max-body-mib={MAX_BODY_MIB}"
    ),
    "bench": (
        "eval_benchmarks benchmarks=[wikieval] scorers=[rag_zeval,ragas_faithfulness] data_dir={inputs} out_dir=out "
        "models=['openai:judge@{url}'] bootstrap.draws=50 judge.timeout={seconds} prices={inputs}/prices.json "
        f"max_cost={{limit}} judge.max_tokens={MAX_TOKENS} judge.max_body_mib={MAX_BODY_MIB}"
    ),
}


class Till(HostileServer):
    """A server that keeps its `bills`, in dollars; `asked` says how many chat requests came."""

    exchange = Order

    def __init__(self, kind: str):
        super().__init__(literal_reply)
        self.kind = kind
        self.set(kind)
        self.bills: list[float] = []
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()

    def came(self, prompt: str) -> int:
        """How often this prompt has come, this time included."""
        with self._lock:
            self._times[prompt] += 1
            return self._times[prompt]

    @property
    def asked(self) -> int:
        return self._times.total()


def texts(number: int) -> tuple[str, str]:
    """A reference in wide characters, and an answer."""
    facts = [f"Fact {at} of {number} is {WIDE} {at * number}" for at in range(4)]
    return ". ".join(facts) + ".", ". ".join(facts[: 1 + number % 3]) + "."


def _write_inputs(folder: Path) -> None:
    rows = [(f"r{number}", *texts(number)) for number in range(ROWS)]
    asked = [{"id": id_, "question": f"question {id_}", "contexts": [true], "answer": said} for id_, true, said in rows]
    write_rows(folder / "in.jsonl", asked)
    write_wikieval(folder, [(true, said, f"Lie of {id_}.") for id_, true, said in rows[:WIKIEVAL_ROWS]])
    (folder / "prices.json").write_text(json.dumps({"judge": PRICES}))


def timeout(kind: str, short: float = TIMEOUT) -> float:
    """Seconds for a reply of a kind."""
    return short if kind.startswith(("hangs", "all")) else PATIENCE


class _Campaign(Findings):
    def __init__(self, folder: Path):
        super().__init__("money", COUNTED)
        self.folder = folder
        _write_inputs(folder / "inputs")

    def attack(self, kind: str, command: str) -> None:
        """A run with a limit; the same again; and one with a high limit and an honest server, which ends the work."""
        where = f"{kind}, {command}"
        folder, till = new_folder(self.folder, where), Till(kind)
        status, said, shown = self._run(where, command, folder, till, LIMIT)
        asked, stopped, bill = till.asked, "stopped at " in said, sum(till.bills)
        self._check_bills(where, till)
        more = shown > bill + ROUNDING
        self.note_if(kind in EXACT and more, "said to be more", where, f"${shown}, not ${bill:.4f}")
        self.note_if(stopped and shown < LIMIT, "stopped too early", where, f"at ${shown}: {said[-300:]}")
        self.note_if(kind in FREE and (stopped or shown), "free replies counted", where, f"${shown}")
        well = status == 1 or (status == 0 and not stopped)
        self.note_if(not well, "ended badly", where, f"{status}: {said[-300:]}")
        rows = read_rows(folder)
        never = [at for at, row in rows.items() if not row["calls"] and not row["cached"]]
        self.note("rows never asked", where, never)
        if stopped:
            self.counts["runs stopped by the limit"] += 1
            status, said, _ = self._run(f"{where}, again", command, folder, till, LIMIT)
            more = till.asked - asked
            self.note_if(more, "went on at the same limit", where, f"{more} requests")
            self.note_if(status != 1, "ended badly", f"{where}, again", f"{status}: {said[-300:]}")
            after = read_rows(folder)
            self.note("rows lost", f"{where}, again", [at for at, row in rows.items() if after.get(at) != row])
        till.set("good")
        status, said, _ = self._run(f"{where}, a larger limit", command, folder, till, ENOUGH)
        self.note_if(status, "not ended by a larger limit", where, f"{status}: {said[-300:]}")
        final = read_rows(folder)
        lacking = {"evaluate": 2 * ROWS, "bench": 4 * WIKIEVAL_ROWS}[command] - len(final)
        self.note_if(lacking, "rows lost", where, f"{lacking} rows")
        unscored = [at for at, row in final.items() if None in scores_of(row) and rows.get(at) != row]
        self.note("rows lost", where, unscored)
        till.close()
        self.counts["kinds x commands"] += 1
        self.counts["requests billed"] += len(till.bills)

    def _check_bills(self, where: str, till: Till) -> None:
        total, dearest = sum(till.bills), max(till.bills, default=0.0)
        told = f"${total:.2f} for {len(till.bills)} of {till.asked} requests at a limit of ${LIMIT:g}"
        self.note_if(total > LIMIT + dearest + ROUNDING, "over the limit", where, told)
        self.most("largest overshoot, cents", round(100 * (total - LIMIT)))

    def _run(self, where: str, command: str, folder: Path, till: Till, limit: float) -> tuple[int, str, float]:
        """Its status, what it said, and the dollars that it says it has spent, which must not be fewer than billed."""
        line = COMMANDS[command].format(
            inputs=self.folder / "inputs", url=till.url, limit=limit, seconds=timeout(till.kind)
        )
        ended = run_command(line.split(), folder, DEADLINE)
        self.note_end(where, ended)
        found = re.findall(r"(?:dollars\W+|spent: )(?:at most )?\$?([\d.]*\d)", ended.said)
        shown, bill = float(found[-1]) if found else -1.0, sum(till.bills)
        self.note_if(shown < bill - ROUNDING, "said to be less", where, f"${shown} of ${bill:.4f}")
        return ended.status, ended.said, shown


COUNTED = (
    "kinds", "kinds x commands", "requests billed", "runs stopped by the limit", "largest overshoot, cents",
    "over the limit", "said to be less", "said to be more", "stopped too early", "free replies counted", "ended badly",
    "rows never asked", "rows lost", "went on at the same limit", "not ended by a larger limit", "hangs", "tracebacks",
)  # fmt: skip


def run(kinds: Sequence[str] = tuple(KINDS), commands: Sequence[str] = tuple(COMMANDS)) -> Findings:
    """Each kind with each command, two at a time."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = _Campaign(Path(folder))
        campaign.counts["kinds"] = len(kinds)
        places = [(kind, command) for kind in kinds for command in commands]
        campaign.attempt({", ".join(place): partial(campaign.attack, *place) for place in places}, "kinds x commands")
    return campaign
