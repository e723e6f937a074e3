"""Every benchmark, by the name that `benchmarks=[...]` takes. A new one is a module beside this, and a line here.

A module's `load(config)` gives the benchmark, or None where its data are not there, and a line for all that is missing.
"""

from __future__ import annotations

from collections.abc import Callable

from omegaconf import DictConfig

from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets import nano_cad, nano_eval, ragchecker_meta, wikieval

BENCHMARKS: dict[str, Callable[[DictConfig], tuple[Benchmark | None, list[str]]]] = {
    "ragchecker_meta": ragchecker_meta.load,
    "wikieval": wikieval.load,
    "nano_eval": nano_eval.load,
    "nano_cad": nano_cad.load,
}
