"""The result file of an arm and seed: small enough to be kept, enough to compute every table and figure again.

An array is a line of text. Of a metric it has a word for each instance of the benchmark: `-` (no score), `top`, or
`top/bottom` where the bottom of the ratio is not 1. Of a training curve it has a word for each step, `-` where the step
has no such value. Numbers have six digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval_benchmarks.benchmark import Benchmark, Metric
from eval_benchmarks.output.curves import read_curves
from experiments.plan import RL, TRAINING, Experiment, Job, flat
from rag_zeval.errors import InputError
from rag_zeval.files import Row, file_sha256, model_sha256, read_jsonl
from rag_zeval.scorers.score import Scored
from rag_zeval.stages.config import load_config
from rag_zeval.stages.training_log import read_run
from rag_zeval.statistics.bootstrap import Ratio
from rag_zeval.statistics.weighted_correlations import Floats

MISSING = "-"
# of the training curves (eval_benchmarks.output.curves.METRICS), those that are kept
CURVES = "reward accuracy evidence claims claims_best claims_worst format kl validation candidates seconds".split()


@dataclass(frozen=True)
class Measured:
    """What a model got in one benchmark: its metrics by name, each a ratio."""

    data_hash: str
    metrics: dict[str, Metric]


@dataclass(frozen=True)
class Result:
    """A result file as it is read: `row` holds all of it, `measured` and `curves` (steps,) its arrays."""

    row: Row
    measured: dict[str, Measured]
    curves: dict[str, Floats]

    @property
    def minutes(self) -> float:
        """Wall-clock of the training, all its stages."""
        return sum(minutes for stage, minutes in self.row["minutes"].items() if stage in TRAINING)


def identity(job: Job, answers: Mapping[str, Any], benchmarks: Sequence[Benchmark], bench: Mapping[str, Any]) -> Row:
    """What decides a result, code aside: `{"settings", "base"}`.

    answers: the settings of the synthesize stage; bench: those of the bench stage. BASE depends on the latter alone.
    """
    stages = {command.stage: command.settings for command in job.commands}
    settings = {"data": {b.name: b.data_hash for b in benchmarks}, "nano_eval": bench["nano_eval"]}
    if stages:
        settings |= {"synthesize": dict(answers), **stages}
    return {"settings": settings, "base": model_sha256(_base(job))}


def _base(job: Job) -> str:
    """The model a job starts from: its first stage's base_model, or itself."""
    if not job.commands:
        return job.model
    key = "base_model="
    return next(word.removeprefix(key) for word in job.commands[0].words if word.startswith(key))


def is_done(path: Path, wanted: Row) -> bool:
    """Whether the result is there. Raises InputError naming the first setting that differs from the one wanted.

    A setting that its stage did not have yet when the result was made is no difference as long as it has its default.
    """
    if not path.exists():
        return False
    row = read_json(path)
    before = flat({key: row.get(key) for key in ("settings", "base")})
    now = flat(json.loads(json.dumps({key: wanted[key] for key in ("settings", "base")})))
    stages = set(row.get("settings") or ()) & {"synthesize", *TRAINING}
    for key in [*now, *before]:
        if before.get(key) != now.get(key) and not (key not in before and _is_default(key, now[key], stages)):
            raise InputError(
                f"{path}: is the result of {key}={before.get(key)}, not {now.get(key)}: remove it (and its run under "
                "runs_dir), or give another results_dir"
            )
    return True


def _is_default(key: str, value: Any, stages: Container[str]) -> bool:
    """Whether `settings.<stage>.<name>` is a setting of the stage itself, and has the value of configs/<stage>.yaml."""
    _, stage, *name = key.split(".") if "." in key else ("", "")
    return stage in stages and len(name) == 1 and load_config(stage, []).get(name[0]) == value


