"""The result file of an arm and seed: small enough to keep, with all that is needed to recompute tables and figures.

It is JSON with one field a line. A mean or ratio is stored as a list with one value for each instance of the benchmark:
a number, `[top, bottom]` where the bottom of a ratio is not 1, or null (no score). A correlation is stored as
`{correlation, scores, labels}`: its kind, each instance's score or null, and its annotators' labels. A metric of
several trials is stored as `{trials}`, the metric of each trial. A training curve has a number or null for each step.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval_benchmarks.bench_manifest import read_bench
from eval_benchmarks.bench_settings import CALLS
from eval_benchmarks.benchmark import Benchmark, MeanOfMetrics, Metric, ratio_metric
from eval_benchmarks.trials import group_trials
from experiments.arm_commands import BASE, RL, TRAINING, ArmRun, Experiment, run_name
from experiments.training_curves import read_curves
from rag_zeval.errors import InputError
from rag_zeval.files import (
    COUNT,
    NONE,
    NUMBER_OR_NONE,
    FieldTypes,
    Maybe,
    Row,
    check_fields,
    check_object,
    file_sha256,
    first_difference,
    flat,
    locate,
    read_json,
    write_text,
)
from rag_zeval.models.folder import model_sha256
from rag_zeval.stages.config import load_config
from rag_zeval.stages.training_log import read_run
from rag_zeval.statistics.bootstrap import Correlation, Ratio
from rag_zeval.statistics.weighted_correlations import WEIGHTED, Floats

# the training curves (names of training_curves.METRICS) that a result file keeps
CURVES = "reward accuracy evidence claims claims_best claims_worst format kl validation candidates seconds".split()

JUDGE = "judge"  # the section of the bench's settings that says how a judge is asked
SPEED = (*CALLS, "processes", "reply_tokens_per_second")  # its keys that change how fast it is asked, and no score

NUMBER = (int, float)
RESULT: FieldTypes = {  # the fields that are read from a result file
    "base": str,
    "benchmarks": {str: {"data_hash": str, "metrics": {str: (list, dict)}}},
    "curves": {str: [NUMBER_OR_NONE]},
    "minutes": {str: NUMBER},
    "rows": {str: COUNT},
    "answers": Maybe((str, NONE)),
}


MEAN: FieldTypes = {"values": [(*NUMBER_OR_NONE, [NUMBER])]}  # the three forms of a metric (see `metric_values`)
CORRELATION: FieldTypes = {"correlation": str, "scores": [NUMBER_OR_NONE], "labels": [[NUMBER]]}
TRIALS: FieldTypes = {"trials": [(list, dict)]}


@dataclass(frozen=True)
class ArmResult:
    """The content of a result file.

    row: all of it, as it was read. metrics: by benchmark and name. curves: by name, each (steps,), NaN where a step has
    no value.
    """

    row: Row
    metrics: dict[str, dict[str, Metric]]
    curves: dict[str, Floats]

    @property
    def minutes(self) -> float:
        """Wall-clock minutes of all training stages together."""
        return sum(minutes for stage, minutes in self.row["minutes"].items() if stage in TRAINING)


ArmResults = dict[str, dict[int | None, ArmResult]]  # by arm (BASE first) and seed (None: BASE), if they exist


def identity(run: ArmRun, answers: Mapping[str, Any], benchmarks: Sequence[Benchmark], bench: Mapping[str, Any]) -> Row:
    """Return all that decides a result except the code: `{"settings", "base"}`.

    answers: the settings of the synthesize stage, which do not matter for BASE. bench: the settings of the bench stage.
    """
    settings = {"data": {b.name: b.data_hash for b in benchmarks}, "nano_eval": bench["nano_eval"]}
    if any(benchmark.world is None for benchmark in benchmarks):  # in a generated world judges answer greedily
        settings[JUDGE] = bench["judge"]
    if run.commands:
        settings |= {"synthesize": dict(answers), **{command.stage: command.settings for command in run.commands}}
    return {"settings": settings, "base": model_sha256(run.base)}


def is_done(path: Path, wanted: Row) -> bool:
    """Whether the result file exists.

    Raises InputError naming the first of its settings that differs from the wanted ones. A setting that did not exist
    when the result was made counts as its default in configs/<stage>.yaml. Settings of the judge that change no score
    (SPEED) do not count.
    """
    if not path.exists():
        return False
    stages = dict.fromkeys(("synthesize", *TRAINING, JUDGE), Maybe(dict))
    row: Any = check_object(path, read_json(path), {"settings": Maybe((stages, NONE))})
    before, now = ({key: of.get(key) for key in ("settings", "base")} for of in (row, json.loads(json.dumps(wanted))))
    for stage, settings in (before["settings"] or {}).items():
        if stage in ("synthesize", *TRAINING, JUDGE):
            defaults = load_config("bench", []).judge if stage == JUDGE else load_config(stage, [])
            for key in wanted["settings"].get(stage, ()):
                settings.setdefault(key, defaults.get(key))
    for side in (before, now):
        for key in SPEED:
            (side["settings"] or {}).get(JUDGE, {}).pop(key, None)
    if key := first_difference(before, now):
        raise InputError(
            f"{path}: is the result of {key}={flat(before).get(key)}, not {flat(now).get(key)}: remove it (and its run "
            "under runs_dir), or choose another results_dir"
        )
    return True


def result_row(experiment: Experiment, run: ArmRun, benchmarks: Sequence[Benchmark], known: Row) -> Row:
    folder = experiment.folder(run)
    manifests = {command.stage: read_json(folder / command.stage / "manifest.json") for command in run.commands}
    curves = read_curves(read_run(folder / RL)) if RL in manifests else {}
    trials = [trial for trial in read_bench(folder / "bench")[1] if trial.model == run.model]
    scored = {scorer.benchmark.name: scorer for scorer in group_trials(trials)}
    return {
        "experiment": experiment.name,
        "arm": run.arm,
        "seed": run.seed,
        "commands": [command.line for command in run.commands],
        "rows": {stage: manifest["counts"]["train_rows"] for stage, manifest in manifests.items()},
        "steps": {stage: manifest["steps"] for stage, manifest in manifests.items()},
        "model": model_sha256(run.model),
        "answers": file_sha256(experiment.responses) if run.commands else None,
        **known,
        "benchmarks": {
            benchmark.name: {
                "data_hash": benchmark.data_hash,
                "prompt_hash": scored[benchmark.name].trials[0].prompt_hash,
                "metrics": {name: metric_values(of) for name, of in scored[benchmark.name].metrics.items()},
            }
            for benchmark in benchmarks
        },
        "curves": {name: curve_values(curves[name]) for name in CURVES if name in curves},
    }


def check_kept(benchmarks: Iterable[Benchmark]) -> None:
    """Raise InputError for a benchmark whose metrics a result file cannot hold."""
    for benchmark in benchmarks:
        if not all(isinstance(metric.statistic, Ratio | Correlation) for metric in benchmark.metrics({})):
            raise InputError(
                f"benchmarks: {benchmark.name} has metrics that are neither means nor correlations; experiments keep "
                "only those"
            )


def metric_values(metric: Metric) -> Any:
    """Return a metric as the result file stores it: a ratio, a correlation, or the mean of such over trials."""
    statistic = metric.statistic
    if isinstance(statistic, MeanOfMetrics):
        return {"trials": [metric_values(trial) for trial in statistic.metrics]}
    if isinstance(statistic, Correlation):
        scores = [_short(score) if there else None for score, there in zip(statistic.x, metric.scored, strict=True)]
        labels = [[_short(label) for label in row] for row in statistic.y.tolist()]
        return {"correlation": statistic.kind, "scores": scores, "labels": labels}
    assert isinstance(statistic, Ratio), metric.name
    tops, bottoms = (map(_short, column.tolist()) for column in (statistic.top, statistic.bottom))
    columns = zip(tops, bottoms, metric.scored, strict=True)
    return [(top if bottom == 1 else [top, bottom]) if scored else None for top, bottom, scored in columns]


def curve_values(curve: Iterable[float]) -> list[float | None]:
    """Return a curve as the result file stores it; None where a step has no finite value."""
    return [_short(float(value)) if math.isfinite(value) else None for value in curve]


def _short(value: float) -> float:
    return int(value) if float(value).is_integer() else float(value)


def write_result(path: Path, row: Row) -> None:
    """Write a result file atomically. Raise ValueError for NaN and infinities."""
    fields = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in row.items())
    write_text(path, "{\n" + ",\n".join(fields) + "\n}\n")


def read_result(path: Path) -> ArmResult:
    row = read_json(path)
    with locate(path):
        try:
            check_fields(row, RESULT)
            metrics = {
                benchmark: {name: read_metric(name, values) for name, values in of["metrics"].items()}
                for benchmark, of in row["benchmarks"].items()
            }
            curves = {name: np.array(values, dtype=float) for name, values in row["curves"].items()}  # null becomes NaN
        except InputError:
            raise
        except (TypeError, ValueError) as error:  # a ratio that does not have two numbers
            raise InputError(f"is not a result file: {type(error).__name__}: {error}") from error
    return ArmResult(row, metrics, curves)


def read_metric(name: str, values: Any) -> Metric:
    """Rebuild a metric from what `metric_values` returned for it.

    An instance without a score is 0 of 0 in a ratio, and NaN in a correlation. Raises InputError naming a field that
    `metric_values` cannot have written.
    """
    if isinstance(values, Mapping) and "trials" in values:
        trials = tuple(read_metric(name, of_trial) for of_trial in check_fields(values, TRIALS)["trials"])
        return Metric(name, MeanOfMetrics(trials), np.logical_or.reduce([trial.scored for trial in trials]))
    if isinstance(values, Mapping):
        check_fields(values, CORRELATION)
        if values["correlation"] not in WEIGHTED or len(values["scores"]) != len(values["labels"]):
            raise InputError(f"metric '{name}' must be a known correlation with as many scores as labels")
        scores = np.array(values["scores"], dtype=float)  # null becomes NaN
        correlation = Correlation(values["correlation"], scores, np.array(values["labels"], dtype=float))
        return Metric(name, correlation, ~np.isnan(scores))
    check_fields({"values": values}, MEAN)
    pairs: list[Any] = [(value, 1) if isinstance(value, int | float) else value for value in values]
    return ratio_metric(name, pairs)


def read_results(experiment: Experiment) -> ArmResults:
    """Read all existing result files of the experiment.

    Raises InputError for files that cannot be compared, because they differ in the base model, in the benchmark data,
    or in the answers that the judges were trained on.
    """
    results: ArmResults = {}
    answers: dict[str, Path] = {}
    for arm, seed in experiment.arms_and_seeds:
        of_arm, path = results.setdefault(arm, {}), experiment.result(arm, seed)
        if path.exists():
            result = of_arm[seed] = read_result(path)
            for base in results[BASE].values():
                _check_comparable(base, result, f"{path}: cannot be compared with {experiment.result(BASE).name}")
            if trained_on := result.row.get("answers"):
                answers.setdefault(trained_on, path)
    if len(answers) > 1:
        first, other = list(answers.values())[:2]
        raise InputError(f"{other}: cannot be compared with {first.name}: it was trained on other answers")
    return results


def check_answers(experiment: Experiment, results: ArmResults) -> None:
    """Raise InputError if a result was trained on other answers than those that the next judges would be trained on.

    Answers differ if the data of the questions have changed (RAG_ZEVAL_DATA).
    """
    for arm, by_seed in results.items():
        for seed, result in by_seed.items():
            if (before := result.row.get("answers")) and before != file_sha256(experiment.responses):
                path = experiment.result(arm, seed)
                raise InputError(
                    f"{path}: was trained on other answers than those of {experiment.responses}: "
                    "remove it, or choose another results_dir"
                )


def _check_comparable(base: ArmResult, result: ArmResult, where: str) -> None:
    if base.row["base"] != result.row["base"]:
        raise InputError(f"{where}: it starts from another model")
    for benchmark, of in result.row["benchmarks"].items():
        if base.row["benchmarks"].get(benchmark, of)["data_hash"] != of["data_hash"]:
            raise InputError(f"{where}: {benchmark} has other data")
        for name, metric in result.metrics[benchmark].items():
            other = base.metrics.get(benchmark, {}).get(name, metric)
            if len(other.scored) != len(metric.scored):
                raise InputError(f"{where}: {benchmark} has another number of values of {name}")


def missing(experiment: Experiment, results: ArmResults) -> list[str]:
    """Return the names of the arms and seeds without a result file."""
    return [run_name(arm, seed) for arm, seed in experiment.arms_and_seeds if seed not in results[arm]]
