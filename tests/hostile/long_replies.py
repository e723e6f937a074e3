"""Replies of millions of characters, of every kind that may make a reader slow."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

from rag_zeval.judge.parser import FormatError, parse_lenient

PIECE = '{"claim": "a b", "is_supported": true, "grounding_evidence": ["q"], "analysis": "x"}'


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


def longest_seconds(length: int, kinds: Iterable[str]) -> tuple[dict[str, float], list[str]]:
    """CPU seconds for a reply of `length` characters, by its kind; a line where twice as many take over four times.

    Each is read as the reply alone, and as one that repeats what was shown.
    """
    longest: dict[str, float] = {}
    faults = []
    for kind in kinds:
        for shown in (False, True):
            seconds = []
            for size in (length // 2, length):
                text = LONG[kind](size)
                texts_shown = (text, 'x "claim": "y') if shown else ()
                seconds.append(min(_seconds(text, texts_shown) for _ in range(2)))  # others work, too
            longest[kind] = max(seconds[1], longest.get(kind, 0.0))
            if seconds[1] > 4 * seconds[0] + 0.5:
                faults.append(
                    f"replies: {kind}: {seconds[0]:.2f} s for {length // 2} characters, {seconds[1]:.2f} s for twice"
                )
    return longest, faults


def _seconds(reply: str, shown: tuple[str, ...]) -> float:
    started = time.process_time()
    with contextlib.suppress(FormatError):
        parse_lenient(reply, 1, "paper", shown)
    return time.process_time() - started


def run(length: int) -> tuple[dict[str, int | float], list[str]]:
    """All kinds of LONG at `length` characters."""
    seconds, faults = longest_seconds(length, LONG)
    return {"characters": length, "kinds": len(seconds), "most seconds": round(max(seconds.values()), 1)}, faults
