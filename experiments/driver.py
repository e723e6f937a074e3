"""Runs an experiment: answers once, then each arm and seed, a result file as it ends, tables after each."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import mean

from omegaconf import DictConfig

from eval_benchmarks.bench_settings import BenchSettings, read_settings
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets.registry import load_benchmarks
from eval_benchmarks.model_checks import check_models
from experiments.arm_results import (
    check_answers,
    check_ratios,
    identity,
    is_done,
    read_results,
    result_row,
    write_result,
)
from experiments.plan import ArmRun, Command, Experiment, plan_answers, plan_bench, plan_runs, read_experiment
from experiments.report import write_report
from rag_zeval.files import Row, read_json, write_json
from rag_zeval.stages.config import load_config

LAST_WORDS = 3  # lines of a failed stage's output that are shown


def run_experiment(config: DictConfig) -> int:
    """Train and measure what has no result file yet, then write tables and figures; 1 if anything failed.

    Raises InputError, before anything is trained, for settings that do not fit, also to the result files there are.
    """
    experiment = read_experiment(config)
    failed = [] if config.only_tables else Work(experiment).do()
    write_report(experiment)
    for line in failed:
        print(f"error: {line}", file=sys.stderr)
    return 1 if failed else 0


class Work:
    """What an experiment has to train and to measure, and how each is done."""

    def __init__(self, experiment: Experiment):
        self.experiment = experiment
        self.answers = plan_answers(experiment)
        self.runs = plan_runs(experiment)
        bench = plan_bench(experiment, self.runs[0])
        settings = read_settings(load_config("bench", bench.words), BenchSettings)
        check_models(settings)
        self.benchmarks: Sequence[Benchmark] = load_benchmarks(settings)[0]
        check_ratios(self.benchmarks)
        self.identities = {
            run.name: identity(run, self.answers.settings, self.benchmarks, bench.settings) for run in self.runs
        }
        self.stages = StageProcesses()

    def todo(self) -> list[ArmRun]:
        """The arms and seeds without a result."""
        path = self.experiment.result
        return [run for run in self.runs if not is_done(path(run.arm, run.seed), self.identities[run.name])]

    def do(self) -> list[str]:
        """Do what is to do, some at a time; a line for each that failed. One that fails does not stop the others."""
        todo, total = self.todo(), len(self.runs)
        results = read_results(self.experiment)  # files that do not belong together are refused now, not after hours
        print(f"{self.experiment.name}: {total - len(todo)} of {total} results exist, in {self.experiment.results}")
        if any(run.commands for run in todo):
            try:
                self.stages.make_answers(self.experiment)
            except StageError as error:
                return [f"answers: {error}"]
            check_answers(self.experiment, results)
        failed, trained = [], []
        with ThreadPoolExecutor(self.experiment.jobs) as pool:
            futures = {pool.submit(self.result, run, f"{at} of {len(todo)}"): run for at, run in enumerate(todo, 1)}
            try:
                for ended, future in enumerate(as_completed(futures), 1):
                    run = futures[future]
                    try:
                        row = future.result()
                    except StageError as error:
                        failed.append(f"{run.name}: {error}")
                        print(failed[-1], flush=True)
                        continue
                    write_result(self.experiment.result(run.arm, run.seed), row)
                    minutes = sum(row["minutes"].values())
                    trained += [minutes] if run.commands else []
                    progress = f"{ended - len(failed)} of {len(todo)} done"
                    if trained:
                        left = mean(trained) * (len(todo) - ended) / self.experiment.jobs
                        progress += f", about {left:.0f} min left"
                    print(f"{run.name}: done in {minutes:.1f} min; {progress}", flush=True)
                    write_report(self.experiment, quiet=True)
            except BaseException:
                self.stages.stop()
                pool.shutdown(cancel_futures=True)
                raise
        return failed

    def result(self, run: ArmRun, place: str) -> Row:
        """Train and measure; the content of the result file. Raises StageError."""
        print(f"{run.name}: {place}", flush=True)
        minutes = self.stages.train(self.experiment, run, plan_bench(self.experiment, run))
        known = {**self.identities[run.name], "minutes": minutes, "jobs": self.experiment.jobs}
        return result_row(self.experiment, run, self.benchmarks, known)


class StageError(Exception):
    """A stage ended with an error; the message is one line."""


class StageProcesses:
    """Stages as processes of their own, one for each thread that calls."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._stopped = threading.Event()

    def make_answers(self, experiment: Experiment) -> None:
        """Make the answers that all arms are trained on, unless they are there. Raises StageError."""
        self.run(plan_answers(experiment), experiment.runs / "synthesize.log", "answers")

    def train(self, experiment: Experiment, run: ArmRun, *after: Command) -> dict[str, float]:
        """Train an arm and seed, and what comes after; the minutes of each stage. Raises StageError."""
        folder = experiment.folder(run)
        minutes = folder / "minutes.json"
        for command in (*run.commands, *after):
            self.run(command, folder / f"{command.stage}.log", run.name, minutes)
        return read_json(minutes)

    def run(self, command: Command, log: Path, name: str, minutes: Path | None = None) -> None:
        """Run a stage to its end; its output goes to `log` and, but for the bench's tables, to the terminal.

        `minutes`: a JSON file to which the stage's wall-clock is added as it goes, so that a run that was cut off and
        taken up again counts all of it. Raises StageError.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        before = read_json(minutes) if minutes and minutes.exists() else {}
        started = time.monotonic()

        def count() -> None:
            if minutes:
                spent = before.get(command.stage, 0.0) + (time.monotonic() - started) / 60
                write_json(minutes, {**before, command.stage: round(spent, 2)})

        last: list[str] = []
        with open(log, "a", encoding="utf-8") as file, self._start(command) as process:
            try:
                for line in process.stdout or ():
                    file.write(line)
                    file.flush()
                    last = [*last, line.strip()][-LAST_WORDS:]
                    if command.stage != "bench":
                        print(f"{name} | {line.rstrip()}", flush=True)
                    count()
            except BaseException:
                process.terminate()
                raise
        count()
        if process.returncode:
            raise StageError(f"{command.stage} ended with code {process.returncode} ({log}): {' / '.join(last)}")

    def _start(self, command: Command) -> subprocess.Popen[str]:
        if self._stopped.is_set():
            raise StageError("stopped")
        one_thread = {"OMP_NUM_THREADS": "1"}  # more get in each other's way
        process = subprocess.Popen(
            [sys.executable, *command.argv],
            env={**one_thread, **os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        self._processes.append(process)
        if self._stopped.is_set():  # since it was asked above
            process.terminate()
        return process

    def stop(self) -> None:
        """Ask the stages that run to end, and start no other; each leaves its files so that it can be taken up."""
        self._stopped.set()
        for process in self._processes:
            process.terminate()  # nothing where it has ended
