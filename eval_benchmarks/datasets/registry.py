"""Every benchmark, by the name that `benchmarks=[...]` takes. A new one is a module beside this, and a line here.

A module's `load(settings)` gives the benchmark, or None where its data are not there, and a line for all that is
missing.
"""

from __future__ import annotations

from collections.abc import Callable

from eval_benchmarks.bench_settings import RunSettings, check_names
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets import cad_pairs, nano_cad, nano_eval, nano_meta, ragchecker_meta, wikieval
from rag_zeval.errors import InputError

BENCHMARKS: dict[str, Callable[[RunSettings], tuple[Benchmark | None, list[str]]]] = {
    "ragchecker_meta": ragchecker_meta.load,
    "wikieval": wikieval.load,
    "nano_eval": nano_eval.load,
    "nano_cad": nano_cad.load,
    "nano_meta": nano_meta.load,
    "cad_pairs": cad_pairs.load,
}


def load_benchmarks(settings: RunSettings) -> tuple[list[Benchmark], list[str]]:
    """The benchmarks chosen whose data are there, and a line for everything that has to be left out.

    Raises InputError for a name that does not exist, data that do not fit, and if no benchmark is there.
    """
    check_names("benchmarks", settings.benchmarks, BENCHMARKS)
    benchmarks: list[Benchmark] = []
    left_out: list[str] = []
    for name in dict.fromkeys(settings.benchmarks):
        benchmark, missing = BENCHMARKS[name](settings)
        left_out += missing
        if benchmark is not None:
            benchmarks.append(benchmark)
    if not benchmarks:
        raise InputError("no benchmark can run: " + "; ".join(left_out))
    return benchmarks, left_out
