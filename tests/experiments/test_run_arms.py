"""Running an experiment: real stages as processes, what is skipped, what a failure leaves."""

import json
import shutil
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_benchmarks.benchmark import MeanOfMetrics, Metric
from experiments import __main__ as program
from experiments.arm_commands import BASE, ArmRun, StageCommand, read_experiment
from experiments.arm_results import (
    CURVES,
    ArmResult,
    check_kept,
    curve_values,
    metric_values,
    read_metric,
    read_result,
    write_result,
)
from experiments.run_arms import ExperimentWork, StageError, StageProcesses
from experiments.training_curves import METRICS
from rag_zeval.errors import InputError
from rag_zeval.files import Row, file_sha256, write_json, write_text
from rag_zeval.stages.config import load_config
from rag_zeval.statistics.bootstrap import Correlation, Ratio
from rewards.combined import KEYS
from train.run_folder import RunFolder

numbers = st.integers(0, 50).map(float) | st.floats(0, 1).map(lambda value: float(f"{value:.6g}"))


@given(st.lists(st.tuples(numbers, numbers, st.booleans()), max_size=30))
def test_a_metric_is_read_as_it_was_written(rows: list[tuple[float, float, bool]]) -> None:
    top, bottom, scored = (np.array([row[at] for row in rows]) for at in range(3))
    found = read_metric("m", metric_values(Metric("m", Ratio(top, bottom), scored.astype(bool))))
    ratio = found.statistic
    assert isinstance(ratio, Ratio)
    assert found.scored.tolist() == scored.astype(bool).tolist()
    assert ratio.top[found.scored].tolist() == top[found.scored].tolist()
    assert ratio.bottom[found.scored].tolist() == bottom[found.scored].tolist()


@given(st.lists(st.lists(st.none() | numbers, min_size=6, max_size=6), min_size=1, max_size=3))
def test_correlations_of_trials_are_read_as_they_were_written(trials: list[list[float | None]]) -> None:
    labels = np.array([[-2, 0], [1, 1], [0, 2], [-1, 0], [2, 2], [0, 0]], dtype=float)
    metrics = []
    for scores in trials:
        x = np.array(scores, dtype=float)
        metrics.append(Metric("pearson", Correlation("pearson", x, labels), ~np.isnan(x)))
    scored = np.logical_or.reduce([metric.scored for metric in metrics])
    metric = Metric("pearson", MeanOfMetrics(tuple(metrics)), scored)
    metrics_of_file = {"pearson": metric_values(metric), "alone": metric_values(metrics[0])}
    row = {"base": "", "benchmarks": {"b": {"data_hash": "", "metrics": metrics_of_file}}, "curves": {}, "minutes": {}}
    with tempfile.TemporaryDirectory() as folder:
        write_result(path := Path(folder) / "arm.json", {**row, "rows": {}})
        found, alone = read_result(path).metrics["b"].values()
    assert found.scored.tolist() == scored.tolist() and alone.value == pytest.approx(metrics[0].value, nan_ok=True)
    assert found.value == pytest.approx(metric.value, nan_ok=True)


def test_a_metric_that_no_file_can_hold_is_refused() -> None:
    other = Metric("auroc", SimpleNamespace(), np.ones(2, dtype=bool))  # type: ignore[arg-type]
    benchmark: Any = SimpleNamespace(name="labels", metrics=lambda scored: [other])
    with pytest.raises(InputError, match="labels has metrics that are neither means nor correlations"):
        check_kept([benchmark])


@given(st.lists(st.just(np.nan) | numbers, max_size=30))
def test_a_curve_is_read_as_it_was_written(values: list[float]) -> None:
    assert np.array_equal(np.array(curve_values(values), dtype=float), np.array(values), equal_nan=True)
    assert curve_values([np.inf]) == [None]


def test_the_curves_are_metrics_that_training_logs() -> None:
    assert set(CURVES) <= METRICS.keys()
    rewards = {metric for metric in METRICS.values() if metric.startswith("reward_extra/")}
    assert rewards <= {f"reward_extra/{key}/mean" for key in (*KEYS, "errors")}


def words(tmp_path: Path, *more: str) -> list[str]:
    places = [f"runs_dir={tmp_path / 'runs'}", f"results_dir={tmp_path / 'results'}"]
    return [*places, "benchmarks=[nano_eval]", "bench.nano_eval.n=4", "draws=200", *more]


def ablations(tmp_path: Path, seeds: str) -> ExperimentWork:
    config = load_config("experiments", words(tmp_path, "experiment=ablations", "arms=[static-3]", seeds))
    return ExperimentWork(read_experiment(config))