def result_row(experiment: Experiment, job: Job, benchmarks: Sequence[Benchmark], known: Row) -> Row:
    """The content of the result file, from the files that the stages of a job left, and what else is `known` of it."""
    folder = experiment.folder(job)
    manifests = {command.stage: read_json(folder / command.stage / "manifest.json") for command in job.commands}
    return {
        "experiment": experiment.name,
        "arm": job.arm,
        "seed": job.seed,
        "commands": [command.line for command in job.commands],
        "rows": {stage: manifest["counts"]["train_rows"] for stage, manifest in manifests.items()},
        "steps": {stage: manifest["steps"] for stage, manifest in manifests.items()},
        "model": model_sha256(job.model),
        "answers": file_sha256(experiment.answers) if job.commands else None,
        **known,
        "benchmarks": {b.name: _measured(folder / "bench", b, job.model) for b in benchmarks},
        "curves": _curves(folder / RL) if RL in manifests else {},
    }


def _measured(bench: Path, benchmark: Benchmark, model: str) -> Row:
    entries = read_json(bench / "manifest.json")["rows"]
    found = [e for e in entries if (e["benchmark"], e["model"]) == (benchmark.name, model)]
    if len(found) != 1:
        raise InputError(f"{bench / 'manifest.json'}: no rows of {benchmark.name} by {model}")
    scored = {row["id"]: Scored.from_row(row) for row in read_jsonl(bench / found[0]["file"], {"id": str})}
    return {
        "data_hash": benchmark.data_hash,
        "prompt_hash": found[0]["prompt_hash"],
        "metrics": {metric.name: encode_metric(metric) for metric in benchmark.metrics(scored)},
    }


def _curves(run: Path) -> dict[str, str]:
    curves = read_curves(read_run(run))
    return {name: encode_curve(curves[name]) for name in CURVES if name in curves}


def read_result(path: Path) -> Result:
    """Raises InputError when the file is not a result."""
    row = read_json(path)
    try:
        measured = {
            name: Measured(of["data_hash"], {m: decode_metric(m, text) for m, text in of["metrics"].items()})
            for name, of in row["benchmarks"].items()
        }
        return Result(row, measured, {name: decode_curve(text) for name, text in row["curves"].items()})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{path}: is no result file: {type(error).__name__}: {error}") from error


def read_json(path: Path) -> Row:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object, found {type(content).__name__}")
    return content


def check_ratios(benchmarks: Iterable[Benchmark]) -> None:
    """Raises InputError for a benchmark whose metrics a result file cannot hold."""
    for benchmark in benchmarks:
        if not all(isinstance(metric.statistic, Ratio) for metric in benchmark.metrics({})):
            raise InputError(f"benchmarks: {benchmark.name} has metrics that are no means; experiments keep only those")


def encode_metric(metric: Metric) -> str:
    ratio = metric.statistic
    assert isinstance(ratio, Ratio), metric.name
    return " ".join(
        (f"{top:.6g}" if bottom == 1 else f"{top:.6g}/{bottom:.6g}") if scored else MISSING
        for top, bottom, scored in zip(ratio.top, ratio.bottom, metric.scored, strict=True)
    )


def decode_metric(name: str, text: str) -> Metric:
    """What `encode_metric` wrote; an instance without a score is 0 of 0. Raises ValueError for anything else."""
    pairs = [_pair(word) for word in text.split()]
    top, bottom = (np.array([pair[at] for pair in pairs], dtype=float) for at in (0, 1))
    return Metric(name, Ratio(top, bottom), np.array([word != MISSING for word in text.split()], dtype=bool))


def _pair(word: str) -> tuple[float, float]:
    if word == MISSING:
        return 0.0, 0.0
    top, _, bottom = word.partition("/")
    return float(top), float(bottom or 1)


def encode_curve(values: Iterable[float]) -> str:
    return " ".join(MISSING if not math.isfinite(value) else f"{value:.6g}" for value in values)


def decode_curve(text: str) -> Floats:
    """(steps,), NaN where a step has no value."""
    return np.array([float("nan") if word == MISSING else float(word) for word in text.split()])
