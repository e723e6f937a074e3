"""Replies of millions of characters, of every kind that may make a reader slow."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from findings import Findings

from rag_zeval.judge.parser import FormatError, parse_lenient

PIECE = '{"claim": "a b", "is_supported": true, "grounding_evidence": ["q"], "analysis": "x"}'
LINEAR = 8.0  # times as long for four times as much, at most: 4 is linear, 16 quadratic


def cpu_seconds(call: Callable[[int], Any], size: int) -> tuple[float, float]:
    """What `call(size)` and `call(4 * size)` take; 5 ms where it is less.

    Both are measured again, twice at most, if they do not look linear, and the least counts: a busy machine is no bug.
    """
    least = {4 * size: math.inf, size: math.inf}  # the larger one first, because the very first call may load something
    for _ in range(3):
        for n, before in least.items():
            started = time.process_time()
            call(n)
            least[n] = min(before, max(time.process_time() - started, 0.005))
        if least[4 * size] < 0.75 * LINEAR * least[size]:
            break
    return least[size], least[4 * size]


def _around(claim: str) -> str:
    return f'[{{"id": "A", "answer": "a", "atomic_claims": [{claim}]}}]'


def _times(unit: str) -> Callable[[int], str]:
    return lambda length: unit * (length // len(unit))


def _in_claim(unit: str) -> Callable[[int], str]:
    return lambda length: _around(PIECE.replace("a b", unit * (length // len(unit))) + ",")


LONG: dict[str, Callable[[int], str]] = {
    "claims": lambda length: _around(", ".join([PIECE] * (length // len(PIECE)))),
    "claims, a comma too many": lambda length: _around((PIECE + ", ") * (length // len(PIECE))),
    "claims in Python's quotes": lambda length: _around((PIECE + ", ") * (length // len(PIECE))).replace('"', "'"),
    "evaluations that differ": lambda n: "".join(_around(PIECE.replace("a b", f"a {i}")) for i in range(n // 150)),
    "comments": lambda length: '[{"id": ' + "// x\n" * (length // 5),
    "a number": lambda length: _around(PIECE.replace("true", "1" * length)),
    **{
        f"{unit!r} again and again": _times(unit)
        for unit in ("[", "[{", '[{"a":', '{"a": 1} ', "{'a': 1} ", "</think>")
    },
    **{f"{unit!r} in a claim": _in_claim(unit) for unit in ('"', '", ', '", "b', '"      ', "\\", " # ", '"//\n', "x")},
    **{
        f"{unit!r} as prose": _times(unit)
        for unit in ('"claim": ', "} , { ", '}       {      "claim"', '{"a"          ')
    },
}


def read(kind: str, repeated: bool, length: int) -> None:
    """Read a reply of that kind and length: alone, or as one that repeats what its judge was shown."""
    reply = LONG[kind](length)
    with suppress(FormatError):
        parse_lenient(reply, 1, "paper", (reply, 'x "claim": "y') if repeated else ())


def run(length: int) -> Findings:
    """All kinds of LONG at `length` characters and a quarter of that."""
    findings = Findings("long")
    longest = 0.0
    for kind in LONG:
        for repeated in (False, True):
            attempt = partial(read, kind, repeated)
            quarter, whole = cpu_seconds(attempt, length // 4)
            longest = max(longest, whole)
            slow = whole > LINEAR * quarter + 0.5
            findings.note("slow", kind, [f"{quarter:.2f} s for {length // 4} characters, {whole:.2f} s for all"] * slow)
        findings.tell(kind)
    findings.counts.update({"characters": length, "kinds": len(LONG), "most seconds": round(longest, 1)})
    return findings