def test_benchmarks_without_data_are_named_and_those_of_another_world_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(tmp_path))
    config = load_config("experiments", words(tmp_path, "seeds=[1]", "benchmarks=[nano_eval,wikieval]"))
    work = ExperimentWork(read_experiment(config))
    monkeypatch.setattr(work, "todo", lambda: [])
    assert work.do() == [] and "left out: wikieval (Table 1" in capsys.readouterr().out
    row = dict.fromkeys(("question", "answer", "poor_answer", "ungrounded_answer", "context_v1"), "text")
    write_text(tmp_path / "wikieval" / "rows.jsonl", json.dumps(row) + "\n")
    with pytest.raises(InputError, match=r"wikieval cannot be measured: this judge knows only its own world \(nano\)"):
        ExperimentWork(read_experiment(config))


@pytest.fixture
def work(tmp_path: Path) -> ExperimentWork:
    """Its answers are there."""
    work = ablations(tmp_path, "seeds=[1,2]")
    write_text(work.experiment.responses, "{}\n")
    return work


@pytest.fixture(scope="module")
def base_bench(tmp_path_factory: pytest.TempPathFactory) -> tuple[ExperimentWork, Row]:
    """The base's result, from the real bench of the shipped base on four prompts of each K."""
    folder = tmp_path_factory.mktemp("experiment")
    work = ablations(folder, "seeds=[1]")
    return work, work.result(work.runs[0], "1 of 1")


def written(work: ExperimentWork, run: ArmRun, row: Row) -> ArmResult:
    path = work.experiment.result(run.arm, run.seed)
    write_result(path, row)
    return read_result(path)


def test_the_result_of_the_base_holds_what_the_bench_stage_found(base_bench: tuple[ExperimentWork, Row]) -> None:
    work, row = base_bench
    run = work.runs[0]
    result = written(work, run, row)
    assert (result.row["arm"], result.row["seed"], result.curves, result.minutes) == (BASE, None, {}, 0)
    assert result.row["model"] == result.row["base"]
    assert result.row["minutes"]["bench"] > 0
    summary = json.loads((work.experiment.folder(run) / "bench" / "summary.json").read_text())
    metrics = result.metrics["nano_eval"]
    assert [of["metric"] for of in summary] == list(metrics)
    for of in summary:
        metric = metrics[of["metric"]]
        assert (len(metric.scored), int(metric.scored.sum())) == (4, of["n"])
        assert metric.statistic.point(metric.scored) == pytest.approx(of["value"], abs=1e-6, nan_ok=of["value"] is None)
    assert [run.name for run in work.todo()] == ["static-3-seed1"]


def test_the_result_of_an_arm_holds_what_training_left(
    base_bench: tuple[ExperimentWork, Row], monkeypatch: Any
) -> None:
    """A run folder as training writes it, cut off once, with the base's own weights as its model."""
    work, base = base_bench
    run, experiment = work.runs[1], work.experiment
    assert run.name == "static-3-seed1"
    folder = RunFolder(experiment.folder(run) / "train")
    shutil.copytree(work.runs[0].model, folder.model)
    write_text(experiment.responses, "answers\n")
    for steps in ((0, 1, 2), (2, 3)):
        logged = {step: [m for m in METRICS.values() if step or m.startswith("val")] for step in steps}
        rows = [{"step": step, "data": dict.fromkeys(metrics, step + 0.5)} for step, metrics in logged.items()]
        write_text(folder.next_attempt(), "".join(json.dumps(row) + "\n" for row in rows))
    folder.merge_metrics()
    write_json(folder.manifest, {"steps": 3, "counts": {"train_rows": 24}})
    measured = experiment.folder(run) / "bench"
    shutil.copytree(experiment.folder(work.runs[0]) / "bench", measured)
    manifest = json.loads((measured / "manifest.json").read_text())
    write_json(measured / "manifest.json", {**manifest, "rows": [{**r, "model": run.model} for r in manifest["rows"]]})
    write_json(experiment.folder(run) / "minutes.json", {"train": 12.5, "bench": 1.0})
    monkeypatch.setattr(work.stages, "run", lambda *given: None)
    result = written(work, run, work.result(run, "2 of 2"))
    assert (result.row["steps"], result.row["rows"], result.minutes) == ({"train": 3}, {"train": 24}, 12.5)
    assert result.row["model"] == base["model"] == result.row["base"]
    assert set(result.curves) == set(CURVES)
    assert all(curve.tolist() == [1.5, 2.5, 3.5] for curve in result.curves.values())
    assert result.row["benchmarks"] == base["benchmarks"]
    assert f"seed=1 responses={experiment.responses}" in result.row["commands"][0]


