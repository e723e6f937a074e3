"""A table of how long a RAG system takes to answer."""

import math
from collections.abc import Sequence

import numpy as np

from rag_zeval.cases.case import by_slice
from rag_zeval.files import Row
from rag_zeval.terminal_tables import print_framed

TAIL = 0.025  # probability on each side of a 95% interval


def print_latencies(rows: Sequence[Row]) -> None:
    """Print for each slice how many questions were answered, and the median and 95th percentile of the latency."""
    lines = []
    for name, members in by_slice(rows, lambda row: row.get("slice_tag")):
        seconds = [row["latency_s"] for row in members if row["latency_s"] is not None]
        counts = str(len(seconds)), str(len(members) - len(seconds))
        lines.append((name, *counts, _quantile(seconds, 0.5), _quantile(seconds, 0.95)))
    print_framed(("slice", "answered", "failed", "p50 latency (s)", "p95 latency (s)"), lines)


def _quantile(seconds: Sequence[float], p: float) -> str:
    """Return the p-quantile with its 95% interval, as text. An end for which there are too few values is "?"."""
    if not seconds:
        return "no answer"
    ends = ["?" if end is None else f"{end:.2f}" for end in quantile_interval(seconds, p)]
    return f"{np.quantile(seconds, p):.2f} [{', '.join(ends)}]"


def quantile_interval(values: Sequence[float], p: float) -> tuple[float | None, float | None]:
    """Return the 95% interval of the p-quantile: two of the values, by the binomial distribution of ranks.

    An end is None if there are too few values. For p = 0.95, the upper end needs at least 72.
    Source: Conover, Practical Nonparametric Statistics, 1999, section 3.2 (as scipy.stats.quantile_test).
    """
    ordered, n = sorted(values), len(values)
    chance = 0.0  # probability that at most `below` of n values are below the quantile
    low = high = None
    for below in range(n):
        ways = math.lgamma(n + 1) - math.lgamma(below + 1) - math.lgamma(n - below + 1)
        chance += math.exp(ways + below * math.log(p) + (n - below) * math.log1p(-p))
        if chance < TAIL:
            low = ordered[below]
        if high is None and chance >= 1 - TAIL:
            high = ordered[below]
    return low, high
