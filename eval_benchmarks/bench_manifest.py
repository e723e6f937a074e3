"""The manifest of a benchmark run: what was scored, and where its rows are. `read_bench` reads a finished run."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from eval_benchmarks.bench_settings import RunSettings
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.both_orders import SUFFIX, BothOrders
from eval_benchmarks.datasets.registry import find_benchmarks
from eval_benchmarks.trials import Trial, read_scored
from rag_zeval.errors import InputError
from rag_zeval.files import COUNT, NONE, FieldTypes, Row, check_object, locate, read_json, write_json
from rag_zeval.stages.config import check_settings, load_config, stored
from rag_zeval.stages.versions import installed

MANIFEST, ROWS = "manifest.json", "rows"
TEXT_OR_NULL = (str, NONE)
ENTRY: FieldTypes = {
    "benchmark": str,
    "scorer": str,
    "model": TEXT_OR_NULL,
    "trial": COUNT,
    "file": str,
    "identity": str,
    "prompt_hash": TEXT_OR_NULL,
}  # about each row file
FIELDS: FieldTypes = {"config": dict, "data": {str: {"sha256": str}}, "rows": [ENTRY]}
PACKAGES = ("numpy", "scipy", "sacrebleu", "rouge-score", "torch", "transformers", "vllm")


def write_manifest(
    out: Path, config: DictConfig, benchmarks: Sequence[Benchmark], trials: Sequence[Trial], notes: Sequence[str]
) -> None:
    """Write `manifest.json` into `out`: configuration, hashes of the data, row files, notes, versions of packages."""
    content = {
        "config": stored(config),
        "data": {b.name: {"sha256": b.data_hash, "examples": len(b.examples)} for b in benchmarks},
        "rows": [
            {
                "benchmark": trial.benchmark.name,
                "scorer": trial.scorer,
                "model": trial.model,
                "trial": trial.number,
                "file": trial.file,
                "identity": trial.identity,
                "prompt_hash": trial.prompt_hash,
            }
            for trial in trials
        ],
        "notes": notes,
        "versions": installed(PACKAGES),
    }
    write_json(out / MANIFEST, content)


def read_bench(run: Path) -> tuple[RunSettings, list[Trial]]:
    """Return the settings and the trials of a finished run.

    They are read from `manifest.json`, the row files and the benchmarks' data. Nothing is scored again. If the run used
    the default data folder, its data are read from where that folder is now. Raises InputError if the run is not
    finished, if a file cannot be read, or if the data are not those that were scored.
    """
    path = run / MANIFEST
    if not path.is_file():
        raise InputError(f"{path}: is missing; `python -m eval_benchmarks out_dir={run}` writes it at its end")
    manifest = _read_manifest(path)
    config, ours = manifest["config"], load_config("bench", [])
    missing = "put it there again"
    if config.get("data_dir") == stored(ours)["data_dir"]:
        config = {**config, "data_dir": ours.data_dir}
        missing = "set RAG_ZEVAL_DATA to the folder that the run read"
    with locate(f"{path}: field 'config'"):
        settings = check_settings(RunSettings, config)
    benchmarks = {benchmark.name: benchmark for benchmark in find_benchmarks(settings)[0]}
    for name, data in manifest["data"].items():
        if name not in benchmarks:
            raise InputError(f"{path}: field 'data': {name} is not in {settings.data_dir}; {missing}")
        if benchmarks[name].data_hash != data["sha256"]:
            raise InputError(f"{path}: field 'data': {name} in {settings.data_dir} is not what was scored")
    trials: list[Trial] = []
    for entry in manifest["rows"]:
        benchmark, file = _find_benchmark(entry, benchmarks, trials), f"{ROWS}/{Path(entry['file']).name}"
        if not (run / file).is_file():
            raise InputError(f"{run / file}: cannot be read: no such file")
        scored = read_scored(run / file, benchmark)
        names = {key: entry[key] for key in ("scorer", "model", "identity", "prompt_hash")}
        trials.append(Trial(benchmark=benchmark, file=file, scored=scored, number=entry["trial"], **names))
    return settings, trials


def data_hashes(manifest: Path) -> dict[str, str]:
    """Return the hash of each benchmark's data in a manifest. Raises InputError if the file is not a manifest."""
    return {name: data["sha256"] for name, data in _read_manifest(manifest)["data"].items()}


def _read_manifest(path: Path) -> Row:
    return check_object(f"{path}: not a manifest of a benchmark run", read_json(path), FIELDS)


def _find_benchmark(entry: Row, benchmarks: dict[str, Benchmark], before: list[Trial]) -> Benchmark:
    """Return the benchmark that an entry names. One in both orders is built from the rows of the first order.

    Raises InputError if those rows are not in `before`.
    """
    name = entry["benchmark"]
    if name in benchmarks:
        return benchmarks[name]
    first_order = (name.removesuffix(SUFFIX), entry["scorer"], entry["model"], entry["trial"])
    judged = [t for t in before if (t.benchmark.name, t.scorer, t.model, t.number) == first_order]
    if not judged:
        raise InputError(f"{entry['file']}: no rows of {first_order[0]} by the same judge come before it")
    return BothOrders(judged[0].benchmark, judged[0].scored)
