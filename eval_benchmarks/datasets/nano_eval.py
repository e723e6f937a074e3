"""Held-out people of the nano world that the judge never met, candidates written by the generator."""

from __future__ import annotations

from eval_benchmarks.bench_settings import RunSettings
from eval_benchmarks.datasets.nano_world import PAIRS, RANKED, NanoWorld
from rag_zeval.stages import world


class NanoEval(NanoWorld):
    """`n` prompts for each K, drawn from a split's new people with seeds of their own."""

    def __init__(self, n: int, seed_ranked: int, seed_pairs: int, split: str = "test"):
        ranked = world.ranked_examples(split, n, RANKED, seed_ranked)
        super().__init__("nano_eval", ranked, world.ranked_examples(split, n, PAIRS, seed_pairs))


def load(settings: RunSettings) -> tuple[NanoEval, list[str]]:
    """The benchmark; it needs no data, so no line says what is missing."""
    nano = settings.nano_eval
    return NanoEval(nano.n, nano.seed_ranked, nano.seed_pairs, nano.split), []
