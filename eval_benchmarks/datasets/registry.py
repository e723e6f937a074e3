"""All benchmarks, by the name that `benchmarks=[...]` takes.

A new one is a module in this folder and a line in BENCHMARKS. A new set of labelled claims or answers is a file in
`labelled/sets`. Any other file of that form can be named by its path.

A module's `load(settings)` returns the benchmark, or None if its data are missing, and a line for everything that is
missing.
"""

from collections.abc import Callable
from functools import partial

from eval_benchmarks.bench_settings import RunSettings, check_names
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets import cad_pairs, nano_cad, nano_eval, nano_meta, ragchecker_meta, wikieval
from eval_benchmarks.datasets.labelled import benchmark as labelled
from eval_benchmarks.datasets.labelled.description import SUFFIX, set_names
from rag_zeval.errors import InputError

Load = Callable[[RunSettings], tuple[Benchmark | None, list[str]]]
BENCHMARKS: dict[str, Load] = {
    "ragchecker_meta": ragchecker_meta.load,
    "wikieval": wikieval.load,
    "nano_eval": nano_eval.load,
    "nano_cad": nano_cad.load,
    "nano_meta": nano_meta.load,
    **{name: partial(cad_pairs.load, name) for name in ("cad_pairs", "cad_sentences")},
    **{name: partial(labelled.load, name) for name in set_names()},
}


def find_benchmark(name: str) -> Load:
    """Return the function that loads a benchmark. `name` is a name, or a file that describes a labelled set."""
    return partial(labelled.load, name) if name.endswith(SUFFIX) else BENCHMARKS[name]


def load_benchmarks(settings: RunSettings) -> tuple[list[Benchmark], list[str]]:
    """Return the chosen benchmarks whose data are there, and a line for everything that has to be left out.

    The lines go into a run's files, so they do not name a folder that may come from the environment.

    Raises InputError for an unknown name, for data that do not fit, and if no benchmark is there.
    """
    benchmarks, left_out = find_benchmarks(settings)
    if not benchmarks:
        raise InputError(f"no benchmark can run: {'; '.join(left_out)} (data_dir is {settings.data_dir})")
    return benchmarks, left_out


def find_benchmarks(settings: RunSettings) -> tuple[list[Benchmark], list[str]]:
    """Return the same as `load_benchmarks`, but accept that no benchmark is there.

    Raises InputError if two have the same name, because their scores would be taken for trials of one benchmark.
    """
    check_names("benchmarks", [name for name in settings.benchmarks if not name.endswith(SUFFIX)], BENCHMARKS)
    benchmarks: list[Benchmark] = []
    left_out: list[str] = []
    for name in dict.fromkeys(settings.benchmarks):
        benchmark, missing = find_benchmark(name)(settings)
        left_out += missing
        if benchmark is None:
            continue
        if any(other.name == benchmark.name for other in benchmarks):
            raise InputError(f"benchmarks: '{name}' has the name of an earlier one, {benchmark.name}; rename its file")
        benchmarks.append(benchmark)
    return benchmarks, left_out