def fake_row(work: ExperimentWork, run: ArmRun) -> Row:
    """A result without arrays."""
    known = {"experiment": "ablations", "arm": run.arm, "seed": run.seed, "commands": [], "rows": {}, "steps": {}}
    known |= {
        "model": "m" * 64,
        "answers": file_sha256(work.experiment.responses),
        "minutes": {"train": 1.0},
        "jobs": 1,
    }
    return {**known, **work.identities[run.name], "benchmarks": {}, "curves": {}}


def test_a_job_that_fails_does_not_stop_the_others_and_the_same_command_does_it_again(
    work: ExperimentWork, monkeypatch: Any, capsys: Any
) -> None:
    done = []

    def do(run: ArmRun, place: str) -> Row:
        done.append(run.name)
        if run.name == "static-3-seed1" and done.count(run.name) == 1:
            raise StageError("train ended with code 1")
        return fake_row(work, run)

    monkeypatch.setattr(work, "result", do)
    monkeypatch.setattr(work.stages, "run", lambda *given: None)
    assert work.do() == ["static-3-seed1: train ended with code 1"]
    assert done == ["base", "static-3-seed1", "static-3-seed2"]
    assert [run.name for run in work.todo()] == ["static-3-seed1"]
    assert "static-3-seed2: done in 1.0 min; 2 of 3 done, about 0 min left" in capsys.readouterr().out
    tables = (work.experiment.results / "tables.md").read_text()
    assert "**Missing, not yet run:** curriculum-seed1, curriculum-seed2, best-only-seed1" in tables
    assert work.do() == [] == work.todo()
    assert done[3:] == ["static-3-seed1"]


def test_without_answers_nothing_is_trained(work: ExperimentWork, monkeypatch: Any) -> None:
    work.stages.stopped.set()
    monkeypatch.setattr(work, "result", lambda *given: pytest.fail("a job was started"))
    assert work.do() == ["answers: stopped"]


def test_nothing_is_trained_on_other_answers_than_the_results(work: ExperimentWork, monkeypatch: Any) -> None:
    monkeypatch.setattr(work.stages, "run", lambda *given: None)
    monkeypatch.setattr(work, "result", lambda *given: pytest.fail("a job was started"))
    written(work, work.runs[1], fake_row(work, work.runs[1]))
    write_text(work.experiment.responses, "{} \n")
    with pytest.raises(InputError, match=r"static-3-seed1\.json: was trained on other answers than those of .*jsonl: "):
        work.do()


def test_a_result_of_other_settings_is_never_overwritten(work: ExperimentWork) -> None:
    row = fake_row(work, work.runs[1])
    row["settings"]["train"]["accuracy"] = "best-only"
    result = written(work, work.runs[1], row)
    with pytest.raises(InputError, match=r"is the result of settings\.train\.accuracy=best-only, not all-pairs"):
        ExperimentWork(work.experiment).todo()
    assert read_result(work.experiment.result("static-3", 1)).row == result.row


def test_a_stage_is_a_process_with_a_log_and_its_minutes_add_up(tmp_path: Path, capsys: Any) -> None:
    stages, log, minutes = StageProcesses(), tmp_path / "run" / "synthesize.log", tmp_path / "minutes.json"
    minutes.write_text('{"train": 3.5, "synthesize": 2.0}')
    stages.run(StageCommand("synthesize", ("--help",), {}), log, "answers", minutes)
    assert "usage: key=value" in log.read_text()
    assert "answers | usage: key=value" in capsys.readouterr().out
    spent = json.loads(minutes.read_text())
    assert spent["train"] == 3.5 and 2.0 <= spent["synthesize"] < 3.0
    stages.run(StageCommand("bench", ("--help",), {}), log, "judge")
    assert "judge |" not in capsys.readouterr().out  # tables would bury the rest
    with pytest.raises(StageError, match=r"synthesize ended with code 2 .*error: .* unknown key 'alpha'"):
        stages.run(StageCommand("synthesize", ("alpha=1",), {}), log, "answers")


def test_stopping_ends_what_runs_and_lets_nothing_start(tmp_path: Path, monkeypatch: Any) -> None:
    stages, command = StageProcesses(), StageCommand("train", (), {})
    (tmp_path / "here.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(StageCommand, "module_and_words", ["here"])
    threading.Timer(1, stages.stopped.set).start()
    for said in ("train was stopped", "stopped"):
        with pytest.raises(StageError, match=f"^{said}$"):
            stages.run(command, tmp_path / "log", "judge")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("benchmarks=[nano]", "benchmarks: unknown name 'nano'"),
        ("bench.nano_eval.n=0", "nano_eval.n: must be a whole number from 1 to 100,000"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_trained(
    word: str, said: str, write_ragchecker: Any, tmp_path: Path, refusal: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(write_ragchecker()))
    monkeypatch.setattr(StageProcesses, "run", lambda *given: pytest.fail("a stage was started"))
    assert said in refusal(program.main, words(tmp_path, word))
