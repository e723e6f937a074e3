"""Seconds and dollars: metrics of a system that are not scores.

Lower is better, and the values can be above 1.
"""

from rag_zeval.scorers.registry import lower_is_better

P95 = "latency_p95"
AMOUNTS = {"latency_mean": ("latency_s", 1), P95: ("latency_s", 1), "cost_per_1000": ("cost_usd", 1000)}  # field, scale
PERCENTILES = {P95: 0.95}  # all other metrics are means


def less_is_better(metric: str) -> bool:
    """Whether a better system has a lower value of this metric, which may be one of AMOUNTS."""
    return metric in AMOUNTS or lower_is_better(metric)
