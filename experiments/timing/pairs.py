"""Two ways to do one thing, ours and a peer's, timed back to back.

A ratio is the median over the pairs of times, so that what else a machine does falls on both sides alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rag_zeval.files import read_json, write_json

SUMMARY = Path("runs/speed/summary.json")
MARGIN = 1e-4  # how far apart results of two orders of computation may be
NOTHING = 1e-3  # seconds of a side that has nothing to do: no ratio

Side = Callable[[], Any]
Entry = dict[str, Any]  # of the summary


def timed(run: Side, finish: Callable[[], None] = lambda: None) -> tuple[float, Any]:
    """Seconds of a call, and its result; `finish` waits for what a call leaves to be done, before and after."""
    finish()
    started = time.perf_counter()
    result = run()
    finish()
    return time.perf_counter() - started, result


def compare(name: str, ours: Side, theirs: Side, difference: Callable[[Any, Any], float], pairs: int) -> Entry:
    """The summary's entry for both sides; a line is printed as each pair is done.

    Both run once before, since first calls pay for set-up. `difference` says how far apart two results are; up to
    MARGIN they are equal.
    """
    ours(), theirs()
    seconds, apart = [], 0.0
    for number in range(1, pairs + 1):
        (ours_s, own), (theirs_s, other) = timed(ours), timed(theirs)
        seconds.append({"ours_s": ours_s, "theirs_s": theirs_s})
        apart = max(apart, difference(own, other))
        print(f"{name} {number}/{pairs}: ours {ours_s:.2f} s, theirs {theirs_s:.2f} s", flush=True)
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
    """Add an entry to SUMMARY. Raises InputError if that holds no JSON list."""
    entries = read_json(SUMMARY, list) if SUMMARY.exists() else []
    write_json(SUMMARY, [*entries, new])
