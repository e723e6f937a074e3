"""Two ways to do one thing, ours and a peer's, timed back to back.

A ratio is the median over the pairs of times, so that what else a machine does falls on both sides alike.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rag_zeval.files import write_json

SUMMARY = Path("runs/speed/summary.json")
MARGIN = 1e-4  # how far apart results of two orders of computation may be
NOTHING = 1e-3  # seconds of a side that has nothing to do: no ratio

Side = Callable[[], Any]
Entry = dict[str, Any]  # of the summary


@dataclass(frozen=True)
class Pair:
    """One run of either side: seconds, and what came out."""

    ours_s: float
    theirs_s: float
    ours: Any
    theirs: Any


def timed(run: Side, finish: Callable[[], None] = lambda: None) -> tuple[float, Any]:
    """Seconds of a call, and its result; `finish` waits for what a call leaves to be done, before and after."""
    finish()
    started = time.perf_counter()
    result = run()
    finish()
    return time.perf_counter() - started, result


def time_pairs(ours: Side, theirs: Side, pairs: int) -> Iterator[Pair]:
    """`pairs` pairs, each as it is done."""
    for _ in range(pairs):
        (ours_s, own), (theirs_s, other) = timed(ours), timed(theirs)
        yield Pair(ours_s, theirs_s, own, other)


def compare(name: str, ours: Side, theirs: Side, difference: Callable[[Any, Any], float], pairs: int) -> Entry:
    """The summary's entry for both sides; a line is printed as each pair is done.

    Both run once before, since first calls pay for set-up. `difference` says how far apart two results are; up to
    MARGIN they are equal.
    """
    ours(), theirs()
    seconds, apart = [], 0.0
    for number, pair in enumerate(time_pairs(ours, theirs, pairs), 1):
        seconds.append({"ours_s": pair.ours_s, "theirs_s": pair.theirs_s})
        apart = max(apart, difference(pair.ours, pair.theirs))
        print(f"{name} {number}/{pairs}: ours {pair.ours_s:.2f} s, theirs {pair.theirs_s:.2f} s", flush=True)
    return entry(name, seconds, apart)


def entry(name: str, pairs: Sequence[dict[str, float]], difference: float) -> Entry:
    """`{name, ratio, ours_s, theirs_s, equal, difference, pairs}`: medians; ratio: None where ours does nothing."""
    ours, theirs = (median(pair[side] for pair in pairs) for side in ("ours_s", "theirs_s"))
    return {
        "name": name,
        "ratio": median(pair["theirs_s"] / pair["ours_s"] for pair in pairs) if ours > NOTHING else None,
        "ours_s": ours,
        "theirs_s": theirs,
        "equal": difference <= MARGIN,
        "difference": difference,
        "pairs": list(pairs),
    }


def append(new: Entry) -> None:
    """Add an entry to SUMMARY."""
    entries = json.loads(SUMMARY.read_text()) if SUMMARY.exists() else []
    write_json(SUMMARY, [*entries, new])
