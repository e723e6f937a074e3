"""A finished benchmark run, read back from its folder: nothing is scored again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.both_orders import SUFFIX, BothOrders
from eval_benchmarks.inputs import load_benchmarks
from eval_benchmarks.results import Result, StoredScores
from rag_zeval.errors import InputError
from rag_zeval.files import FieldTypes, Row, check_fields
from rag_zeval.rows import StoredRows

ENTRY: FieldTypes = {
    **dict.fromkeys(("benchmark", "scorer", "file", "identity"), str),
    **dict.fromkeys(("model", "prompt_hash"), (str, type(None))),
    "trial": int,
}  # what the manifest says of a row file


def read_run(run: Path) -> tuple[DictConfig, list[Result]]:
    """The configuration of a run and its results, from `manifest.json`, the row files and the benchmarks' data.

    Raises InputError if the run is not finished, a file cannot be read, or the data are not those that were scored.
    """
    path = run / "manifest.json"
    if not path.is_file():
        raise InputError(f"{path}: is missing; `python -m eval_benchmarks out_dir={run}` writes it at its end")
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        config, data, entries = (manifest[key] for key in ("config", "data", "rows"))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a manifest of a benchmark run: {error!r}") from error
    config = OmegaConf.create(config)
    benchmarks = {benchmark.name: benchmark for benchmark in load_benchmarks(config)[0]}
    for name, said in data.items():
        if name not in benchmarks or benchmarks[name].data_hash != said["sha256"]:
            raise InputError(f"{path}: field 'data': {name} in {config.data_dir} is not what was scored")
    results: list[Result] = []
    for number, entry in enumerate(entries):
        try:
            check_fields(entry, ENTRY)
        except InputError as error:
            raise InputError(f"{path}: field 'rows': entry {number}: {error}") from error
        results.append(_result(run, entry, _benchmark(entry, benchmarks, results)))
    return config, results


def _benchmark(entry: Row, benchmarks: dict[str, Benchmark], before: list[Result]) -> Benchmark:
    name = entry["benchmark"]
    if name in benchmarks:
        return benchmarks[name]
    same = (name.removesuffix(SUFFIX), entry["scorer"], entry["model"], entry["trial"])
    for result in before:
        if (result.benchmark.name, result.scorer, result.model, result.trial) == same:
            return BothOrders(result.benchmark, result.scored)
    raise InputError(f"{entry['file']}: there are no rows of {same[0]} by the same judge before it")


def _result(run: Path, entry: Row, benchmark: Benchmark) -> Result:
    path = run / entry["file"]
    if not path.is_file():
        raise InputError(f"{path}: cannot be read: there is no such file")
    scored = StoredScores(StoredRows(path))
    try:
        all(scored.values())
    except (TypeError, KeyError) as error:
        raise InputError(f"{path}: not rows of a benchmark run: {error}") from error
    scorer, model, identity, prompt_hash = (entry[key] for key in ("scorer", "model", "identity", "prompt_hash"))
    return Result(benchmark, scorer, model, path.name, identity, prompt_hash, scored, entry["trial"])
