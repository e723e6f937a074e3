"""Numbers of a release that are no scores: seconds and dollars. Less is better, and there is no scale of 0 to 1."""

from rag_zeval.scorers.registry import lower_is_better

P95 = "latency_p95"
AMOUNTS = {"latency_mean": ("latency_s", 1), P95: ("latency_s", 1), "cost_per_1000": ("cost_usd", 1000)}  # field, times
PERCENTILES = {P95: 0.95}  # of all other metrics the mean is taken


def less_is_better(metric: str) -> bool:
    """Whether a better system has a lower value of a metric or of an amount."""
    return metric in AMOUNTS or lower_is_better(metric)
