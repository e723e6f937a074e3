"""Times two ways to do the same thing, ours and a baseline, and prints them as a table.

They run in turn, so other work on the machine slows both. A ratio is the median over the pairs of times.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

MARGIN = 1e-4  # largest difference of results that count as the same; the order of a sum changes less
NOTHING = 1e-3  # seconds: a side that takes less has nothing to do, so the ratio is left out

Side = Callable[[], Any]


@dataclass(frozen=True)
class TimedPairs:
    """The seconds of the baseline and of ours in each pair, and the largest difference between their results."""

    name: str
    pairs: list[tuple[float, float]]
    difference: float

    @property
    def equal(self) -> bool:
        return self.difference <= MARGIN


def timed(call: Side, wait: Callable[[], None] = lambda: None) -> tuple[float, Any]:
    """Return the seconds of a call, and its result. `wait` must wait until the device has finished its work."""
    wait()
    started = time.perf_counter()
    result = call()
    wait()
    return time.perf_counter() - started, result


def time_in_turn(
    name: str, baseline: Side, ours: Side, difference: Callable[[Any, Any], float], pairs: int
) -> TimedPairs:
    """Time both sides `pairs` times and print each pair. A warm-up before them is not counted.

    difference: how far the results of the baseline and of ours differ.
    """
    ours(), baseline()
    seconds, differences = [], []
    for number in range(1, pairs + 1):
        (ours_s, our_result), (baseline_s, baseline_result) = timed(ours), timed(baseline)
        seconds.append((baseline_s, ours_s))
        differences.append(difference(baseline_result, our_result))
        print(f"{name} {number}/{pairs}: baseline {baseline_s:.2f} s, ours {ours_s:.2f} s", flush=True)
    return TimedPairs(name, seconds, max(differences))


def total(name: str, parts: Sequence[TimedPairs]) -> TimedPairs:
    """Return the sum of parts that run one after the other."""
    runs = zip(*(part.pairs for part in parts), strict=True)
    pairs = [(sum(baseline for baseline, _ in run), sum(ours for _, ours in run)) for run in runs]
    return TimedPairs(name, pairs, max(part.difference for part in parts))


def share_different(baseline: Sequence[Any], ours: Sequence[Any]) -> float:
    """Return the share of results that are not exactly equal, in [0, 1]."""
    return sum(one != other for one, other in zip(baseline, ours, strict=True)) / len(ours)


def table(timings: Sequence[TimedPairs], baseline: str) -> str:
    """Return a Markdown table of median seconds, ratio and agreement. `baseline` is the name of that side."""
    lines = [f"| | {baseline} | ours | ratio | same result |", "|---|---:|---:|---:|---|"]
    for one in timings:
        baseline_s, ours_s = (median(side) for side in zip(*one.pairs, strict=True))
        ratio = f"{median(b / o for b, o in one.pairs):.2f}" if ours_s > NOTHING else ""
        same = f"{'yes' if one.equal else 'NO'}, within {one.difference:.0e}"
        lines.append(f"| {one.name} | {baseline_s:.2f} s | {ours_s:.2f} s | {ratio} | {same} |")
    return "\n".join(lines)
