"""How long a RAG system takes to answer."""

from collections import defaultdict
from collections.abc import Sequence

from rag_zeval.cases.case import NO_SLICE
from rag_zeval.files import Row
from rag_zeval.statistics.quantiles import quantile, quantile_interval
from rag_zeval.terminal_tables import print_framed


def print_latencies(rows: Sequence[Row]) -> None:
    """Print, by slice, how many questions have an answer, and the seconds it took: median and 95th percentile."""
    slices: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        slices[NO_SLICE if row.get("slice_tag") is None else row["slice_tag"]].append(row)
    lines = []
    for name, members in [("all", rows), *slices.items()]:
        seconds = [row["latency_s"] for row in members if row["latency_s"] is not None]
        counts = str(len(seconds)), str(len(members) - len(seconds))
        lines.append((name, *counts, _quantile(seconds, 0.5), _quantile(seconds, 0.95)))
    print_framed(("slice", "answered", "failed", "p50 latency (s)", "p95 latency (s)"), lines)


def _quantile(seconds: Sequence[float], p: float) -> str:
    """With its 95% interval; an end for which there are too few values is "?"."""
    if not seconds:
        return "no answer"
    ends = ["?" if end is None else f"{end:.2f}" for end in quantile_interval(seconds, p)]
    return f"{quantile(seconds, p):.2f} [{', '.join(ends)}]"
